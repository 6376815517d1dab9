//! A wall clock that a test sets, for one daemon or server, by libfaketime (Debian package `faketime`). The boot-time
//! clock stays the system's.

use std::fs;
use std::path::PathBuf;

use leafd_wire::Layout;

use crate::host::Host;
use crate::servers::Process;

/// The offset of a daemon's or server's wall clock from the system's.
pub struct WallClock {
    offset: PathBuf,
}

impl WallClock {
    /// Gives a host that has not started such a clock. It starts without an offset.
    pub fn of(host: Host) -> (Host, WallClock) {
        let (clock, variables) = WallClock::in_file(host.path("offset"));
        let host = variables.iter().fold(host, |host, (name, value)| host.variable(name, value));
        (host, clock)
    }

    /// Gives such a clock to a server, from its next start on.
    pub fn of_server(server: &mut Process) -> WallClock {
        let (clock, variables) = WallClock::in_file(server.dir.join("offset"));
        let set = variables.iter().map(|(name, value)| format!("{name}={}", value.display()));
        let words: Vec<String> = ["env".to_owned()].into_iter().chain(set).collect();
        let at = server.program.iter().position(|word| word.starts_with('/'));
        let at = at.expect("a program has a path");
        server.program.splice(at..at, words);
        clock
    }

    /// A clock, and the environment variables of who has it.
    fn in_file(offset: PathBuf) -> (WallClock, [(&'static str, PathBuf); 5]) {
        let library = ["x86_64-linux-gnu", "aarch64-linux-gnu", ""]
            .map(|triple| PathBuf::from("/usr/lib").join(triple).join("faketime/libfaketime.so.1"))
            .into_iter()
            .find(|path| path.exists())
            .expect("libfaketime is needed: install the package faketime");
        fs::write(&offset, "+0").unwrap();
        let variables = [
            ("LD_PRELOAD", library),
            ("FAKETIME_TIMESTAMP_FILE", offset.clone()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            ("NO_FAKE_STAT", "1".into()),
        ];
        (WallClock { offset }, variables)
    }

    /// Sets the clock this many seconds off.
    pub fn step(&self, seconds: i64) {
        let next = self.offset.with_extension("next");
        fs::write(&next, format!("{seconds:+}")).unwrap();
        fs::rename(&next, &self.offset).unwrap();
    }
}

/// How far an id of Leaf's layout is ahead of the true time, in milliseconds.
pub fn ahead_ms(id: u64) -> i64 {
    let tick = Layout::LEAF.decompose(id).unwrap().tick;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Layout::LEAF.tick_start_ms(tick) as i64 - now.as_millis() as i64
}

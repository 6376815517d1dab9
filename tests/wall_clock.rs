//! A wall clock that a test sets for one daemon or server, by preloading the library built from `wall_clock.c`. The
//! boot-time clock stays the system's.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use leafd_wire::Layout;

use crate::host::Host;
use crate::servers::Process;

/// The offset of a daemon's or server's wall clock from the system's.
pub struct WallClock {
    offset: PathBuf,
}

impl WallClock {
    /// Gives a host that has not been started such a clock, without an offset at first.
    pub fn of(host: Host) -> (Host, WallClock) {
        let (clock, variables) = WallClock::in_file(host.path("offset"));
        let host = variables.iter().fold(host, |host, (name, value)| host.variable(name, value));
        (host, clock)
    }

    /// Gives a server such a clock, from its next start on.
    pub fn of_server(server: &mut Process) -> WallClock {
        let (clock, variables) = WallClock::in_file(server.dir.join("offset"));
        let set = variables.iter().map(|(name, value)| format!("{name}={}", value.display()));
        let words: Vec<String> = ["env".to_owned()].into_iter().chain(set).collect();
        let at = server.program.iter().position(|word| word.starts_with('/'));
        let at = at.expect("a program has a path");
        server.program.splice(at..at, words);
        clock
    }

    /// A clock, and the environment variables for a process that uses it.
    fn in_file(offset: PathBuf) -> (WallClock, [(&'static str, PathBuf); 2]) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("wall_clock.c");
        let library = offset.with_extension("so");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .args([&library, &source])
            .status();
        assert!(compiled.unwrap().success(), "cc can't compile {}", source.display());
        fs::write(&offset, 0_i64.to_ne_bytes()).unwrap();
        let variables = [("LD_PRELOAD", library), ("WALL_CLOCK_OFFSET", offset.clone())];
        (WallClock { offset }, variables)
    }

    /// Sets the clock this many seconds off.
    pub fn step(&self, seconds: i64) {
        self.step_ms(seconds * 1_000);
    }

    /// Sets the clock this many milliseconds off.
    pub fn step_ms(&self, ms: i64) {
        let file = fs::OpenOptions::new().write(true).open(&self.offset).unwrap();
        file.write_all_at(&ms.to_ne_bytes(), 0).unwrap();
    }
}

/// How far an id of Leaf's layout is ahead of the true time, in milliseconds.
pub fn ahead_ms(id: u64) -> i64 {
    let tick = Layout::LEAF.decompose(id).unwrap().tick;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Layout::LEAF.tick_start_ms(tick) as i64 - now.as_millis() as i64
}

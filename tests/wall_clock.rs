//! A wall clock that a test sets, for one daemon, by libfaketime (Debian package `faketime`). The daemon's boot-time
//! clock stays the system's.

use std::fs;
use std::path::PathBuf;

use leafd_wire::Layout;

use crate::host::Host;

/// The offset of a daemon's wall clock from the system's.
pub struct WallClock {
    offset: PathBuf,
}

impl WallClock {
    /// Gives a host that has not started such a clock. It starts without an offset.
    pub fn of(host: Host) -> (Host, WallClock) {
        let library = ["x86_64-linux-gnu", "aarch64-linux-gnu", ""]
            .map(|triple| PathBuf::from("/usr/lib").join(triple).join("faketime/libfaketime.so.1"))
            .into_iter()
            .find(|path| path.exists())
            .expect("libfaketime is needed: install the package faketime");
        let offset = host.path("offset");
        fs::write(&offset, "+0").unwrap();
        let host = host
            .variable("LD_PRELOAD", library)
            .variable("FAKETIME_TIMESTAMP_FILE", &offset)
            .variable("FAKETIME_NO_CACHE", "1")
            .variable("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .variable("NO_FAKE_STAT", "1");
        (host, WallClock { offset })
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

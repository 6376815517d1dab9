//! The kernel's counters for this process, under the names that all exporters use.

use std::fs;

use nix::unistd::{SysconfVar, sysconf};

use super::text::TextWriter;

/// A number that can't be read is left out.
pub(super) fn write(w: &mut TextWriter) {
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100) as f64;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The process's name in this file may contain spaces.
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let number =
        |field: usize| fields.split(' ').nth(field).and_then(|text| text.parse::<f64>().ok());
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4_096) as f64;
    let resident = pages.split(' ').nth(1).and_then(|text| text.parse::<f64>().ok());
    let open = fs::read_dir("/proc/self/fd").map(|entries| entries.count() as f64).ok();
    let cpu = number(11).zip(number(12)).map(|(user, system)| (user + system) / per_second);
    let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
    let booted = boot.lines().find_map(|line| line.strip_prefix("btime ")?.parse::<f64>().ok());
    let started = booted.zip(number(19)).map(|(boot, ticks)| boot + ticks / per_second);
    w.one("process_cpu_seconds_total", cpu);
    w.one("process_resident_memory_bytes", resident.map(|pages| pages * page));
    w.one("process_open_fds", open);
    w.one("process_start_time_seconds", started);
}

//! The machine that was measured, because numbers mean nothing without it.

use std::fmt;

use serde::Serialize;

/// What the head of the table says.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Machine {
    cores: usize,
    cpu: String,
    kernel: String,
    /// Processes that ran or wanted to, by the average over a minute before the run.
    load: String,
    release: &'static str,
    /// Whether this program was compiled to be measured.
    optimized: bool,
}

impl Machine {
    pub(super) fn look() -> Machine {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let model = read("/proc/cpuinfo").lines().find_map(|line| {
            Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned())
        });
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu: model.unwrap_or_else(|| "unknown processor".to_owned()),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
            release: env!("CARGO_PKG_VERSION"),
            optimized: !cfg!(debug_assertions),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cores, cpu, kernel, load, release, optimized } = self;
        writeln!(
            f,
            "leafd {release} on {cores} cores of {cpu}, Linux {kernel}, load {load} before the run"
        )?;
        if !optimized {
            writeln!(f, "THIS IS A DEBUG BUILD: its numbers say nothing about a release")?;
        }
        Ok(())
    }
}

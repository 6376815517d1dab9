//! The machine that was measured, because numbers mean nothing without it.

use std::fmt;
use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
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

/// What the machine's processors do from some moment on.
#[derive(Debug)]
pub(super) struct Watch {
    began: Instant,
    busy: Duration,
    ours: Duration,
}

impl Watch {
    pub(super) fn begin() -> Watch {
        Watch { began: Instant::now(), busy: busy(), ours: ours() }
    }

    /// What everything but the bench has used since, in percent of one core. To be asked when the
    /// processes that the bench started have ended.
    pub(super) fn others_percent(&self) -> f64 {
        let busy = busy().saturating_sub(self.busy);
        let others = busy.saturating_sub(ours().saturating_sub(self.ours));
        others.as_secs_f64() / self.began.elapsed().as_secs_f64() * 100.0
    }
}

/// Time that all processors together have worked, or were kept from working by other virtual machines.
fn busy() -> Duration {
    /// The unit of `/proc/stat`, the same on every Linux.
    const TICK_MS: u64 = 10;
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    let fields = first.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0));
    // user, nice, system, idle, iowait, irq, softirq, steal
    let working = fields.take(8).enumerate().filter(|(index, _)| !matches!(index, 3 | 4));
    Duration::from_millis(working.map(|(_, ticks): (_, u64)| ticks).sum::<u64>() * TICK_MS)
}

/// Time of this process and of those of its children that have ended.
fn ours() -> Duration {
    let time = |usage: Usage| {
        let (user, system) = (usage.user_time(), usage.system_time());
        Duration::from_micros(
            u64::try_from(user.num_microseconds() + system.num_microseconds()).unwrap_or(0),
        )
    };
    [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN]
        .into_iter()
        .filter_map(|who| getrusage(who).ok())
        .map(time)
        .sum()
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

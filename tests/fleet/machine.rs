//! The machine that was measured, and what else it did meanwhile.

use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

use super::Plan;
use crate::servers::process::{memory, place};

/// Above so much of a core, the figures are not the machine's own.
const OTHERS_PERCENT_MAX: f64 = 10.0;

/// The machine from some moment on.
pub(super) struct Machine {
    begun: Instant,
    busy: Duration,
    ours: Duration,
}

impl Machine {
    pub(super) fn look() -> Machine {
        Machine { begun: Instant::now(), busy: busy(), ours: ours() }
    }

    /// How the run was made. To be asked when everything that it started has ended.
    pub(super) fn about(&self, plan: &Plan, took: Duration) -> Vec<String> {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo").lines().find_map(|line| {
            Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned())
        });
        let others =
            busy().saturating_sub(self.busy).saturating_sub(ours().saturating_sub(self.ours));
        let others_percent = others.as_secs_f64() / self.begun.elapsed().as_secs_f64() * 100.0;
        let files = match place() {
            place if place == memory() => "in memory, where a commit waits for no disk".to_owned(),
            place => format!("in {}, synced at each commit", place.display()),
        };
        let mut about = vec![
            format!(
                "leafd {} on {} cores of {}, Linux {}",
                env!("CARGO_PKG_VERSION"),
                std::thread::available_parallelism().map_or(1, usize::from),
                cpu.unwrap_or_else(|| "an unknown processor".to_owned()),
                read("/proc/sys/kernel/osrelease").trim()
            ),
            format!("server, daemons and clients on this machine; the server's files {files}"),
            format!(
                "{} s a measurement, medians of {} rounds; {:.0} s in all",
                plan.time.as_secs_f64(),
                plan.rounds,
                took.as_secs_f64()
            ),
            format!(
                "meanwhile everything else on the machine used {others_percent:.0} % of a core"
            ),
        ];
        if others_percent > OTHERS_PERCENT_MAX {
            about.push(
                "THE MACHINE WAS BUSY: latencies say little; ratios and counts more".to_owned(),
            );
        }
        if cfg!(debug_assertions) {
            about.push("THIS IS A DEBUG BUILD: its figures say nothing about a release".to_owned());
        }
        about
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

/// Time of this process and of those of its children, and theirs, that have ended.
fn ours() -> Duration {
    let time = |usage: Usage| {
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        Duration::from_micros(micros.try_into().unwrap_or(0))
    };
    let both = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN];
    both.into_iter().filter_map(|who| getrusage(who).ok()).map(time).sum()
}

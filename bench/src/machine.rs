//! The machine, and what else it did during the run: numbers mean nothing without it.

use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

/// If other programs use more of a core than this, the numbers are not reliable.
const OTHERS_PERCENT_MAX: f64 = 10.0;

/// The machine from some moment on.
#[derive(Debug)]
pub(crate) struct Machine {
    began: Instant,
    busy: Duration,
    ours: Duration,
    /// The load average of the minute before.
    load: String,
}

impl Machine {
    pub(crate) fn look() -> Machine {
        let load = read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned();
        Machine { began: Instant::now(), busy: busy(), ours: ours(), load }
    }

    /// How the run was made, as lines. Call it when everything that the run started has ended.
    pub(crate) fn about(&self) -> Vec<String> {
        let cpu = read("/proc/cpuinfo").lines().find_map(|line| {
            Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned())
        });
        let others_percent = self.others_percent();
        let mut about = vec![
            format!(
                "leafd {} on {} cores of {}, Linux {}, load {} before the run",
                env!("CARGO_PKG_VERSION"),
                std::thread::available_parallelism().map_or(1, usize::from),
                cpu.unwrap_or_else(|| "an unknown processor".to_owned()),
                read("/proc/sys/kernel/osrelease").trim(),
                self.load,
            ),
            format!(
                "{:.0} s in all; meanwhile everything else on the machine used {others_percent:.0} % of a core",
                self.began.elapsed().as_secs_f64()
            ),
        ];
        if others_percent > OTHERS_PERCENT_MAX {
            about.push(
                "THE MACHINE WAS BUSY: latencies say little, ratios and counts more; measure again when it is idle"
                    .to_owned(),
            );
        }
        if cfg!(debug_assertions) {
            about.push("THIS IS A DEBUG BUILD: its numbers say nothing about a release".to_owned());
        }
        about
    }

    /// How much others have used since, in percent of one core.
    fn others_percent(&self) -> f64 {
        let busy = busy().saturating_sub(self.busy);
        let others = busy.saturating_sub(ours().saturating_sub(self.ours));
        others.as_secs_f64() / self.began.elapsed().as_secs_f64() * 100.0
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// How long all processors together have worked, or were kept from working by other virtual machines.
fn busy() -> Duration {
    /// The unit of `/proc/stat`, the same on every Linux.
    const TICK_MS: u64 = 10;
    let text = read("/proc/stat");
    let first = text.lines().next().unwrap_or_default();
    let fields = first.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0));
    // user, nice, system, idle, iowait, irq, softirq, steal
    let working = fields.take(8).enumerate().filter(|(index, _)| !matches!(index, 3 | 4));
    Duration::from_millis(working.map(|(_, ticks): (_, u64)| ticks).sum::<u64>() * TICK_MS)
}

/// The time of this process and of its ended descendants.
fn ours() -> Duration {
    let time = |usage: Usage| {
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        Duration::from_micros(micros.try_into().unwrap_or(0))
    };
    let both = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN];
    both.into_iter().filter_map(|who| getrusage(who).ok()).map(time).sum()
}

//! The budgets that the design sets for the rows.

use super::Results;
use super::footprint::Cost;
use super::rows::{Row, System, Workload};
use crate::report::Budget;
use crate::stats::Metric::{IdsPerSecond, NsPerId, P50Us, P99Us, ServerCpuPercent, TailExcessUs};
use crate::stats::median;

/// The most ids per second of the default layout: 4,096 in each millisecond.
const SNOWFLAKE_CAP: f64 = 4_096_000.0;

/// Which way is better.
#[derive(Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

use Limit::{AtLeast, AtMost};

pub(super) fn judge(results: &Results) -> Vec<Budget> {
    let mut budgets = Vec::new();
    for system in [System::Segment, System::Snowflake] {
        let row = |workload| Row { system, workload };
        let mut to_redis = |workload, against, metric, limit, unit: &str| {
            let redis = Row { system: System::Redis, workload: against };
            let measured = median(results.ratios(row(workload), redis, metric));
            budgets.push(budget(&row(workload).name(), measured, limit, unit));
        };
        let alone = Workload::BackToBack;
        to_redis(alone, alone, P50Us, AtMost(0.3), "x Redis p50");
        let steady = Workload::Steady;
        to_redis(steady, steady, P50Us, AtMost(1.0), "x Redis p50");
        to_redis(steady, steady, P99Us, AtMost(1.0), "x Redis p99");
        for (many, times) in [
            (Workload::Pipelined, 3.0),
            (Workload::EightConnections, 1.5),
            // One core is left to the server then: 1.5 times as much can't be had in every run. But no row may be
            // behind.
            (Workload::Connections64, 1.0),
            (Workload::Connections512, 1.0),
        ] {
            to_redis(many, many, IdsPerSecond, AtLeast(times), "x Redis ids/s");
        }
        // Its p99 is the time that the system takes to give one of seventeen processes a core. It is not judged.
        let paced = Workload::SixteenPaced;
        to_redis(paced, paced, P50Us, AtMost(1.0), "x Redis p50");
        if system == System::Segment {
            to_redis(Workload::HeldSteady, Workload::Steady, P99Us, AtMost(0.2), "x Redis p99");
        }
        let mut own = |workload, metric, limit, unit: &str| {
            let measured = results.median(row(workload), metric);
            budgets.push(budget(&row(workload).name(), measured, limit, unit));
        };
        own(Workload::Steady, ServerCpuPercent, AtMost(3.0), " % of a core");
        own(Workload::HeldTail, TailExcessUs, AtMost(5.0), " us p99.9 over an empty loop");
        if system == System::Segment {
            // A layout's cap allows one id per 244 ns, so these budgets don't apply to snowflake
            // ids.
            own(Workload::HeldSteady, P50Us, AtMost(1.0), " us p50");
            own(Workload::Held, NsPerId, AtMost(10.0), " ns/id");
            own(Workload::HeldByTwo, NsPerId, AtMost(25.0), " ns/id");
        }
    }
    let all = Row { system: System::Snowflake, workload: Workload::HeldProcesses };
    let share = results.median(all, IdsPerSecond).map(|rate| rate / SNOWFLAKE_CAP * 100.0);
    budgets.push(budget(&all.name(), share, AtLeast(95.0), " % of the layout's cap"));
    for (cost, most) in [
        (Cost::IdleCpuPercent, 0.05),
        (Cost::IdleMib, 12.0),
        (Cost::TagsMib, 24.0),
        (Cost::ConnectionsMib, 18.0),
        (Cost::AfterConnectionsMib, 14.0),
        (Cost::ProgramMb, 12.0),
        (Cost::ReadyFreshMs, 15.0),
        (Cost::ReadyWarmMs, 15.0),
    ] {
        budgets.push(budget(cost.name(), results.costs.get(&cost).copied(), AtMost(most), ""));
    }
    budgets
}

fn budget(row: &str, measured: Option<f64>, limit: Limit, unit: &str) -> Budget {
    match limit {
        AtMost(most) => Budget::at_most(row, measured, most, unit),
        AtLeast(least) => Budget::at_least(row, measured, least, unit),
    }
}

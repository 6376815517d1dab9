//! What the design allows each row to cost, and whether it does.

use serde::Serialize;

use super::figures::Metric;
use super::report::Results;
use super::rows::{Row, Shape, System};
use super::upkeep::Cost;

/// One budget, judged.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Verdict {
    /// What it is about.
    pub(super) what: String,
    /// What is allowed, in words.
    pub(super) allowed: String,
    /// What was measured, in the same unit.
    pub(super) measured: Option<f64>,
    /// `None`: something that it needs was not measured.
    pub(super) met: Option<bool>,
    #[serde(skip)]
    pub(super) row: Option<Row>,
    #[serde(skip)]
    pub(super) cost: Option<Cost>,
}

/// Most ids a second of the default layout: 4,096 in each millisecond.
pub(super) const SNOWFLAKE_CAP: f64 = 4_096_000.0;

/// Which way is better.
#[derive(Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

use Limit::{AtLeast, AtMost};
use Metric::{IdsPerSecond, NsPerId, P50Us, P99Us, ServerCpuPercent, TailExcessUs};

/// Judges every budget.
pub(super) fn judge(results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for system in [System::Segment, System::Snowflake] {
        let row = |shape| Row { system, shape };
        let mut to_redis = |shape, against, metric, limit, unit: &str| {
            let redis = Row { system: System::Redis, shape: against };
            let measured = results.ratio(row(shape), redis, metric);
            verdicts.push(verdict(row(shape), measured, limit, unit));
        };
        to_redis(Shape::BackToBack, Shape::BackToBack, P50Us, AtMost(0.3), "x Redis p50");
        to_redis(Shape::Steady, Shape::Steady, P50Us, AtMost(1.0), "x Redis p50");
        to_redis(Shape::Pipelined, Shape::Pipelined, IdsPerSecond, AtLeast(2.0), "x Redis ids/s");
        let eight = Shape::EightConnections;
        to_redis(eight, eight, IdsPerSecond, AtLeast(1.5), "x Redis ids/s");
        if system == System::Segment {
            to_redis(Shape::LeasedSteady, Shape::Steady, P99Us, AtMost(0.2), "x Redis p99");
        }
        let mut own = |shape, metric, limit, unit: &str| {
            verdicts.push(verdict(row(shape), results.median(row(shape), metric), limit, unit));
        };
        own(Shape::Steady, ServerCpuPercent, AtMost(5.0), " % of a core");
        own(Shape::LeasedTail, TailExcessUs, AtMost(5.0), " us p99.9 over an empty loop");
        if system == System::Segment {
            // A layout's cap allows an id each 244 ns, so these are no budgets of snowflake's.
            own(Shape::LeasedSteady, P50Us, AtMost(1.0), " us p50");
            own(Shape::Leased, NsPerId, AtMost(10.0), " ns/id");
            own(Shape::LeasedByTwo, NsPerId, AtMost(25.0), " ns/id");
        }
    }
    let all = Row { system: System::Snowflake, shape: Shape::LeasedProcesses };
    let share = results.median(all, IdsPerSecond).map(|rate| rate / SNOWFLAKE_CAP * 100.0);
    verdicts.push(verdict(all, share, AtLeast(95.0), " % of the layout's cap"));
    for (cost, what, limit, unit) in [
        (Cost::IdleCpuPercent, "daemon, idle", AtMost(0.1), " % of a core"),
        (Cost::IdleMib, "daemon, idle", AtMost(10.0), " MiB"),
        (Cost::TagsMib, "daemon, 10,000 active tags", AtMost(30.0), " MiB"),
        (Cost::ConnectionsMib, "daemon, 1,000 connections", AtMost(30.0), " MiB"),
        (Cost::ReadyFreshMs, "daemon, exec to ready, fresh", AtMost(50.0), " ms"),
        (Cost::ReadyWarmMs, "daemon, exec to ready, 10,000 marks", AtMost(50.0), " ms"),
    ] {
        let measured = results.costs.get(&cost).copied();
        let judged = verdict_of(what.to_owned(), measured, limit, unit);
        verdicts.push(Verdict { cost: Some(cost), ..judged });
    }
    verdicts
}

fn verdict(row: Row, measured: Option<f64>, limit: Limit, unit: &str) -> Verdict {
    Verdict { row: Some(row), ..verdict_of(row.name(), measured, limit, unit) }
}

fn verdict_of(what: String, measured: Option<f64>, limit: Limit, unit: &str) -> Verdict {
    let (allowed, met) = match limit {
        AtMost(most) => (format!("<= {most}{unit}"), measured.map(|value| value <= most)),
        AtLeast(least) => (format!(">= {least}{unit}"), measured.map(|value| value >= least)),
    };
    Verdict { what, allowed, measured, met, row: None, cost: None }
}

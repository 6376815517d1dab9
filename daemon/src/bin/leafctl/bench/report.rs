//! The outcome of a run: as a table for people, and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::budget::{Verdict, judge};
use super::figures::{Figures, Metric, median};
use super::machine::Machine;
use super::rows::{Row, Shape, System};
use super::upkeep::Costs;

/// Everything that was measured.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) machine: Machine,
    /// How the run was made, in words.
    pub(super) about: Vec<String>,
    pub(super) rounds: BTreeMap<Row, Vec<Figures>>,
    pub(super) costs: Costs,
    /// Ids that were compared.
    pub(super) ids: u64,
    pub(super) redis: bool,
}

/// A cell's unit decides how it is written.
#[derive(Clone, Copy)]
enum Unit {
    Us,
    Ns,
    Rate,
    Percent,
    Times,
}

const HEADINGS: [&str; 11] = [
    "row",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "ids/s",
    "ns/id",
    "ns/id/thread",
    "server CPU",
    "x Redis",
    "x echo",
    "budget",
];

const COLUMNS: [(Metric, Unit); 7] = [
    (Metric::P50Us, Unit::Us),
    (Metric::P99Us, Unit::Us),
    (Metric::P999Us, Unit::Us),
    (Metric::IdsPerSecond, Unit::Rate),
    (Metric::NsPerId, Unit::Ns),
    (Metric::NsPerIdOfThread, Unit::Ns),
    (Metric::ServerCpuPercent, Unit::Percent),
];

// === impl Results ===

impl Results {
    /// The median over the rounds.
    pub(super) fn median(&self, row: Row, metric: Metric) -> Option<f64> {
        let rounds = self.rounds.get(&row)?;
        median(rounds.iter().filter_map(|figures| figures.get(&metric).copied()).collect())
    }

    /// How many times another row's number a row's is.
    pub(super) fn ratio(&self, row: Row, to: Row, metric: Metric) -> Option<f64> {
        let ratio = self.median(row, metric)? / self.median(to, metric)?;
        ratio.is_finite().then_some(ratio)
    }

    pub(super) fn table(&self) -> String {
        let verdicts = judge(self);
        let mut out = self.machine.to_string();
        for line in &self.about {
            let _ = writeln!(out, "{line}");
        }
        out.push('\n');
        let mut lines = vec![HEADINGS.map(str::to_owned).to_vec()];
        lines.extend(self.rounds.keys().map(|&row| self.line(row, &verdicts)));
        if !self.redis {
            let mut line = vec!["redis: every row".to_owned()];
            line.extend(std::iter::repeat_n("-".to_owned(), HEADINGS.len() - 2));
            line.push("redis-server is not installed".to_owned());
            lines.push(line);
        }
        out.push_str(&aligned(&lines));
        let costs: Vec<&Verdict> =
            verdicts.iter().filter(|verdict| verdict.cost.is_some()).collect();
        if !self.costs.is_empty() {
            let mut lines =
                vec![vec!["daemon".to_owned(), "measured".to_owned(), "budget".to_owned()]];
            lines.extend(costs.iter().map(|verdict| {
                let measured =
                    verdict.measured.map_or("-".to_owned(), |value| format!("{value:.3}"));
                vec![verdict.what.clone(), measured, marked(verdict, false)]
            }));
            let _ = write!(out, "\n{}", aligned(&lines));
        }
        let missed = verdicts.iter().filter(|verdict| verdict.met == Some(false)).count();
        let met = verdicts.iter().filter(|verdict| verdict.met == Some(true)).count();
        let unknown = verdicts.len() - met - missed;
        let _ = writeln!(out, "\nbudgets: {met} met, {missed} missed, {unknown} not measured");
        let _ = writeln!(out, "ids compared: {}, no id came twice", thousands(self.ids as f64));
        out
    }

    fn line(&self, row: Row, verdicts: &[Verdict]) -> Vec<String> {
        let mut line = vec![row.name()];
        line.extend(COLUMNS.iter().map(|&(metric, unit)| cell(self.median(row, metric), unit)));
        let like = |system, shape| Row { system, shape };
        let to_redis = match row.shape {
            _ if row.system == System::Redis || row.system == System::Echo => None,
            Shape::LeasedSteady => self.compare(row, like(System::Redis, Shape::Steady)),
            shape => self.compare(row, like(System::Redis, shape)),
        };
        line.push(cell(to_redis, Unit::Times));
        let alone = matches!(row.shape, Shape::BackToBack | Shape::Blocking);
        let to_echo =
            alone.then(|| self.compare(row, like(System::Echo, Shape::Polling))).flatten();
        line.push(cell(to_echo, Unit::Times));
        let budgets = verdicts.iter().filter(|verdict| verdict.row == Some(row));
        line.push(budgets.map(|verdict| marked(verdict, true)).collect::<Vec<_>>().join("; "));
        line
    }

    /// By latency where one request is awaited at a time, else by the rate.
    fn compare(&self, row: Row, to: Row) -> Option<f64> {
        let metric = match row.shape {
            Shape::Pipelined | Shape::EightConnections | Shape::EightPipelined => {
                Metric::IdsPerSecond
            }
            _ => Metric::P50Us,
        };
        self.ratio(row, to, metric)
    }

    pub(super) fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rounds
            .iter()
            .map(|(&row, rounds)| {
                let metrics: std::collections::BTreeSet<Metric> =
                    rounds.iter().flat_map(|figures| figures.keys().copied()).collect();
                let medians: BTreeMap<Metric, Option<f64>> =
                    metrics.into_iter().map(|metric| (metric, self.median(row, metric))).collect();
                json!({
                    "system": row.system.name(),
                    "shape": row.shape.name(),
                    "medians": medians,
                    "rounds": rounds,
                })
            })
            .collect();
        json!({
            "machine": self.machine,
            "about": self.about,
            "redis": self.redis,
            "rows": rows,
            "daemon": self.costs,
            "budgets": judge(self),
            "ids_compared": self.ids,
        })
    }
}

fn marked(verdict: &Verdict, with_measured: bool) -> String {
    let mark = match verdict.met {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "not measured",
    };
    match verdict.measured {
        Some(measured) if with_measured => format!("{} {mark} ({measured:.2})", verdict.allowed),
        _ => format!("{} {mark}", verdict.allowed),
    }
}

fn cell(value: Option<f64>, unit: Unit) -> String {
    let Some(value) = value else { return "-".to_owned() };
    match unit {
        Unit::Us if value < 1.0 => format!("{value:.3}"),
        Unit::Us | Unit::Ns => format!("{value:.1}"),
        Unit::Rate => thousands(value),
        Unit::Percent => format!("{value:.1} %"),
        Unit::Times => format!("{value:.2}"),
    }
}

/// A whole number with commas.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The first and the last column to the left, numbers to the right.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| Some(line.get(column)?.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for line in lines {
        let mut text = String::new();
        for (column, value) in line.iter().enumerate() {
            let width = widths[column];
            let _ = match column {
                0 => write!(text, "{value:<width$}"),
                last if last + 1 == columns => write!(text, "  {value}"),
                _ => write!(text, "  {value:>width$}"),
            };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_columns_aligned() {
        assert_eq!(thousands(1_234_567.4), "1,234,567");
        assert_eq!(thousands(12.0), "12");
        let line = |a: &str, b: &str, c: &str| vec![a.to_owned(), b.to_owned(), c.to_owned()];
        let table = aligned(&[line("row", "n", "note"), line("a", "100", "")]);
        assert_eq!(table, "row    n  note\na    100\n");
    }
}

//! The results: as tables for people, and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::stats::median;

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Where and how the run was made, in words.
    pub(crate) about: Vec<String>,
    pub(crate) sections: Vec<Section>,
    pub(crate) budgets: Vec<Budget>,
    /// What could not be measured, and why.
    pub(crate) not_measured: Vec<String>,
    pub(crate) ids_compared: u64,
}

#[derive(Debug)]
pub(crate) struct Section {
    name: &'static str,
    about: String,
    columns: Vec<&'static str>,
    rows: Vec<Row>,
}

/// A row's numbers by column, one a round.
#[derive(Debug)]
struct Row {
    name: String,
    rounds: BTreeMap<&'static str, Vec<f64>>,
}

/// What the design allows for a row, and whether the row keeps within it.
#[derive(Debug)]
pub(crate) struct Budget {
    row: String,
    /// The budget in words.
    allowed: String,
    /// The measured value, in the same unit. `None`: something that it needs was not measured.
    measured: Option<f64>,
    met: Option<bool>,
}

// === impl Section ===

impl Section {
    pub(crate) fn new(name: &'static str, about: String, columns: &[&'static str]) -> Section {
        Section { name, about, columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Gives a row its place below the existing ones, if it has none yet.
    pub(crate) fn place(&mut self, row: &str) -> usize {
        self.rows.iter().position(|known| known.name == row).unwrap_or_else(|| {
            self.rows.push(Row { name: row.to_owned(), rounds: BTreeMap::new() });
            self.rows.len() - 1
        })
    }

    /// Adds a row's number of one round.
    #[track_caller]
    pub(crate) fn put(&mut self, row: &str, column: &'static str, value: f64) {
        assert!(self.columns.contains(&column), "{} has no column {column}", self.name);
        let place = self.place(row);
        self.rows[place].rounds.entry(column).or_default().push(value);
    }

    /// The median of a row's rounds.
    pub(crate) fn median(&self, row: &str, column: &str) -> Option<f64> {
        self.rows.iter().find(|known| known.name == row)?.median(column)
    }

    fn json(&self) -> Value {
        let row = |row: &Row| {
            let medians: BTreeMap<_, _> =
                self.columns.iter().map(|column| (column, row.median(column))).collect();
            json!({ "row": row.name, "medians": medians, "rounds": row.rounds })
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        json!({ "name": self.name, "about": self.about, "rows": rows })
    }

    fn table(&self, budgets: &[Budget]) -> String {
        let (lines, words) = self.lines(budgets);
        aligned(&lines, words)
    }

    /// The same in Markdown, without the judgements: for the documents.
    fn markdown(&self) -> String {
        let (mut lines, _) = self.lines(&[]);
        let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
        let rule = |column| match column {
            0 => "---",
            _ => "--:",
        };
        lines.insert(1, (0..columns).map(|column| rule(column).to_owned()).collect());
        lines.iter().map(|line| format!("| {} |\n", line.join(" | "))).collect()
    }

    /// Its cells, and whether the last column is of words.
    fn lines(&self, budgets: &[Budget]) -> (Vec<Vec<String>>, bool) {
        let of_row = |row: &Row| budgets.iter().filter(|budget| budget.row == row.name).collect();
        let budgets: Vec<Vec<&Budget>> = self.rows.iter().map(of_row).collect();
        let judged = budgets.iter().any(|of_row| !of_row.is_empty());
        let mut heading = vec![self.name.to_owned()];
        heading.extend(self.columns.iter().map(|column| (*column).to_owned()));
        heading.extend(judged.then(|| "budget".to_owned()));
        let mut lines = vec![heading];
        for (row, budgets) in self.rows.iter().zip(budgets) {
            let mut line = vec![row.name.clone()];
            line.extend(
                self.columns.iter().map(|column| row.median(column).map_or("-".into(), shown)),
            );
            if judged {
                let judgements: Vec<String> =
                    budgets.iter().map(|budget| budget.to_string()).collect();
                line.push(judgements.join("; "));
            }
            lines.push(line);
        }
        (lines, judged)
    }
}

impl Row {
    fn median(&self, column: &str) -> Option<f64> {
        median(self.rounds.get(column)?.clone())
    }
}

// === impl Budget ===

impl Budget {
    /// `unit` begins with a space where a person would put one.
    pub(crate) fn at_most(row: &str, measured: Option<f64>, limit: f64, unit: &str) -> Budget {
        let met = measured.map(|value| value <= limit);
        Budget { row: row.to_owned(), allowed: format!("<= {limit}{unit}"), measured, met }
    }

    pub(crate) fn at_least(row: &str, measured: Option<f64>, limit: f64, unit: &str) -> Budget {
        let met = measured.map(|value| value >= limit);
        Budget { row: row.to_owned(), allowed: format!(">= {limit}{unit}"), measured, met }
    }

    fn json(&self) -> Value {
        json!({ "row": self.row, "allowed": self.allowed, "measured": self.measured, "met": self.met })
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.allowed)?;
        match (self.met, self.measured) {
            (Some(true), Some(measured)) => write!(f, "met ({})", shown(measured)),
            (Some(false), Some(measured)) => write!(f, "MISSED ({})", shown(measured)),
            _ => write!(f, "not measured"),
        }
    }
}

// === impl Report ===

impl Report {
    /// Everything, each round included.
    pub(crate) fn json(&self) -> Value {
        let sections: Vec<Value> = self.sections.iter().map(Section::json).collect();
        let budgets: Vec<Value> = self.budgets.iter().map(Budget::json).collect();
        json!({
            "about": self.about,
            "sections": sections,
            "budgets": budgets,
            "not_measured": self.not_measured,
            "ids_compared": self.ids_compared,
        })
    }
}

impl Report {
    /// Its tables, to be put into the documents.
    pub(crate) fn markdown(&self) -> String {
        let tables = self
            .sections
            .iter()
            .map(|section| format!("{}\n\n{}", section.about, section.markdown()));
        let about = self.about.join("\n");
        format!("{about}\n\n{}", tables.collect::<Vec<_>>().join("\n"))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.about {
            writeln!(f, "{line}")?;
        }
        for section in &self.sections {
            writeln!(f, "\n{}\n\n{}", section.about, section.table(&self.budgets).trim_end())?;
        }
        writeln!(f)?;
        for line in &self.not_measured {
            writeln!(f, "not measured: {line}")?;
        }
        let judged = |met| self.budgets.iter().filter(|budget| budget.met == met).count();
        let (met, missed, unknown) = (judged(Some(true)), judged(Some(false)), judged(None));
        writeln!(f, "budgets: {met} met, {missed} missed, {unknown} not measured")?;
        writeln!(f, "ids compared: {}, no id came twice", thousands(self.ids_compared as f64))
    }
}

/// A number with about three significant digits.
fn shown(value: f64) -> String {
    match value.abs() {
        small if small < 0.9995 => format!("{value:.3}"),
        ones if ones < 9.995 => format!("{value:.2}"),
        tens if tens < 99.95 => format!("{value:.1}"),
        _ => thousands(value),
    }
}

/// A whole number with commas.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        let left = digits.len() - index;
        if index > 0 && left % 3 == 0 && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Aligns columns: the first one left, and the last one too if it has `words`; numbers right.
fn aligned(lines: &[Vec<String>], words: bool) -> String {
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
            text += &match column {
                0 => format!("{value:<width$}"),
                last if words && last + 1 == columns => format!("  {value}"),
                _ => format!("  {value:>width$}"),
            };
        }
        out += text.trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_and_are_grouped() {
        let shown: Vec<String> =
            [0.014, 0.9999, 9.3, 43.21, 999.4, 1_234_567.4, -1234.0].map(shown).into();
        assert_eq!(shown, ["0.014", "1.00", "9.30", "43.2", "999", "1,234,567", "-1,234"]);
        assert_eq!(thousands(-123.0), "-123");
    }

    #[test]
    fn tables_are_told_in_markdown() {
        let mut section = Section::new("row", "about".to_owned(), &["us"]);
        section.put("a", "us", 2.0);
        section.put("b", "us", 1.0);
        assert_eq!(section.markdown(), "| row | us |\n| --- | --: |\n| a | 2.00 |\n| b | 1.00 |\n");
    }

    #[test]
    fn columns_are_aligned_and_budgets_stand_beside_their_rows() {
        let mut section = Section::new("row", "about".to_owned(), &["us", "ids/s"]);
        for us in [1.0, 3.0, 2.0] {
            section.put("a", "us", us);
        }
        section.put("bbbb", "ids/s", 1000.0);
        let budgets =
            [Budget::at_most("a", Some(2.0), 1.0, " us"), Budget::at_least("c", None, 1.0, "x")];
        let table = section.table(&budgets);
        assert_eq!(
            table,
            "row     us  ids/s  budget\na     2.00      -  <= 1 us MISSED (2.00)\nbbbb     -  1,000\n"
        );
    }
}

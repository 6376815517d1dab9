//! Figures as tables for people, and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

/// Everything that was measured.
#[derive(Debug)]
pub struct Report {
    about: Vec<String>,
    /// The tables.
    pub sections: Vec<Section>,
}

/// A table.
#[derive(Debug)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    about: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<(String, BTreeMap<&'static str, Vec<f64>>)>,
}

impl Section {
    pub(super) fn new(
        name: &'static str,
        about: &'static str,
        columns: &[&'static str],
    ) -> Section {
        Section { name, about, columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds one round's figure of a row.
    #[track_caller]
    pub(super) fn put(&mut self, row: &str, column: &'static str, figure: f64) {
        assert!(self.columns.contains(&column), "{} has no column {column}", self.name);
        let place = self.rows.iter().position(|(name, _)| name == row).unwrap_or_else(|| {
            self.rows.push((row.to_owned(), BTreeMap::new()));
            self.rows.len() - 1
        });
        self.rows[place].1.entry(column).or_default().push(figure);
    }

    /// The names of the rows.
    pub fn rows(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|(name, _)| name.as_str())
    }

    /// The median of a row's rounds.
    pub fn median(&self, row: &str, column: &str) -> Option<f64> {
        let (_, figures) = self.rows.iter().find(|(name, _)| name == row)?;
        let mut rounds = figures.get(column)?.clone();
        rounds.sort_unstable_by(f64::total_cmp);
        let middle = rounds.len() / 2;
        Some(if rounds.len() % 2 == 1 {
            rounds[middle]
        } else {
            f64::midpoint(rounds[middle - 1], rounds[middle])
        })
    }

    fn json(&self) -> Value {
        let row = |(name, rounds): &(String, BTreeMap<&str, Vec<f64>>)| {
            let medians: BTreeMap<_, _> =
                self.columns.iter().map(|column| (column, self.median(name, column))).collect();
            json!({ "row": name, "medians": medians, "rounds": rounds })
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        json!({ "name": self.name, "about": self.about, "rows": rows })
    }
}

impl Report {
    pub(super) fn new(about: Vec<String>, sections: Vec<Section>) -> Report {
        Report { about, sections }
    }

    /// Everything, each round included.
    pub fn json(&self) -> Value {
        let sections: Vec<Value> = self.sections.iter().map(Section::json).collect();
        json!({ "about": self.about, "sections": sections })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.about.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        self.sections.iter().try_for_each(|section| section.fmt(f))
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}\n", self.about)?;
        let first = self.rows().map(str::len).max().unwrap_or(0).max(self.name.len());
        write!(f, "| {:<first$} |", self.name)?;
        for column in &self.columns {
            write!(f, " {column} |")?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "|-{:-<first$}-|{}",
            "",
            self.columns
                .iter()
                .map(|column| "-".repeat(column.len() + 1) + ":|")
                .collect::<String>()
        )?;
        for name in self.rows() {
            write!(f, "| {name:<first$} |")?;
            for column in &self.columns {
                let width = column.len();
                write!(
                    f,
                    " {:>width$} |",
                    self.median(name, column).map_or("-".to_owned(), shown)
                )?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// A figure with about three digits that say something, and commas.
fn shown(figure: f64) -> String {
    if figure.abs() < 9.995 {
        return format!("{figure:.2}");
    }
    let digits = format!("{figure:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

//! The page on faults is derived: each row says what covers it, by tests and events that exist, and each sentence that
//! promises something has its row.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::documents::{prose, read, root};

/// The faults that can happen and what is promised, each with the events and tests that cover it.
pub const FAULTS_PAGE: &str = "docs/reference/faults.md";

/// The pages that promise something.
const PROMISING: [&str; 6] = [
    "docs/reference/guarantees-and-limits.md",
    "docs/operate/fail-over.md",
    "docs/operate/restored-state.md",
    "docs/operate/restore.md",
    "docs/guide/snowflake.md",
    "docs/operate/engines.md",
];

/// Assigns each sentence of these pages to a row.
const PROMISES: &str = "tests/promises.txt";

/// Instead of a row: why a sentence has none.
const NO_PROMISES: [&str; 4] = ["(explains)", "(advises)", "(introduces)", "(refers)"];

/// The part of the page with what is promised beyond the faults.
const PROMISED: [&str; 6] = [
    "Ids",
    "Strict tags",
    "Fail-over and restored stores",
    "Restored state directories",
    "Workers and layouts",
    "Engines",
];

/// The file that counts the events of the simulator, and its simulations.
const COUNTERS: &str = "core/tests/simulator/check.rs";
const SIMULATIONS: [&str; 2] = ["failovers", "leases"];

/// Counters that don't count faults.
const NOT_FAULTS: [&str; 4] = ["ids", "excused", "excused_snowflakes", "starts"];

/// What runs a check on PostgreSQL, MariaDB and MySQL alike.
const ON_ALL_ENGINES: [&str; 4] =
    ["on_each_server!", "on_each_store!", "on_each_registry!", "conformance!"];

/// A row of a table, under the last heading before it.
pub struct Row {
    pub section: String,
    /// Each cell below its heading.
    cells: Vec<(String, String)>,
}

impl Row {
    pub fn cell(&self, heading: &str) -> Option<&str> {
        let found = self.cells.iter().find(|(name, _)| name == heading);
        found.map(|(_, cell)| cell.as_str())
    }

    pub fn first(&self) -> &str {
        &self.cells[0].1
    }
}

/// Every row of a page's tables.
pub fn rows(page: &str) -> Vec<Row> {
    let (mut section, mut headings, mut rows) = (String::new(), Vec::new(), Vec::new());
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim_start_matches('|').trim_end_matches('|');
        line.split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    let lines: Vec<&str> = prose(page).collect();
    for (index, line) in lines.iter().enumerate() {
        if line.starts_with('#') {
            section = line.trim_start_matches('#').trim().to_owned();
        }
        if !line.starts_with('|') || is_rule(line) {
            continue;
        }
        if lines.get(index + 1).is_some_and(|next| is_rule(next)) {
            headings = cells(line);
        } else {
            let cells = headings.iter().cloned().zip(cells(line)).collect();
            rows.push(Row { section: section.clone(), cells });
        }
    }
    rows
}

/// The line below a table's headings.
fn is_rule(line: &str) -> bool {
    line.starts_with("|-") && line.chars().all(|c| "|- ".contains(c))
}

/// The words in backquotes.
pub fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The tests that a text names, each by its file and its function.
fn tests_in(text: &str) -> impl Iterator<Item = (String, &str)> {
    let named = quoted(text).filter_map(|name| name.split_once(".rs::"));
    named.map(|(file, test)| (format!("{file}.rs"), test))
}

/// How often a word is in a text.
fn count(text: &str, word: &str) -> usize {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c| !is_part(c)).filter(|other| *other == word).count()
}

/// The text of the file, and of the file that may list its checks.
fn with_lists(file: &str) -> String {
    let main = Path::new(file).with_file_name("main.rs");
    let main = main.to_str().unwrap();
    let is_listed = main != file && root().join(main).exists();
    if is_listed { read(file) + &read(main) } else { read(file) }
}

#[test]
fn each_fault_names_tests_that_exist() {
    let page = read(FAULTS_PAGE);
    let mut named = 0;
    for (file, test) in tests_in(&page) {
        named += 1;
        let code = with_lists(&file);
        let begins = [format!("fn {test}("), format!("fn {test}<")];
        let at = begins.iter().find_map(|begin| code.find(begin));
        let at = at.unwrap_or_else(|| panic!("{file} has no {test}"));
        // The attributes before it, or a list of checks or another test that calls it.
        let before = code[..at].rsplit_once('\n').map_or("", |(before, _)| before);
        let attributes = before.lines().rev();
        let mut attributes = attributes.take_while(|line| line.trim().starts_with(['#', '/']));
        let is_test = attributes.any(|line| line.contains("test"));
        assert!(is_test || count(&code, test) > 1, "{file}: nothing runs {test}");
    }
    assert!(named >= 250, "{named} tests on {FAULTS_PAGE}");
}

#[test]
fn the_faults_are_the_events_of_the_simulator() {
    let (page, code) = (read(FAULTS_PAGE), read(COUNTERS));
    let (_, counters) = code.split_once("const COUNTED").unwrap();
    let (counters, _) = counters.split_once("];").unwrap();
    // Each line names a counter and the simulations that have it.
    let counters = counters.lines().filter(|line| line.trim().starts_with('('));
    let counters: Vec<Vec<&str>> = counters.map(|line| line.split('"').collect()).collect();
    assert!(counters.len() >= 30, "{counters:?}");
    for simulation in SIMULATIONS {
        let prefix = format!("{simulation}:");
        let named: BTreeSet<&str> =
            quoted(&page).filter_map(|name| name.strip_prefix(prefix.as_str())).collect();
        let counts = counters.iter().filter(|line| line[3].split(' ').any(|one| one == simulation));
        let faults = counts.map(|line| line[1]).filter(|name| !NOT_FAULTS.contains(name));
        assert_eq!(named, faults.collect(), "{FAULTS_PAGE} and {COUNTERS}");
    }
}

#[test]
fn each_cell_names_what_covers_it_or_says_why_nothing_does() {
    let page = read(FAULTS_PAGE);
    let rows = rows(&page);
    let is_simulator =
        |name: &str| name.split(':').next().is_some_and(|one| SIMULATIONS.contains(&one));
    let mut judged = 0;
    for row in &rows {
        for heading in ["simulated", "tested"] {
            let Some(cell) = row.cell(heading) else { continue };
            judged += 1;
            let is_event = heading == "simulated" && quoted(cell).any(is_simulator);
            let is_excused = cell.strip_prefix("none: ").is_some_and(|why| why.len() >= 8);
            let is_covered = is_event || tests_in(cell).next().is_some();
            let at = format!("{}: {}: {heading}", row.section, row.first());
            assert!(is_covered || is_excused, "{at}: {cell:?}");
            assert!(!(is_excused && is_event), "{at}: {cell:?}");
        }
    }
    assert!(judged >= 400, "{judged} cells on {FAULTS_PAGE}");
}

/// A row about the store that names no engine is tested on all of them.
#[test]
fn faults_of_the_store_are_tested_on_each_engine() {
    let page = read(FAULTS_PAGE);
    for row in rows(&page).iter().filter(|row| row.section == "The store") {
        if row.first().ends_with(')') {
            continue;
        }
        let on_all = |(file, test): (String, &str)| {
            let code = with_lists(&file);
            let mut lists = ON_ALL_ENGINES.iter().flat_map(|list| code.split(list).skip(1));
            lists.any(|list| count(list.split(");").next().unwrap(), test) > 0)
        };
        let tested = row.cell("tested").unwrap();
        assert!(tests_in(tested).any(on_all), "{}: on which engines?", row.first());
    }
}

/// What never happens is explored, simulated and tested, or there is a reason.
#[test]
fn each_invariant_names_what_checks_it() {
    let page = read("ARCHITECTURE.md");
    let rows = rows(&page);
    let invariants: Vec<&Row> = rows.iter().filter(|row| row.section == "Invariants").collect();
    assert!(invariants.len() >= 18, "{} invariants", invariants.len());
    for row in invariants {
        for heading in ["explored", "simulated", "tested"] {
            let cell = row.cell(heading).unwrap();
            let is_excused = heading != "tested" && cell.starts_with("none: ");
            assert!(is_excused || cell.contains("]("), "{}: {heading}: {cell:?}", row.first());
        }
    }
}

/// The sentences of a page's prose and the rows of its tables, without their markup.
fn sentences(page: &str) -> Vec<String> {
    let (mut found, mut paragraph) = (Vec::new(), String::new());
    let lines: Vec<&str> = page.lines().map(str::trim).collect();
    let mut in_code = false;
    for (index, line) in lines.iter().enumerate() {
        let fence = line.starts_with("```");
        let item = line.strip_prefix("- ").or_else(|| {
            let (number, item) = line.split_once(". ")?;
            number.chars().all(|c| c.is_ascii_digit()).then_some(item)
        });
        let is_row = line.starts_with('|');
        if fence || in_code || is_row || line.is_empty() || line.starts_with('#') || item.is_some()
        {
            found.extend(split(&plain(&std::mem::take(&mut paragraph))));
        }
        in_code ^= fence;
        if in_code || fence || line.starts_with('#') || is_rule(line) {
            continue;
        }
        if is_row {
            let heads = lines.get(index + 1).is_some_and(|next| is_rule(next));
            let cells = line.trim_matches('|').trim();
            found.extend((!heads).then(|| plain(cells)));
            continue;
        }
        if !paragraph.is_empty() {
            paragraph.push(' ');
        }
        paragraph.push_str(item.unwrap_or(line));
    }
    found.extend(split(&plain(&paragraph)));
    found
}

/// A text without links, emphasis and marks of code. A bold title is the beginning of the sentence after it.
fn plain(text: &str) -> String {
    let mut parts = text.split('[');
    let mut plain = parts.next().unwrap().to_owned();
    for part in parts {
        match part.split_once("](") {
            Some((shown, rest)) => {
                plain.push_str(shown);
                plain.push_str(rest.split_once(')').unwrap().1);
            }
            None => {
                plain.push('[');
                plain.push_str(part);
            }
        }
    }
    plain.replace(".**", ":").replace("**", "").replace('`', "")
}

fn split(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut from = 0;
    for (at, _) in text.match_indices(' ').filter(|(at, _)| text[..*at].ends_with(['.', '?'])) {
        let next = &text[at + 1..];
        if next.starts_with("leafd") || !next.starts_with(|c: char| c.is_lowercase()) {
            found.push(text[from..at].to_owned());
            from = at + 1;
        }
    }
    found.push(text[from..].to_owned());
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// Where a sentence belongs: how it begins, and the row or the reason.
struct Assigned<'a> {
    begins: &'a str,
    row: &'a str,
}

/// What the list says of each page.
fn assigned(list: &str) -> BTreeMap<&str, Vec<Assigned<'_>>> {
    let mut pages: BTreeMap<&str, Vec<Assigned<'_>>> = BTreeMap::new();
    let (mut page, mut row) = ("", "");
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("== ") {
            page = name;
        } else if let Some(begins) = line.strip_prefix("    ") {
            pages.entry(page).or_default().push(Assigned { begins, row });
        } else {
            row = line;
        }
    }
    pages
}

#[test]
fn each_sentence_that_promises_something_has_a_row() {
    let (list, page) = (read(PROMISES), read(FAULTS_PAGE));
    let assigned = assigned(&list);
    let rows = rows(&page);
    let mut claimed = BTreeSet::new();
    let mut wrong = Vec::new();
    assert_eq!(assigned.keys().copied().collect::<BTreeSet<_>>(), BTreeSet::from(PROMISING));
    for (name, assigned) in &assigned {
        let mut used = BTreeSet::new();
        for sentence in sentences(&read(name)) {
            let fits = |one: &&Assigned<'_>| sentence.starts_with(one.begins);
            let fitting: Vec<_> = assigned.iter().filter(fits).collect();
            match fitting[..] {
                [one] if used.insert(one.begins) || NO_PROMISES.contains(&one.row) => {}
                [_] => wrong.push(format!("{name}: two sentences begin: {sentence}")),
                [] => wrong.push(format!("{name}: which row covers: {sentence}")),
                [..] => wrong.push(format!("{name}: several lines begin: {sentence}")),
            }
        }
        for Assigned { begins, row } in assigned {
            if !used.contains(begins) {
                wrong.push(format!("{name}: no sentence begins: {begins}"));
            }
            let found: Vec<_> = rows.iter().filter(|one| one.first().starts_with(row)).collect();
            match found[..] {
                [one] => drop(claimed.insert(one.first())),
                _ if NO_PROMISES.contains(row) => {}
                _ => wrong.push(format!("{} rows of {FAULTS_PAGE} begin: {row}", found.len())),
            }
        }
    }
    let promised = rows.iter().filter(|row| PROMISED.contains(&row.section.as_str()));
    for row in promised.filter(|row| !claimed.contains(row.first())) {
        wrong.push(format!("no sentence promises: {}", row.first()));
    }
    assert!(wrong.is_empty(), "{PROMISES}:\n{}", wrong.join("\n"));
}

#[test]
fn sentences_are_told_apart() {
    let page = "# Title\n\n- **Held runs.** A run of 0.6 ids, see [here](x.md). leafd holds\n  it.\n1. Next? Yes\n\n\
                | a | b |\n|---|---|\n| `one` | two. Three |\n\n```sh\nrun. This\n```\nEnd.\n";
    let found = sentences(page);
    let expected = [
        "Held runs: A run of 0.6 ids, see here.",
        "leafd holds it.",
        "Next?",
        "Yes",
        "one | two. Three",
        "End.",
    ];
    assert_eq!(found, expected);
}

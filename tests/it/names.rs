//! One word for one concept: the clients use the names in `docs/guide/clients.md`, few types share a name, and the
//! glossary defines each word once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A column of the table, and the files with the client's public names.
const CLIENTS: [(&str, &[&str]); 6] = [
    ("Rust", &["client/src", "client/wire/src"]),
    ("C", &["client/capi/include"]),
    ("Python", &["client/python/src/leafd"]),
    ("Java", &["client/java/src/io/leafd"]),
    ("Go", &["client/go", "client/go/leafdtest"]),
    ("Node", &["client/node", "client/node/lib"]),
];

fn texts(folders: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files = folders.iter().flat_map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let paths = files.map(|file| file.unwrap().path());
    let sources = paths.filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let ending = path.extension().unwrap_or_default().to_str().unwrap();
        ["rs", "h", "py", "java", "go", "ts", "js"].contains(&ending) && !name.contains("_test")
    });
    sources.map(|path| fs::read_to_string(path).unwrap()).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
}

/// The table's rows, each with an empty cell at both ends.
fn rows() -> Vec<Vec<&'static str>> {
    let guide = include_str!("../../docs/guide/clients.md");
    let (_, table) = guide.split_once("## Names\n").expect("the table");
    let lines = table.lines().skip_while(|line| !line.starts_with('|'));
    let lines = lines.take_while(|line| line.starts_with('|'));
    lines.map(|line| line.split('|').map(str::trim).collect()).collect()
}

/// A name without its language's style.
fn plain(cell: &str) -> String {
    let name = cell.trim_matches('`').to_lowercase().replace('_', "");
    name.strip_prefix("leafd").map_or(name.clone(), str::to_owned)
}

#[test]
fn every_difference_has_a_reason() {
    for row in &rows()[2..] {
        let names = &row[2..2 + CLIENTS.len()];
        let differ = names.iter().any(|name| plain(name) != plain(names[0]));
        let reason = row[2 + CLIENTS.len()];
        assert_eq!(differ, !reason.is_empty(), "{}: {names:?} because {reason:?}", row[1]);
    }
}

#[test]
fn every_name_in_the_table_is_one_of_its_client() {
    let rows = rows();
    let (head, rows) = (&rows[0], &rows[2..]);
    assert!(rows.len() >= 15, "only {} rows were found", rows.len());
    for (column, (client, folders)) in CLIENTS.iter().enumerate() {
        assert_eq!(head[column + 2], *client);
        let texts = texts(folders);
        for row in rows {
            let Some(name) =
                row[column + 2].strip_prefix('`').and_then(|cell| cell.strip_suffix('`'))
            else {
                assert_eq!(row[column + 2], "–", "{client}: {}", row[1]);
                continue;
            };
            assert!(words(&texts).any(|word| word == name), "{client} has no {name}: {}", row[1]);
        }
    }
}

/// The maximum number of types outside of tests that may share a name.
const SAME_NAME_MAX: usize = 2;

/// Folders with types that engineers meet. Tests and benchmarks are free to reuse names.
const TYPES: [&str; 4] = ["client", "core/src", "daemon", "leafctl/src"];

/// The files in which each type is defined, by its name.
fn types(folder: &Path, found: &mut BTreeMap<String, Vec<String>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !["tests", "target", "examples", "node_modules"].contains(&name) {
                types(&path, found);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).unwrap();
            // Nested types, such as those of a trait or a test module, are indented.
            for line in text.lines() {
                let line = line.strip_prefix("pub").map_or(line, |rest| {
                    rest.trim_start_matches(|c: char| !c.is_whitespace()).trim_start()
                });
                let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
                let Some(rest) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) else {
                    continue;
                };
                let name = words(rest).next().unwrap_or_default();
                found.entry(name.to_owned()).or_default().push(path.display().to_string());
            }
        }
    }
}

#[test]
fn few_types_share_a_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeMap::new();
    for folder in TYPES {
        types(&root.join(folder), &mut found);
    }
    assert!(found.len() > 300, "only {} types were found", found.len());
    found.retain(|_, files| files.len() > SAME_NAME_MAX);
    assert!(found.is_empty(), "more than {SAME_NAME_MAX} types share a name: {found:#?}");
}

#[test]
fn the_glossary_defines_each_word_once_in_order() {
    let glossary = include_str!("../../docs/reference/words.md");
    let rows = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows: Vec<_> = rows.skip(1).map(|row| row.split_once(" | ").unwrap_or((row, ""))).collect();
    assert!(rows.len() >= 40, "only {} words were found", rows.len());
    for (word, meaning) in &rows {
        assert!(!meaning.is_empty(), "{word} has no meaning");
    }
    let words: Vec<_> = rows.iter().flat_map(|(word, _)| word.split(", ")).collect();
    let mut unique = words.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), words.len(), "a word is defined twice: {words:?}");
    assert!(rows.is_sorted_by_key(|(word, _)| word.to_lowercase()), "the words are not in order");
}

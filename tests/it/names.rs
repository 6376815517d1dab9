//! The table of names in `docs/guide/clients.md` names what the clients have.

use std::fs;
use std::path::Path;

/// A column of the table, and where the client's public names are.
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

/// The table's rows, each with an empty cell at either end.
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

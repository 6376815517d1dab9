//! What the README says of the code is what the code says of itself.

use std::path::Path;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).expect("the README is there")
}

#[test]
fn the_table_of_settings_is_the_code_s() {
    let table = leafd::config::settings_markdown();
    assert!(readme().contains(&table), "README.md lacks this table:\n{table}");
}

#[test]
fn links_within_the_repository_resolve() {
    for document in
        ["README.md", "protocol.md", "docs/fleet.md", "docs/bench.md", "docs/from-leaf.md"]
    {
        let at = root().join(document);
        let text = std::fs::read_to_string(&at).expect("the document is there");
        let folder = at.parent().expect("a document lies in a folder");
        for link in text.split("](").skip(1) {
            let target = link.split(')').next().unwrap_or_default();
            let path = target.split('#').next().unwrap_or_default();
            if !target.starts_with("http") && !path.is_empty() {
                assert!(
                    folder.join(path).exists(),
                    "{document} links to {path}, which isn't there"
                );
            }
        }
    }
}

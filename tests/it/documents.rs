//! The documents are short enough, their links resolve, and their statements about the code match the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use leafd::config::settings;

/// The README must be short, because people read it to decide whether to use leafd.
const README_BYTES_MAX: usize = 8192;

/// The table of settings.
const SETTINGS_TABLE: &str = "daemon/src/config/settings.toml";

/// The page that is generated from it.
const SETTINGS_PAGE: &str = "docs/reference/settings.md";

/// The pages of the guides that have commands, and the tests that run these exactly as printed.
const RUN: [(&str, &str); 19] = [
    ("docs/guide/clients.md", "tests/it/shown.rs"),
    ("docs/guide/document-numbers.md", "tests/it/series.rs"),
    ("docs/guide/from-leaf.md", "tests/stores/from_leaf.rs"),
    ("docs/guide/kubernetes.md", "tests/kubernetes/chart.rs"),
    ("docs/guide/many-hosts.md", "tests/stores/many_hosts.rs"),
    ("docs/guide/public-ids.md", "tests/systemd/documents.rs"),
    ("docs/guide/snowflake.md", "tests/systemd/documents.rs"),
    ("docs/guide/systemd.md", "tests/systemd/documents.rs"),
    ("docs/operate/doctor.md", "tests/systemd/documents.rs"),
    ("docs/operate/fleet.md", "tests/systemd/documents.rs"),
    ("docs/operate/metrics.md", "tests/systemd/documents.rs"),
    ("docs/operate/password.md", "tests/systemd/documents.rs"),
    ("docs/operate/restore.md", "tests/stores/restore.rs"),
    ("docs/operate/several-stores.md", "tests/stores/several_stores.rs"),
    ("docs/operate/whose.md", "tests/systemd/documents.rs"),
    ("docs/guide/frameworks/README.md", ""),
    ("docs/operate/bench.md", ""),
    ("docs/operate/clusters.md", ""),
    ("docs/operate/page.md", ""),
];

/// Blocks of commands that no test runs as printed: the page, the beginning of the block, and the reason.
const NOT_RUN: [(&str, &str, &str); 11] = [
    (
        "docs/guide/clients.md",
        "python3 -m venv venv",
        "pip fetches setuptools; the package is installed by tests/run.d/release",
    ),
    (
        "docs/guide/frameworks/README.md",
        "client/java/frameworks/get",
        "Maven fetches the frameworks; ./tests/run languages runs both",
    ),
    (
        "docs/guide/kubernetes.md",
        "kubernetes/build registry.example.com",
        "it needs a registry and a cluster; tests/kubernetes builds the image and runs the pods",
    ),
    (
        "docs/guide/kubernetes.md",
        "export LEAFD_STORE_PASSWORD=password-of-owner",
        "it needs a cluster; tests/kubernetes runs the same commands in the pods",
    ),
    (
        "docs/guide/kubernetes.md",
        "helm upgrade leafd",
        "it needs a cluster; tests/kubernetes renders the chart",
    ),
    (
        "docs/guide/public-ids.md",
        "$ leafctl mask orders 17 18",
        "a dialogue; tests/it/public_ids.rs compares the ids",
    ),
    (
        "docs/operate/fleet.md",
        "cargo run --release -p leafd-bench",
        "it takes an idle machine; bench/tests runs each row briefly",
    ),
    (
        "docs/operate/bench.md",
        "cargo run --release -p leafd-bench",
        "it takes eleven minutes of an idle machine; bench/tests runs each row briefly",
    ),
    (
        "docs/operate/bench.md",
        "sudo ./target/release/leafd-bench hostile",
        "it takes an idle machine; bench/tests runs each row briefly",
    ),
    (
        "docs/operate/clusters.md",
        "./tests/run clusters",
        "it takes 25 minutes; tests/run runs one cluster a day",
    ),
    (
        "docs/operate/page.md",
        "ssh -L",
        "it needs an SSH server; tests/systemd/http.rs asks the socket",
    ),
];

/// A sentence of at least this length that occurs twice was copied.
const COPIED_BYTES_MIN: usize = 50;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Every file with this extension, by its path from the root, with its text.
pub fn files(ending: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    gather(&root(), ending, &mut found);
    found
}

fn gather(folder: &Path, ending: &str, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let skipped = name.starts_with('.') || ["target", "venv"].contains(&name);
        if path.is_dir() && !skipped {
            gather(&path, ending, found);
        } else if name.ends_with(ending) {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
        }
    }
}

pub fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The lines outside of blocks of code.
pub fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// The anchors of a document's headings.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// The targets of a document's links.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text).collect::<Vec<_>>().join("\n");
    let until = |rest: &str, end| rest.split(end).next().unwrap().to_owned();
    let targets = prose.split("](").skip(1).map(|rest| until(rest, ')'));
    // Pictures, which have a version for each theme.
    let pictures = prose.split(" src=\"").skip(1).chain(prose.split(" srcset=\"").skip(1));
    targets.chain(pictures.map(|rest| until(rest, '"'))).collect()
}

#[test]
fn the_readme_is_read_in_two_minutes() {
    let bytes = read("README.md").len();
    assert!(bytes <= README_BYTES_MAX, "README.md has {bytes} bytes, at most {README_BYTES_MAX}");
}

#[test]
fn links_and_anchors_resolve() {
    for (name, text) in files(".md") {
        let folder = root().join(&name);
        let folder = folder.parent().unwrap();
        for target in links(&text) {
            if target.starts_with("http") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let other = if path.is_empty() { root().join(&name) } else { folder.join(path) };
            assert!(other.exists(), "{}: {path} isn't there", name.display());
            if !anchor.is_empty() {
                let headings = anchors(&fs::read_to_string(other).unwrap());
                let known = headings.iter().any(|one| one == anchor);
                assert!(known, "{}: no heading for {target}", name.display());
            }
        }
    }
}

#[test]
fn no_two_headings_of_a_document_have_one_anchor() {
    for (name, text) in files(".md") {
        let mut seen = BTreeSet::new();
        for anchor in anchors(&text) {
            assert!(seen.insert(anchor.clone()), "{}: twice #{anchor}", name.display());
        }
    }
}

#[test]
fn no_command_is_broken_by_the_end_of_a_line() {
    for (name, text) in files(".md") {
        let broken = prose(&text).find(|line| line.matches('`').count() % 2 == 1);
        assert!(broken.is_none(), "{}: can't be copied whole: {broken:?}", name.display());
    }
}

#[test]
fn every_document_is_in_the_index() {
    let folder = root().join("docs");
    let linked: Vec<PathBuf> =
        links(&read("docs/README.md")).iter().map(|link| folder.join(link)).collect();
    for (name, _) in files(".md") {
        let path = root().join(&name);
        let indexed = linked.contains(&path) || path == folder.join("README.md");
        assert!(indexed || !path.starts_with(&folder), "docs/README.md lacks {}", name.display());
    }
}

#[test]
fn no_setting_is_described_by_hand() {
    let made = [SETTINGS_TABLE, SETTINGS_PAGE, "systemd/leafd.toml"].map(PathBuf::from);
    let written: Vec<(PathBuf, String)> =
        [".md", ".toml", ".yaml"].into_iter().flat_map(files).collect();
    for (name, text) in written.iter().filter(|(name, _)| !made.contains(name)) {
        // The same text may be wrapped differently in each.
        let flowing = text.split(['#', ' ', '\n']).filter(|word| !word.is_empty());
        let flowing = flowing.collect::<Vec<_>>().join(" ");
        for setting in settings() {
            let key = &setting.key;
            let row = format!("| `{key}` |");
            let headings = [format!("# `{key}`"), format!("# {key}")];
            let own = text.lines().any(|line| {
                line.starts_with(&row) || headings.iter().any(|one| line.ends_with(one))
            });
            assert!(!own, "{} describes {key}: link to {SETTINGS_PAGE}", name.display());
            let sentences = setting.help.split(". ").filter(|one| one.len() >= COPIED_BYTES_MIN);
            for sentence in sentences {
                assert!(!flowing.contains(sentence), "{} repeats: {sentence}", name.display());
            }
        }
    }
}

/// A default in prose, such as `10 min`, in the form of the configuration: `10m`.
fn as_configured(words: &str) -> String {
    words.replace("min", "m").replace([' ', ','], "")
}

#[test]
fn defaults_in_prose_are_the_settings_own() {
    let mut checked = 0;
    for (name, text) in files(".md") {
        let flowing = prose(&text).map(str::trim).collect::<Vec<_>>().join(" ");
        for setting in settings() {
            // `key` (5 s), or [`key`](link) (5 s)
            for rest in flowing.split(&format!("`{}`", setting.key)).skip(1) {
                let linked = rest.strip_prefix("](").and_then(|rest| rest.split_once(')'));
                let rest = linked.map_or(rest, |(_, rest)| rest);
                let Some(rest) = rest.strip_prefix(" (") else { continue };
                let words = rest.split([')', ';']).next().unwrap();
                if words.starts_with(|c: char| c.is_ascii_digit()) {
                    let (said, default) =
                        (as_configured(words), setting.default.clone().unwrap_or_default());
                    assert_eq!(said, default, "{}: {}", name.display(), setting.key);
                    checked += 1;
                }
            }
        }
    }
    assert!(checked >= 10, "only {checked} defaults were found in the documents");
}

#[test]
fn the_readme_s_rust_is_what_the_crate_s_documentation_compiles() {
    let readme = read("README.md");
    let (_, code) = readme.split_once("```rust\n").unwrap();
    let (code, _) = code.split_once("```").unwrap();
    let compiled = read("client/src/lib.rs");
    for line in code.lines() {
        let documented = format!("//! {line}").trim_end().to_owned();
        let known = compiled.lines().any(|other| other == documented);
        assert!(known, "client/src/lib.rs has no {line:?}");
    }
}

#[test]
fn the_readme_s_quick_start_is_what_the_tests_run() {
    let readme = read("README.md");
    let quick_start = readme.lines().find(|line| line.ends_with(" demo")).unwrap();
    let run = read("tests/run").replace(" --locked", "").replace(" --exit", "");
    assert!(run.lines().any(|line| line.trim() == quick_start), "tests/run lacks: {quick_start}");
}

/// A page's blocks of commands or statements.
fn commands(text: &str) -> Vec<String> {
    let parts = text.split("```").skip(1).step_by(2);
    let parts = parts.filter_map(|part| part.split_once('\n'));
    let is_run = |language: &str| {
        ["sh", "bash", "console", "sql"].contains(&language.split(' ').next().unwrap_or_default())
    };
    parts.filter(|(of, _)| is_run(of)).map(|(_, block)| block.trim_start().to_owned()).collect()
}

/// Every command that is printed for operators is run by a test, or there is a reason why not.
#[test]
fn every_command_of_the_guides_is_run_or_has_a_reason() {
    let mut reasons: BTreeSet<(&str, &str)> =
        NOT_RUN.iter().map(|(page, begins, _)| (*page, *begins)).collect();
    let mut pages: BTreeSet<&str> = RUN.iter().map(|(page, _)| *page).collect();
    let is_guide = |name: &Path| name.starts_with("docs/guide") || name.starts_with("docs/operate");
    for (name, text) in files(".md").into_iter().filter(|(name, _)| is_guide(name)) {
        let name = name.to_str().unwrap();
        let run = commands(&text);
        if run.is_empty() {
            continue;
        }
        assert!(pages.remove(name), "{name}: is there a test of its commands?");
        let excused = |block: &String| {
            let reason =
                NOT_RUN.iter().find(|(page, begins, _)| *page == name && block.starts_with(begins));
            reason.map(|(page, begins, _)| (*page, *begins))
        };
        let found: Vec<_> = run.iter().filter_map(excused).collect();
        reasons.retain(|one| !found.contains(one));
        let (_, test) = RUN.iter().find(|(page, _)| *page == name).unwrap();
        if found.len() < run.len() {
            let code = read(test);
            let file = name.rsplit('/').next().unwrap();
            assert!(code.contains(file), "{test} does not read {name}");
        }
    }
    assert!(pages.is_empty() && reasons.is_empty(), "no such commands: {pages:?} {reasons:?}");
}

/// The page on problems explains every condition code and every status.
#[test]
fn every_code_and_status_is_explained() {
    let page = read("docs/operate/troubles.md");
    let causes = read("core/src/health/causes.rs");
    let (_, names) = causes.split_once("impl Code {").unwrap();
    let (names, _) = names.split_once("\n    }\n").unwrap();
    let codes: Vec<&str> = names.split('"').skip(1).step_by(2).collect();
    assert!(codes.len() >= 22, "{codes:?}");
    for code in codes {
        assert!(page.contains(&format!("\n## `{code}`\n")), "no section for {code}");
    }
    let protocol = read("protocol.md");
    let (_, table) = protocol.split_once("### Status table").unwrap();
    let statuses = table.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let number: u32 = cells.next()?.parse().ok()?;
        (number > 0).then_some(cells.next()?)
    });
    let (_, explained) = page.split_once("\n## Statuses\n").unwrap();
    let mut count = 0;
    for status in statuses {
        assert!(explained.contains(status), "{status} is not explained");
        count += 1;
    }
    assert!(count >= 23, "{count}");
}

/// The layout for larger fleets, exactly as printed.
#[test]
fn the_wider_layout_of_the_page_on_fleets_is_accepted() {
    let page = read("docs/operate/fleet.md");
    let (_, block) = page.split_once("```toml\n[layouts.snowflake]").unwrap();
    let block = block.split_once("```").unwrap().0;
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), format!("[layouts.snowflake]{block}")).unwrap();
    let output = std::process::Command::new(crate::host::leafd_binary())
        .args(["check-config", "--config"])
        .arg(file.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("worker_range = \"0..16384\""), "{said}");
}

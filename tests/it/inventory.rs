//! What the daemon depends on has rows on the page of faults: each call of a store, a registry and the journal, each
//! file, system call and clock, as the code has them, with each kind of failure that it can meet.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::coverage::{FAULTS_PAGE, Row, quoted, rows};
use crate::documents::{files, read};
use crate::host::Host;

/// The column that names the members of each group.
const MEMBERS: &str = "calls, system calls or files";

/// The tables with what can happen to each group.
const STORE: &str = "Calls of a store";
const REGISTRY: &str = "Calls of a registry";
const JOURNAL: &str = "Writes to the journal";
const FILES: &str = "Files";
const SYSTEM: &str = "System calls";
const CLOCKS: &str = "Clocks";

/// What can happen to a call of a store or a registry.
const TO_CALLS: [&str; 10] = [
    "refused",
    "late",
    "lost before it arrives",
    "its answer is lost",
    "executed after its caller gave up",
    "repeated",
    "answered by another server",
    "answered from an earlier state",
    "made by a copy of the host",
    "made before the tables exist",
];

const TO_WRITES: [&str; 5] = ["contradicted", "fails", "late", "lost in a crash", "repeated"];

const TO_FILES: [&str; 6] =
    ["absent", "not accessible", "damaged", "replaced while in use", "restored", "cloned"];

const TO_SYSTEM_CALLS: [&str; 3] = ["fails", "hangs", "succeeds without effect"];

const TO_CLOCKS: [&str; 5] = [
    "steps back",
    "steps forward",
    "is wrong at the start",
    "runs at another rate",
    "stands still",
];

/// Public methods of a store that don't call a server.
const LOCAL: [&str; 2] = ["trust", "workers"];

/// Clocks that are read by a call of a store or a registry.
const ELSEWHERE: [&str; 2] = ["the store's clock", "the registry's clock"];

/// Names by which the code calls the system, other than the system call's own. One that is nameless makes no call, or
/// reads a clock.
const NAMES: [(&str, &str); 33] = [
    ("available_parallelism", "sched_getaffinity"),
    ("clock_gettime", ""),
    ("create_dir_all", "mkdir"),
    ("current", ""),
    ("fchmod", "chmod"),
    ("fchownat", "chown"),
    ("fill", "getrandom"),
    ("from", ""),
    ("from_name", "getgrnam"),
    ("fstat", "stat"),
    ("getauxval", ""),
    ("getsockopt_impl", "getsockopt"),
    ("hard_link", "link"),
    ("major", ""),
    ("metadata", "stat"),
    ("minor", ""),
    ("ppoll", "poll"),
    ("read_dir", "readdir"),
    ("read_to_string", "read"),
    ("recvmsg", "recv"),
    ("remove_file", "unlink"),
    ("scope", "clone"),
    ("set_permissions", "chmod"),
    ("setsockopt_impl", "setsockopt"),
    ("sleep", "nanosleep"),
    ("sockopt", ""),
    ("sockopt_impl", ""),
    ("spawn", "clone"),
    ("symlink_metadata", "stat"),
    ("u64", "getrandom"),
    ("yield_now", "sched_yield"),
    ("_", ""),
    ("as", ""),
];

/// Other words that stand for system calls.
const WORDS: [(&str, &[&str]); 15] = [
    (".set_len(", &["ftruncate"]),
    (".sync_all(", &["fsync"]),
    (".try_lock(", &["flock"]),
    (".write_all_at(", &["write"]),
    ("Connection::open", &["open", "read", "write", "fsync"]),
    ("DirBuilder::new", &["mkdir"]),
    ("OpenOptions::new", &["open"]),
    ("TcpListener", &["accept"]),
    ("TcpStream", &["connect", "recv", "send"]),
    ("UnixDatagram", &["send"]),
    ("UnixListener", &["accept"]),
    ("UnixStream", &["connect", "recv", "send"]),
    ("process::abort", &["abort"]),
    ("process::id", &["getpid"]),
    ("signal::unix", &["sigaction"]),
];

/// The page's tables of groups.
struct Inventory {
    members: BTreeMap<String, Vec<String>>,
    rows: Vec<Row>,
}

impl Inventory {
    fn read() -> Inventory {
        let rows = rows(&read(FAULTS_PAGE));
        let members = rows.iter().filter_map(|row| {
            let members = quoted(row.cell(MEMBERS)?).map(str::to_owned).collect();
            Some((row.first().to_owned(), members))
        });
        Inventory { members: members.collect(), rows }
    }

    /// Checks that every group of a table has exactly one row for everything that can happen to it. Returns the groups.
    fn groups_of(&self, section: &str, happens: &[&str]) -> BTreeSet<&str> {
        let mut seen = BTreeMap::new();
        let of_section = self.rows.iter().filter(|row| row.section == section);
        for row in of_section {
            for group in row.first().split(", ") {
                for what in row.cell("what happens").unwrap().split(", ") {
                    assert!(happens.contains(&what), "{section}: {group}: {what:?}");
                    let rows = seen.entry(group.trim_matches('`')).or_insert_with(Vec::new);
                    assert!(!rows.contains(&what), "{section}: {group}: {what} has two rows");
                    rows.push(what);
                }
            }
        }
        for (group, rows) in &seen {
            for what in happens {
                assert!(rows.contains(what), "{section}: {group}: no row for {what:?}");
            }
        }
        seen.into_keys().collect()
    }

    /// The members of all groups of a table. None is in two groups.
    fn members_of(&self, section: &str, happens: &[&str]) -> BTreeSet<&str> {
        let mut all = BTreeSet::new();
        for group in self.groups_of(section, happens) {
            let members = self.members.get(group);
            let members = members.unwrap_or_else(|| panic!("{section}: what is in {group}?"));
            for member in members {
                assert!(all.insert(member.as_str()), "{section}: {member} is in two groups");
            }
        }
        all
    }
}

/// The code of the daemon and the client, without tests, comments, and commands for operators.
fn code() -> Vec<(String, String)> {
    let is_used = |name: &str| {
        let is_program = name.starts_with("daemon/src") || name.starts_with("client/src");
        is_program && !name.contains("/tests") && !name.contains("/cli/")
    };
    let all = files(".rs").into_iter().map(|(path, text)| (path.display().to_string(), text));
    let used = all.filter(|(name, _)| is_used(name)).map(|(name, text)| {
        let text = text.split("#[cfg(test)]").next().unwrap();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        (name, lines.collect::<Vec<_>>().join("\n"))
    });
    let used: Vec<_> = used.collect();
    assert!(used.len() > 150, "only {} files of code", used.len());
    used
}

/// The name at the beginning of a text.
fn name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// What follows each place where a text has these words, unless they are the end of a longer name.
fn after<'a>(text: &'a str, words: &'a str) -> impl Iterator<Item = &'a str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let found = text.match_indices(words);
    let found = found.filter(move |(at, _)| !text[..*at].ends_with(is_name));
    found.map(|(at, words)| &text[at + words.len()..])
}

#[test]
fn each_call_of_a_store_has_its_rows() {
    let mut calls = BTreeSet::new();
    for (path, text) in code().iter().filter(|(_, text)| text.contains("impl Store {")) {
        for method in after(text, "    pub fn ") {
            let signature = method.split('{').next().unwrap();
            if signature.contains("&mut self") && !LOCAL.contains(&name(method)) {
                assert!(calls.insert(name(method).to_owned()), "{path}: {} twice", name(method));
            }
        }
    }
    let inventory = Inventory::read();
    let calls: BTreeSet<&str> = calls.iter().map(String::as_str).collect();
    assert_eq!(inventory.members_of(STORE, &TO_CALLS), calls, "{FAULTS_PAGE}: {STORE}");
}

#[test]
fn each_call_of_a_registry_has_its_rows() {
    let text = read("daemon/src/registry/mod.rs");
    let (_, calls) = text.split_once("pub trait Registry: Send {").unwrap();
    let (calls, _) = calls.split_once("\n}").unwrap();
    let calls: BTreeSet<&str> = after(calls, "\n    fn ").map(name).collect();
    let inventory = Inventory::read();
    assert_eq!(inventory.members_of(REGISTRY, &TO_CALLS), calls, "{FAULTS_PAGE}: {REGISTRY}");
}

#[test]
fn each_write_to_the_journal_has_its_rows() {
    let text = read("daemon/src/journal/write.rs");
    let (_, writes) = text.split_once("pub enum Write {").unwrap();
    let (writes, _) = writes.split_once("\n}").unwrap();
    let writes = after(writes, "\n    ").map(name).filter(|name| !name.is_empty());
    let writes: BTreeSet<&str> = writes.collect();
    let inventory = Inventory::read();
    assert_eq!(inventory.members_of(JOURNAL, &TO_WRITES), writes, "{FAULTS_PAGE}: {JOURNAL}");
}

#[test]
fn each_file_has_its_rows() {
    let inventory = Inventory::read();
    let known = inventory.members_of(FILES, &TO_FILES);
    let mut host = Host::new().worker(17);
    host.start();
    host.create("orders");
    host.raw().draw("orders", 1);
    let mut found = Vec::new();
    for folder in [host.state_dir(), host.path("locks"), host.path("")] {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let files = entries.filter(|entry| !entry.file_type().unwrap().is_dir());
        found.extend(files.map(|entry| entry.file_name().into_string().unwrap()));
    }
    // The test's own file.
    found.retain(|name| !name.ends_with(".log") && name != "log");
    assert!(found.len() >= 8, "{found:?}");
    for name in found {
        assert!(known.contains(name.as_str()), "{FAULTS_PAGE}: {FILES}: {name}");
    }
    for (path, text) in code() {
        let texts = text.split('"').skip(1).step_by(2);
        for text in texts {
            let folder = text.trim_start_matches('/').split('/').next();
            let is_path = ["etc", "proc", "sys"].map(Some).contains(&folder) && text.contains('/');
            if is_path {
                let shown = text.replace("{pid}", "PID").replace("/{}", "");
                let begins = |one: &&str| shown.trim_start_matches('/').starts_with(&one[1..]);
                let known = known.iter().filter(|one| one.starts_with('/')).any(begins);
                assert!(known, "{FAULTS_PAGE}: {FILES}: {path} uses {text}");
            }
        }
    }
}

/// The functions of the system, of the standard library and of its bindings that this code calls.
fn functions(code: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for module in ["fs::", "File::", "libc::", "thread::", "getrandom::"] {
        let names = after(code, module).filter(|rest| rest[name(rest).len()..].starts_with('('));
        found.extend(names.map(name).filter(|name| name.starts_with(|c: char| c.is_lowercase())));
    }
    for rest in after(code, "nix::") {
        // An import, or a call in place.
        let mut rest = rest.split([';', '(']).next().unwrap();
        while !rest.is_empty() {
            let word = name(rest);
            let next = &rest[word.len()..];
            let is_function = word.starts_with(|c: char| c.is_lowercase() || c == '_');
            if is_function && !next.starts_with("::") && !next.starts_with('!') {
                found.insert(word);
            }
            rest = next.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '_');
        }
    }
    found
}

#[test]
fn each_system_call_has_its_rows() {
    let mut calls = BTreeSet::new();
    let code = code();
    for (_, text) in &code {
        for function in functions(text) {
            let named = NAMES.iter().find(|(name, _)| *name == function);
            calls.insert(named.map_or(function, |(_, call)| *call));
        }
        let words = WORDS.iter().filter(|(word, _)| text.contains(word));
        calls.extend(words.flat_map(|(_, calls)| *calls));
    }
    calls.remove("");
    let inventory = Inventory::read();
    let known = inventory.members_of(SYSTEM, &TO_SYSTEM_CALLS);
    assert_eq!(known, calls, "{FAULTS_PAGE}: {SYSTEM}");
}

#[test]
fn each_clock_has_its_rows() {
    let code = code();
    let read = code.iter().flat_map(|(_, text)| {
        let clocks = ["ClockId::CLOCK_", "libc::CLOCK_"].into_iter().flat_map(|of| after(text, of));
        clocks.map(|rest| format!("CLOCK_{}", name(rest)))
    });
    let read: BTreeSet<String> = read.collect();
    let clocks: BTreeSet<&str> = read.iter().map(String::as_str).chain(ELSEWHERE).collect();
    let inventory = Inventory::read();
    assert_eq!(inventory.groups_of(CLOCKS, &TO_CLOCKS), clocks, "{FAULTS_PAGE}: {CLOCKS}");
}

//! The unit, session or container that a process belongs to: the last part of its cgroup's path.
//!
//! `/proc` tells it where it shows other users' processes. In a sandbox it does not, and the kernel tells the cgroup's
//! number only. Names are then looked up in the tree of cgroups, which may be large: on a thread of its own, so that
//! nobody waits for it.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::DirEntryExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread::{self, JoinHandle};

/// Longest name that is kept, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// Cgroups that are remembered.
const KNOWN_MAX: usize = 4_096;

/// Cgroups that one search looks at.
const LOOKED_AT_MAX: usize = 100_000;

/// Where the unified tree is, and where it is beside those of the first version.
const TREES: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Names by the numbers of cgroups.
#[derive(Debug, Default)]
pub(super) struct Units {
    /// `None` until it is found.
    names: HashMap<u64, Option<Rc<str>>>,
    /// What the next search looks for.
    wanted: Vec<u64>,
    search: Option<JoinHandle<Found>>,
}

type Found = Vec<(u64, Box<str>)>;

impl Units {
    /// A process's, as far as it is known at once. What is found later comes from [`Units::settle`].
    pub(super) fn of(&mut self, pid: u32, cgroup: Option<u64>) -> Option<Rc<str>> {
        if let Some(Some(name)) = cgroup.and_then(|number| self.names.get(&number)) {
            return Some(Rc::clone(name));
        }
        let told = by_proc(pid);
        if let (None, Some(number)) = (&told, cgroup)
            && !self.names.contains_key(&number)
        {
            if self.names.len() >= KNOWN_MAX {
                self.names.clear();
                self.wanted.clear();
            }
            self.names.insert(number, None);
            self.wanted.push(number);
            self.begin();
        }
        told.map(Rc::from)
    }

    /// Takes up what a search has found, and begins the next one. To be called every second or so.
    pub(super) fn settle(&mut self) -> Vec<(u64, Rc<str>)> {
        let found = match self.search.take_if(|search| search.is_finished()) {
            Some(search) => search.join().unwrap_or_default(),
            None => return Vec::new(),
        };
        let found: Vec<(u64, Rc<str>)> =
            found.into_iter().map(|(number, name)| (number, Rc::from(name))).collect();
        for (number, name) in &found {
            self.names.insert(*number, Some(Rc::clone(name)));
        }
        self.begin();
        found
    }

    fn begin(&mut self) {
        if self.search.is_some() || self.wanted.is_empty() {
            return;
        }
        let wanted = std::mem::take(&mut self.wanted);
        let search = move || match TREES.map(Path::new).into_iter().find(|tree| is_unified(tree)) {
            Some(tree) => search(tree, wanted),
            None => Vec::new(),
        };
        // Without a thread these stay without a name.
        self.search = thread::Builder::new().name("leafd-cgroups".to_owned()).spawn(search).ok();
    }
}

fn is_unified(tree: &Path) -> bool {
    tree.join("cgroup.procs").exists()
}

/// Finds cgroups in a tree. A cgroup's number is its folder's.
fn search(tree: &Path, mut wanted: Vec<u64>) -> Found {
    let (mut found, mut folders, mut looked_at) = (Vec::new(), vec![PathBuf::from(tree)], 0);
    while let Some(folder) = folders.pop() {
        // A cgroup may go at any time.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            looked_at += 1;
            if let Some(place) = wanted.iter().position(|number| *number == entry.ino()) {
                let number = wanted.swap_remove(place);
                found.extend(entry.file_name().to_str().and_then(kept).map(|name| (number, name)));
            }
            if wanted.is_empty() || looked_at >= LOOKED_AT_MAX {
                return found;
            }
            folders.push(entry.path());
        }
    }
    found
}

fn kept(name: &str) -> Option<Box<str>> {
    let printable = !name.is_empty() && name.chars().all(|one| !one.is_control());
    (printable && name.len() <= NAME_BYTES_MAX).then(|| name.into())
}

fn by_proc(pid: u32) -> Option<Box<str>> {
    if pid == 0 {
        return None;
    }
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    unit_in(&text)
}

fn unit_in(cgroups: &str) -> Option<Box<str>> {
    let path = |controllers: &str| {
        cgroups.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            rest.strip_prefix(controllers)?.strip_prefix(':')
        })
    };
    let of_unified = path("").filter(|path| path.len() > 1);
    kept(of_unified.or_else(|| path("name=systemd"))?.rsplit('/').next()?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn units_and_containers_are_named_by_their_cgroups() {
        for (cgroups, unit) in [
            ("0::/system.slice/php-fpm.service\n", Some("php-fpm.service")),
            (
                "12:pids:/x\n1:name=systemd:/user.slice/session-3.scope\n0::/\n",
                Some("session-3.scope"),
            ),
            ("0::/system.slice/docker-0a1b.scope\n", Some("docker-0a1b.scope")),
            ("0::/\n", None),
            ("", None),
            ("nonsense", None),
        ] {
            assert_eq!(unit_in(cgroups).as_deref(), unit, "{cgroups:?}");
        }
    }

    #[test]
    fn cgroups_are_found_by_their_numbers() {
        let tree = tempfile::tempdir().unwrap();
        let (deep, long) = ("system.slice/php-fpm.service", "x".repeat(NAME_BYTES_MAX + 1));
        let number = |path: &str| {
            fs::create_dir_all(tree.path().join(path)).unwrap();
            fs::metadata(tree.path().join(path)).unwrap().ino()
        };
        number("system.slice/other.service");
        let (deep, long, user) = (number(deep), number(&long), number("user.slice"));
        fs::write(tree.path().join("cgroup.procs"), "").unwrap();
        assert!(is_unified(tree.path()));
        let mut found = search(tree.path(), vec![deep, long, user, u64::MAX]);
        found.sort();
        let mut expected =
            vec![(deep, "php-fpm.service".into()), (user, Box::<str>::from("user.slice"))];
        expected.sort();
        assert_eq!(found, expected);
        assert!(search(&tree.path().join("nosuch"), vec![user]).is_empty());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut units = Units::default();
        // Pid 0 is no process that could be asked for.
        for number in 0..2 * KNOWN_MAX as u64 {
            assert_eq!(units.of(0, Some(u64::MAX - number)), None);
            assert!(units.names.len() <= KNOWN_MAX && units.wanted.len() <= KNOWN_MAX);
        }
        assert_eq!(units.of(0, None), None);
    }
}

//! The unit, session or container that a process belongs to, by its cgroup's path.
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

/// Longest name that is kept, in bytes: the longest that a kubelet makes has 144.
const NAME_BYTES_MAX: usize = 160;

/// Every engine calls a container by a number of so many hexadecimal digits, also in the name of its cgroup.
const CONTAINER_DIGITS: usize = 64;

/// How the names of cgroups begin that systemd and LXC make for containers, which have no such number.
const CONTAINERS: [&str; 3] = ["machine-", "systemd-nspawn@", "lxc.payload."];

/// How the names of units and sessions end that processes are in.
const UNITS: [&str; 2] = [".service", ".scope"];

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

    /// Takes up what a search has found, and begins the next one. To be called every second.
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
            let path = entry.path();
            if let Some(place) = wanted.iter().position(|number| *number == entry.ino()) {
                let number = wanted.swap_remove(place);
                let below = path.strip_prefix(tree).ok().and_then(Path::to_str);
                found.extend(below.and_then(name_in).map(|name| (number, name)));
            }
            if wanted.is_empty() || looked_at >= LOOKED_AT_MAX {
                return found;
            }
            folders.push(path);
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

/// The name in a process's list of cgroups. A container that any hierarchy knows counts before a unit. Units are
/// systemd's, which keeps them in the unified hierarchy or in one of its own.
fn unit_in(cgroups: &str) -> Option<Box<str>> {
    let paths = || {
        cgroups.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            Some((fields.next()?, fields.next()?))
        })
    };
    let unit = |of: &str| {
        let (_, path) = paths().find(|(controllers, path)| *controllers == of && path.len() > 1)?;
        name_in(path)
    };
    let container = paths().find_map(|(_, path)| container_in(path)).and_then(kept);
    container.or_else(|| unit("")).or_else(|| unit("name=systemd"))
}

/// The innermost container in a cgroup's path; without one the innermost unit; else the last part. Engines and units
/// make cgroups of their own below these.
fn name_in(path: &str) -> Option<Box<str>> {
    let unit = || path.rsplit('/').find(|part| UNITS.iter().any(|end| part.ends_with(end)));
    // Where no other part follows, `..` is outside of what this daemon may see.
    let last = || path.rsplit('/').next().filter(|part| *part != "..");
    kept(container_in(path).or_else(unit).or_else(last)?)
}

fn container_in(path: &str) -> Option<&str> {
    path.rsplit('/').find(|part| {
        let mut words = part.split(|one: char| !one.is_ascii_alphanumeric());
        words.any(|word| {
            word.len() == CONTAINER_DIGITS && word.bytes().all(|one| one.is_ascii_hexdigit())
        }) || CONTAINERS.iter().any(|begin| part.starts_with(begin))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn units_and_containers_are_named_by_their_cgroups() {
        for (cgroups, unit) in [
            ("0::/system.slice/php-fpm.service\n", Some("php-fpm.service")),
            ("0::/system.slice/php-fpm.service/workers\n", Some("php-fpm.service")),
            (
                "0::/user.slice/user-7.slice/user@7.service/app.slice/app-x.scope",
                Some("app-x.scope"),
            ),
            (
                "12:pids:/x\n1:name=systemd:/user.slice/session-3.scope\n0::/\n",
                Some("session-3.scope"),
            ),
            ("0::/system.slice/docker-0a1b.scope\n", Some("docker-0a1b.scope")),
            ("0::/batch/job:7\n", Some("job:7")),
            ("0::/\n", None),
            ("0::/../..\n", None),
            ("", None),
            ("nonsense", None),
        ] {
            assert_eq!(unit_in(cgroups).as_deref(), unit, "{cgroups:?}");
        }
    }

    /// As the engines name them, each with its ways to make cgroups: systemd's, its own, and version 1.
    #[test]
    fn containers_are_named_whatever_is_made_in_them() {
        let id = "3f".repeat(CONTAINER_DIGITS / 2);
        let pod = "0c0f22b2_0f5c_4a53_b3a4_0a0f5a0c9d7e";
        for (cgroups, name) in [
            (format!("0::/system.slice/docker-{id}.scope\n"), format!("docker-{id}.scope")),
            (
                format!("0::/system.slice/docker-{id}.scope/system.slice/shop.service"),
                format!("docker-{id}.scope"),
            ),
            (format!("0::/docker/{id}\n"), id.clone()),
            (
                format!("0::/machine.slice/libpod-{id}.scope/container"),
                format!("libpod-{id}.scope"),
            ),
            (
                format!("0::/system.slice/shop.service/libpod-payload-{id}"),
                format!("libpod-payload-{id}"),
            ),
            (format!("0::/libpod_parent/libpod-{id}"), format!("libpod-{id}")),
            (
                format!("0::/kubepods.slice/kubepods-pod{pod}.slice/cri-containerd-{id}.scope"),
                format!("cri-containerd-{id}.scope"),
            ),
            (
                format!(
                    "0::/system.slice/containerd.service/kubepods-besteffort-pod{pod}.slice:cri-containerd:{id}"
                ),
                format!("kubepods-besteffort-pod{pod}.slice:cri-containerd:{id}"),
            ),
            (
                format!("0::/kubepods.slice/kubepods-pod{pod}.slice/crio-{id}.scope/container"),
                format!("crio-{id}.scope"),
            ),
            (format!("0::/../cri-containerd-{id}.scope"), format!("cri-containerd-{id}.scope")),
            (
                format!(
                    "0::/docker/{}/kubepods.slice/cri-containerd-{id}.scope/init.scope",
                    "a0".repeat(CONTAINER_DIGITS / 2)
                ),
                format!("cri-containerd-{id}.scope"),
            ),
            (
                format!("4:memory:/kubepods/burstable/pod{pod}/{id}\n1:name=systemd:/\n0::/\n"),
                id.clone(),
            ),
            (
                format!("3:cpu,cpuacct:/docker/{id}\n0::/system.slice/containerd.service"),
                id.clone(),
            ),
            (
                "0::/machine.slice/machine-web.scope/payload/system.slice/shop.service".to_owned(),
                "machine-web.scope".to_owned(),
            ),
            ("0::/lxc.payload.web/init.scope".to_owned(), "lxc.payload.web".to_owned()),
        ] {
            assert_eq!(unit_in(&cgroups).as_deref(), Some(&*name), "{cgroups}");
        }
    }

    #[test]
    fn cgroups_are_found_by_their_numbers() {
        let tree = tempfile::tempdir().unwrap();
        let (deep, long) = ("system.slice/php-fpm.service", "x".repeat(NAME_BYTES_MAX + 1));
        let container = format!("libpod-{}.scope", "0a".repeat(CONTAINER_DIGITS / 2));
        let number = |path: &str| {
            fs::create_dir_all(tree.path().join(path)).unwrap();
            fs::metadata(tree.path().join(path)).unwrap().ino()
        };
        number("system.slice/other.service");
        let (deep, long, user) = (number(deep), number(&long), number("user.slice"));
        let inner = number(&format!("machine.slice/{container}/container"));
        fs::write(tree.path().join("cgroup.procs"), "").unwrap();
        assert!(is_unified(tree.path()));
        let mut found = search(tree.path(), vec![deep, long, user, inner, u64::MAX]);
        found.sort();
        let mut expected = vec![
            (deep, Box::<str>::from("php-fpm.service")),
            (user, "user.slice".into()),
            (inner, container.into()),
        ];
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

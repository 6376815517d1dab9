//! A control group with a memory limit, like that of a container or a unit. Memory that the kernel uses for the daemon,
//! such as socket buffers, counts towards the limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::host::eventually;

/// The cgroup hierarchies that can limit memory: version 2 and version 1.
const TREES: [(&str, Names); 2] = [
    (
        "/sys/fs/cgroup",
        Names { most: "memory.max", used: "memory.current", killed: "memory.events", file: "file" },
    ),
    (
        "/sys/fs/cgroup/memory",
        Names {
            most: "memory.limit_in_bytes",
            used: "memory.usage_in_bytes",
            killed: "memory.oom_control",
            file: "total_cache",
        },
    ),
];

#[derive(Clone, Copy)]
struct Names {
    most: &'static str,
    used: &'static str,
    killed: &'static str,
    /// The member of `memory.stat` for cached files, which the kernel reclaims when memory is short.
    file: &'static str,
}

/// The memory limit that the manifests set.
#[must_use]
pub fn shipped_limit_bytes() -> u64 {
    let values = include_str!("../kubernetes/values.yaml");
    let limits = values.split("limits:").nth(1).expect("the chart limits something");
    let mut words = limits.split_whitespace().skip_while(|word| *word != "memory:");
    let mib = words.nth(1).and_then(|limit| limit.strip_suffix("Mi")?.parse::<u64>().ok());
    mib.expect("the chart limits memory in MiB") << 20
}

/// A shell script for `unshare --mount` that replaces `/etc/subuid` by a file, and then runs its arguments.
#[must_use]
pub fn bind_subuid(file: &Path) -> String {
    format!("mount --bind {} /etc/subuid && exec \"$@\"", file.display())
}

/// A control group. It is removed when this is dropped, and its processes must have ended by then.
pub struct Cgroup {
    path: PathBuf,
    names: Names,
}

impl Cgroup {
    /// A new group with this limit. Needs root.
    #[track_caller]
    pub fn new(limit_bytes: u64) -> Cgroup {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("leafd-test-{}-{number}", std::process::id());
        for (tree, names) in TREES {
            let path = Path::new(tree).join(&name);
            if fs::create_dir(&path).is_err() {
                continue;
            }
            let cgroup = Cgroup { path, names };
            let limit = limit_bytes.to_string();
            if cgroup.path.join(names.most).exists()
                && fs::write(cgroup.path.join(names.most), limit).is_ok()
            {
                return cgroup;
            }
        }
        panic!("no control group with a limit of memory can be made");
    }

    /// A command prefix that runs the command after it in the group.
    pub fn runner(&self) -> [String; 4] {
        let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.path.display());
        ["sh".to_owned(), "-c".to_owned(), join, "sh".to_owned()]
    }

    /// The used memory, without cached files.
    pub fn used_bytes(&self) -> u64 {
        let used: u64 = self.read(self.names.used).trim().parse().expect("a number");
        used.saturating_sub(member(&self.read("memory.stat"), self.names.file))
    }

    /// How many processes the kernel has killed because memory was short.
    pub fn killed(&self) -> u64 {
        member(&self.read(self.names.killed), "oom_kill")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            eventually("an empty cgroup", Duration::from_secs(20), || {
                fs::remove_dir(&self.path).ok()
            });
        }
    }
}

fn member(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let found = lines.find(|(member, _)| *member == name);
    found.unwrap_or_else(|| panic!("no {name} in {text}")).1.parse().expect("a number")
}

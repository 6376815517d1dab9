//! A booted machine with its own systemd: this machine's files, with a layer in memory above them that takes all
//! writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use leafd_client::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::NamedTempFile;

use crate::host::{die_with_parent, eventually};
use crate::package::packages;

/// The folder with the packages in the machine.
pub const PACKAGES: &str = "/leafd-packages";

/// Mounts this machine's files for the container, in a separate control group, and boots it.
const BOOT: &str = r#"
name=$1
shift
for hierarchy in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
    if [ -f "$hierarchy/cgroup.procs" ]; then
        mkdir -p "$hierarchy/$name"
        echo $$ >"$hierarchy/$name/cgroup.procs"
    fi
done
mount --bind / /mnt
mount --make-private /mnt
exec systemd-nspawn --quiet --directory=/mnt --volatile=overlay --boot --register=no --keep-unit --link-journal=no --machine="$name" "$@"
"#;

/// Services of this machine that would only take time.
const MASKED: [&str; 4] =
    ["mariadb.service", "postgresql.service", "redis-server.service", "podman.socket"];

/// How long a boot, or any other wait, may take on a busy machine.
pub const WITHIN: Duration = Duration::from_secs(60);

/// How long a shutdown may take before it is forced.
const END_WITHIN: Duration = Duration::from_secs(20);

/// A booted machine.
pub struct Machine {
    name: String,
    container: Child,
    /// The container's own messages.
    _said: NamedTempFile,
    /// The process of its systemd, in this machine's PID namespace.
    init: Pid,
}

/// The network of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Its own, with only a loopback interface.
    Own,
    /// This machine's, for servers that a test starts here.
    Ours,
}

impl Machine {
    /// Boots a machine without leafd.
    pub fn boot(network: Network) -> Machine {
        Machine::boot_with(network, &[])
    }

    /// The same, with these of the services that would otherwise only take time.
    pub fn boot_with(network: Network, services: &[&str]) -> Machine {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("leafd-{}-{count}", std::process::id());
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-euc", BOOT, "sh", &name]);
        command.arg(format!("--bind-ro={}:{PACKAGES}", packages().folder.display()));
        if network == Network::Own {
            command.arg("--private-network");
        }
        command.arg("systemd.unit=multi-user.target");
        let masked = MASKED.iter().filter(|unit| !services.contains(unit));
        command.args(masked.map(|unit| format!("systemd.mask={unit}")));
        let said = NamedTempFile::new().unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.reopen().unwrap());
        let mut container = die_with_parent(&mut command).spawn().expect("unshare is installed");
        let init = eventually("the container's first process", WITHIN, || {
            if let Some(status) = container.try_wait().unwrap() {
                let why = fs::read_to_string(said.path()).unwrap();
                panic!("the container ends with {status}: {why}; these tests have to run as root");
            }
            first_child(container.id())
        });
        let machine = Machine { name, container, _said: said, init };
        eventually("a booted machine", WITHIN, || {
            let state = machine.run("systemctl is-system-running");
            ["running\n", "degraded\n"].contains(&text(&state.stdout).as_str()).then_some(())
        });
        // This machine may have a policy that keeps packages from starting services, so that tests can start their own.
        machine.ok("rm -f /usr/sbin/policy-rc.d");
        machine
    }

    /// Boots a machine with leafd as its package leaves it, and a tag to draw from.
    pub fn with_leafd() -> Machine {
        let machine = Machine::boot(Network::Own);
        machine.install(&packages().first);
        machine.ok("leafctl tag create orders");
        machine
    }

    /// Installs or upgrades a package, and returns its output.
    #[track_caller]
    pub fn install(&self, package: &str) -> String {
        // Triggers of other packages for manual pages would take longer than everything else.
        self.ok(&format!("dpkg --no-triggers --install {PACKAGES}/{package}"))
    }

    /// Runs shell commands in it, as root.
    pub fn run(&self, commands: &str) -> Output {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init.to_string()]);
        command.args(["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root"]);
        command.args(["sh", "-euc", &format!("cd /\n{commands}")]).stdin(Stdio::null());
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
        die_with_parent(&mut command).output().expect("nsenter is installed")
    }

    /// Runs commands that must succeed, and returns their output.
    #[track_caller]
    pub fn ok(&self, commands: &str) -> String {
        let output = self.run(commands);
        let (said, erred) = (text(&output.stdout), text(&output.stderr));
        if !output.status.success() {
            panic!("{commands}: {}\n{said}{erred}\nthe log:\n{}", output.status, self.log());
        }
        said
    }

    /// Runs commands that must fail, and returns their exit status and output.
    #[track_caller]
    pub fn fails(&self, commands: &str) -> (Option<i32>, String) {
        let output = self.run(commands);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.status.success(), "{commands} succeeds:\n{said}");
        (output.status.code(), said)
    }

    /// Writes a file in the machine.
    pub fn write(&self, path: &str, content: &str) {
        let place = self.root().join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, content).unwrap();
    }

    /// Its file system, as seen from here.
    fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.init))
    }

    /// leafd's socket, as seen from here.
    pub fn socket(&self) -> PathBuf {
        self.root().join("run/leafd/leafd.sock")
    }

    /// A client of its daemon, in this process.
    pub fn client(&self) -> Client {
        Client::builder().socket(self.socket()).deadline(WITHIN).build().unwrap()
    }

    /// A property of the daemon's unit.
    #[track_caller]
    pub fn unit(&self, property: &str) -> String {
        self.ok(&format!("systemctl show leafd.service --property {property} --value"))
            .trim_end()
            .to_owned()
    }

    /// The journal of the daemon and its units.
    pub fn log(&self) -> String {
        text(
            &self
                .run("journalctl --no-pager -o short-monotonic -u leafd.service -u leafd.socket")
                .stdout,
        )
    }

    /// Waits until the journal contains a text.
    #[track_caller]
    pub fn logged(&self, what: &str) {
        let begun = Instant::now();
        while !self.log().contains(what) {
            assert!(begun.elapsed() < WITHIN, "the journal lacks {what:?}:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The container shuts down on this signal.
        let _ = kill(Pid::from_raw(self.container.id() as i32), Signal::SIGTERM);
        let begun = Instant::now();
        while matches!(self.container.try_wait(), Ok(None)) {
            if begun.elapsed() > END_WITHIN {
                let _ = self.container.kill();
                let _ = self.container.wait();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        for hierarchy in ["systemd", "unified", ""] {
            remove_group(&Path::new("/sys/fs/cgroup").join(hierarchy).join(&self.name));
        }
    }
}

/// Removes a control group and its children, unless processes are left in them.
fn remove_group(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove_group(&entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}

fn first_child(pid: u32) -> Option<Pid> {
    // While this is still the shell that mounts, its children come and go.
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let child = children.split_whitespace().next()?.parse().ok()?;
    let child_name = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
    (name == "systemd-nspawn\n" && child_name == "systemd\n").then(|| Pid::from_raw(child))
}

pub fn text(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(bytes.as_ref()).into_owned()
}

/// A user without rights at leafd, and without the number that user namespaces use for "nobody".
pub const STRANGER: u32 = 4711;

/// A command prefix that runs a command as that user, with these `setpriv` arguments for its groups.
pub fn as_stranger(groups: &str) -> String {
    format!("setpriv --reuid={STRANGER} --regid={STRANGER} {groups}")
}

//! A container engine for one test: podman with its own storage, processes and mounts, all of which disappear with the
//! test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use leafd_tests::host::{die_with_parent, eventually, leafd_binary, without_cargo_s_variables};
use tempfile::TempDir;

/// The image's name in every engine.
pub const IMAGE: &str = "localhost/leafd:test";

/// The name of the image with the application's program.
pub const APPLICATION: &str = "localhost/application:test";

/// How long the namespaces may take to exist.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// Creates the namespaces, and keeps them alive. The engine has separate folders at the usual paths there, because the
/// programs that run when a container ends look only at the usual paths. Also, podman fails if there is a second
/// hierarchy of control groups, because it takes that for the only one.
const HOLDER: &str = "
    if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
    mkdir -p /var/lib/containers
    mount --bind \"$1\" /var/lib/containers
    mount -t tmpfs none /run
    mount -t tmpfs none /dev/shm
    echo ready
    exec sleep infinity";

/// An engine.
pub struct Engine {
    folder: TempDir,
    holder: Child,
    /// The process that holds the namespaces.
    inside: i32,
}

impl Engine {
    /// An engine without images.
    pub fn new() -> Engine {
        assert!(nix::unistd::geteuid().is_root(), "the tests of containers have to be run by root");
        let folder = tempfile::Builder::new().prefix("leafd-engine-").tempdir().unwrap();
        let configuration = "[containers]\ndefault_ulimits = []\n\
             [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n";
        std::fs::write(folder.path().join("containers.conf"), configuration).unwrap();
        let storage = folder.path().join("storage");
        std::fs::create_dir(&storage).unwrap();
        let said = folder.path().join("said");
        let mut command = Command::new("unshare");
        command
            .args([
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
                "-ec",
                HOLDER,
                "sh",
            ])
            .arg(&storage)
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&said).unwrap());
        let holder = die_with_parent(&mut command).spawn().unwrap();
        let inside = eventually("the engine's namespaces", READY_WITHIN, || {
            let ready = std::fs::read_to_string(&said).unwrap() == "ready\n";
            let children = format!("/proc/{0}/task/{0}/children", holder.id());
            let inside = std::fs::read_to_string(children).unwrap().trim().parse().ok();
            inside.filter(|_| ready)
        });
        Engine { folder, holder, inside }
    }

    /// An engine with both images.
    pub fn with_images() -> Engine {
        let engine = Engine::new();
        for archive in archives() {
            engine.podman(&["load", "--quiet", "--input", archive.to_str().unwrap()]);
        }
        engine
    }

    /// A folder that belongs to the test, and that containers may be given.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command that runs inside the namespaces.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        without_cargo_s_variables(&mut command);
        let inside = self.inside.to_string();
        command
            .args(["--target", &inside, "--mount", "--pid", "--wdns=.", "--", program])
            .env("CONTAINERS_CONF", self.path("containers.conf"))
            // Layers are copied instead of mounted, because they are small.
            .env("STORAGE_DRIVER", "vfs")
            // Probes would be systemd timers, so the tests run them.
            .env("DISABLE_HC_SYSTEMD", "true")
            .stdin(Stdio::null());
        command
    }

    /// Runs podman, and ignores failure.
    pub fn try_podman(&self, words: &[&str]) -> Output {
        self.command("podman").args(words).output().unwrap()
    }

    /// Runs podman, and returns its output.
    #[track_caller]
    pub fn podman(&self, words: &[&str]) -> String {
        said(words, &self.try_podman(words))
    }

    /// Runs a command in a container, as probes and hooks are.
    #[track_caller]
    pub fn exec(&self, container: &str, words: &[&str]) -> String {
        self.podman(&[&["exec", container], words].concat())
    }

    /// One member of what the engine reports about a container.
    #[track_caller]
    pub fn inspect(&self, container: &str, what: &str) -> String {
        self.podman(&["inspect", "--format", what, container]).trim().to_owned()
    }

    /// The process that a container runs, as seen from inside the engine; 0 when there is none.
    #[track_caller]
    pub fn pid(&self, container: &str) -> u32 {
        self.inspect(container, "{{.State.Pid}}").parse().unwrap()
    }

    /// Kills the container's process with SIGKILL.
    #[track_caller]
    pub fn kill(&self, container: &str) -> u32 {
        let pid = self.pid(container);
        let killed = self.command("kill").args(["-9", &pid.to_string()]).output().unwrap();
        said(&["kill"], &killed);
        pid
    }

    /// The whole log of the container.
    pub fn log(&self, container: &str) -> String {
        let output = self.try_podman(&["logs", container]);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Removes everything in order, so that no control group is left.
        for words in [["pod", "rm", "--force", "--all"], ["rm", "--force", "--all", "--volumes"]] {
            let _ = self.try_podman(&words);
        }
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The output of a command that had to succeed.
#[track_caller]
fn said(words: &[&str], output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?} ended with {}: {error}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Both images as files, built once. `TESTED_IMAGE` names another archive with leafd's image, such as a release's.
fn archives() -> &'static [PathBuf; 2] {
    static ARCHIVES: OnceLock<[PathBuf; 2]> = OnceLock::new();
    ARCHIVES.get_or_init(|| {
        let engine = Engine::new();
        match std::env::var("TESTED_IMAGE") {
            Ok(archive) => {
                let words = ["pull", "--quiet", &format!("oci-archive:{archive}")];
                let pulled = engine.command("buildah").args(words).output().unwrap();
                engine.podman(&["tag", said(&words, &pulled).trim(), IMAGE]);
            }
            Err(_) => build_leafd(&engine),
        }
        build_application(&engine);
        [("leafd", IMAGE), ("application", APPLICATION)].map(|(name, image)| {
            let archive = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.tar"));
            let _ = std::fs::remove_file(&archive);
            engine.podman(&["save", "--quiet", "--output", archive.to_str().unwrap(), image]);
            archive
        })
    })
}

fn build_leafd(engine: &Engine) {
    let build = engine
        .command(concat!(env!("CARGO_MANIFEST_DIR"), "/../kubernetes/build"))
        .arg(IMAGE)
        .env("CARGO_TARGET_DIR", target_dir())
        // The program's dependencies are built already.
        .env("PROFILE", "dev")
        .output()
        .unwrap();
    print!("{}", said(&["kubernetes/build"], &build));
}

/// Where cargo builds.
fn target_dir() -> &'static Path {
    leafd_binary().parent().and_then(Path::parent).expect("target/PROFILE/leafd")
}

/// Builds an image like leafd's, with the application's program.
fn build_application(engine: &Engine) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = without_cargo_s_variables(&mut Command::new(cargo))
        .args(["rustc", "--quiet", "--package", "leafd-tests", "--bin", "kubernetes-application"])
        .arg("--target-dir")
        .arg(target_dir())
        .args(["--", "-C", "target-feature=+crt-static", "-C", "strip=symbols"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(built.success(), "what applications run can't be built");
    let context = engine.path("application");
    std::fs::create_dir(&context).unwrap();
    let program = target_dir().join("debug/kubernetes-application");
    std::fs::copy(program, context.join("application")).unwrap();
    let recipe = "FROM scratch\nCOPY application /application\nENTRYPOINT [\"/application\"]\n";
    std::fs::write(context.join("Containerfile"), recipe).unwrap();
    let words = ["build", "--quiet", "--isolation", "chroot", "--tag", APPLICATION];
    let build = engine.command("buildah").args(words).arg(&context).output().unwrap();
    said(&words, &build);
}

//! `leafctl whose` tells the container that drew an id from the host's daemon: of a real one, and of processes in cgroups
//! with the names that other engines give theirs, which can't run here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use leafd_tests::host::{Host, eventually, leafd_binary};
use leafd_wire::opcode;
use serde_json::{Value, json};

use crate::engine::{APPLICATION, Engine};
use crate::pods::WITHIN;

const TAG: &str = "orders";

/// As podman calls the container.
const CONTAINER: &str = "drawing";

/// Where systemd's cgroups are: the unified ones beside those of version 1, or alone, or version 1's.
const TREES: [&str; 3] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup", "/sys/fs/cgroup/systemd"];

fn host() -> Host {
    let mut host = Host::new().worker(0);
    host.start();
    host.create(TAG);
    host
}

/// What is told of an id's process, and in words.
#[track_caller]
fn told(host: &Host, id: u64) -> (Value, String) {
    let answer = host.admin(opcode::WHOSE, &json!({ "tag": TAG, "id": id }));
    let output = host.leafctl(&["whose", &id.to_string(), "--tag", TAG]);
    assert!(output.status.success(), "{output:?}");
    (answer["processes"][0].clone(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_container_that_drew_an_id_is_told() {
    let engine = Engine::with_images();
    let host = host();
    let folder = host.socket().parent().unwrap().to_owned();
    let out = engine.path("out");
    fs::create_dir(&out).unwrap();
    let mount = |from: &Path, to: &str| format!("{}:{to}", from.display());
    let socket = Path::new("/host").join(host.socket().file_name().unwrap());
    engine.podman(&[
        "run",
        "--detach",
        "--name",
        CONTAINER,
        "--network=none",
        "--volume",
        &mount(&folder, "/host"),
        "--volume",
        &mount(&out, "/out"),
        "--env",
        &format!("LEAFD_SOCKET={}", socket.display()),
        APPLICATION,
        "/out/seen",
        TAG,
        "0",
    ]);
    eventually("the container draws", WITHIN, || {
        let status = host.status();
        let tags = status["segments"]["tags"].as_array().unwrap();
        (tags.first()?["issued"].as_u64()? > 100).then_some(())
    });
    let container = engine.inspect(CONTAINER, "{{.Id}}");
    engine.podman(&["stop", "--time", "20", CONTAINER]);
    let seen = fs::read_to_string(out.join("seen")).unwrap();
    let ids: Vec<u64> =
        seen.lines().filter_map(|line| line.strip_prefix("id ")?.parse().ok()).collect();
    assert!(ids.len() > 100, "{seen}");
    for id in [ids[0], ids[ids.len() - 1]] {
        let (process, words) = told(&host, id);
        let unit = process["unit"].as_str().unwrap_or_else(|| panic!("no unit: {process}"));
        assert!(unit.contains(&container), "{unit}, and it is {container}");
        assert!(words.contains(&format!(", {unit} at ")), "{words}");
    }
}

/// Cgroups of this machine's that go with the test.
struct Cgroups {
    root: PathBuf,
    made: Vec<PathBuf>,
}

impl Cgroups {
    fn new() -> Cgroups {
        let tree = TREES.map(Path::new).into_iter().find(|tree| tree.join("cgroup.procs").exists());
        let tree = tree.expect("systemd's cgroups, or the unified ones, are mounted");
        println!("cgroups are made below {}", tree.display());
        let root = tree.join(format!("leafd-test-{}", std::process::id()));
        Cgroups { root, made: Vec::new() }
    }

    /// Draws an id in a cgroup of this path.
    fn draw(&mut self, path: &str, host: &Host) -> u64 {
        let mut folder = self.root.clone();
        for part in Path::new(path) {
            if !folder.exists() {
                fs::create_dir(&folder).unwrap();
                self.made.push(folder.clone());
            }
            folder.push(part);
        }
        fs::create_dir(&folder).unwrap();
        self.made.push(folder.clone());
        let enter = "echo $$ >\"$1/cgroup.procs\"; exec \"$2\" next \"$3\"";
        let leafctl = leafd_binary().with_file_name("leafctl");
        let output = Command::new("sh")
            .args(["-ec", enter, "sh"])
            .arg(&folder)
            .arg(leafctl)
            .arg(TAG)
            .env("LEAFD_SOCKET", host.socket())
            .output()
            .unwrap();
        assert!(output.status.success(), "{path}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            // A process that has just ended may still be in it.
            let _ = fs::remove_dir(folder).or_else(|_| {
                std::thread::sleep(std::time::Duration::from_millis(100));
                fs::remove_dir(folder)
            });
        }
    }
}

#[test]
fn cgroups_are_told_as_each_engine_names_them() {
    let host = host();
    let mut cgroups = Cgroups::new();
    let pod =
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0c0f22b2_0f5c_4a53.slice";
    let mut drawn = Vec::new();
    // Each has a number of its own, so that none is told by another one's.
    let id = |number: usize| format!("{number:064x}");
    for (path, name) in [
        (
            format!("{pod}/cri-containerd-{}.scope", id(1)),
            format!("cri-containerd-{}.scope", id(1)),
        ),
        (format!("{pod}/crio-{}.scope/container", id(2)), format!("crio-{}.scope", id(2))),
        (format!("kubepods/besteffort/pod0c0f22b2-0f5c/{}", id(3)), id(3)),
        (format!("system.slice/docker-{}.scope", id(4)), format!("docker-{}.scope", id(4))),
        (format!("docker/{}/init.scope", id(5)), id(5)),
        (
            format!("machine.slice/libpod-{}.scope/container", id(6)),
            format!("libpod-{}.scope", id(6)),
        ),
        (
            format!("system.slice/shop.service/libpod-payload-{}", id(7)),
            format!("libpod-payload-{}", id(7)),
        ),
        ("system.slice/php-fpm.service/workers".to_owned(), "php-fpm.service".to_owned()),
    ] {
        let drawn_here = cgroups.draw(&path, &host);
        drawn.push(drawn_here);
        let (process, words) = told(&host, drawn_here);
        assert_eq!(process["unit"], name, "{path}: {process}");
        assert!(words.contains(&format!(", {name} at ")), "{words}");
    }
    let count = drawn.len();
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), count, "no id came twice");
}

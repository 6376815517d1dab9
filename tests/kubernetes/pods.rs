//! The real pods with a database that is known only to DNS and to its own authority: an application of another user
//! draws over the shared socket while the daemon beside it is killed, and then all are stopped in order.
//!
//! podman replaces the kubelet as far as Debian's release of it can. The test does the rest as the kubelet would:
//! `fsGroup`, volumes of `emptyDir` and `secret`, probes, hooks, and the order of a native sidecar.

use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::time::{Duration, Instant};

use leafd_tests::host::eventually;
use leafd_tests::servers::{PASSWORD, Server as _};
use serde_json::{Value, json};

use crate::database::Database;
use crate::engine::{APPLICATION, Engine, IMAGE};
use crate::manifests::{configuration_with_masks, documents};

/// The containers' names in podman.
const LEAFD: &str = "application-leafd";
const BESIDE: &str = "application-application";

/// The tag that is drawn.
const TAG: &str = "orders";

/// The keys of the protocol's test vectors, and the public id of 17 under them.
const MASK_KEYS: &str = "1 000102030405060708090a0b0c0d0e0f\n";
const PUBLIC_ID_OF_17: &str = "ord_16dsky4r4xzza8d\n";

/// How often the daemon is killed.
const KILLS: usize = 3;

/// How long the application continues after it was asked to stop.
const DRAIN_MS: u64 = 1_500;

/// How long anything may take on a busy machine.
pub const WITHIN: Duration = Duration::from_secs(60);

/// A pod that runs.
struct Pod {
    engine: Engine,
    database: Database,
    /// leafd's container as in the manifest.
    leafd: Value,
}

/// What the application got.
struct Seen {
    ids: usize,
    longest: Duration,
    errors: Vec<String>,
}

impl Pod {
    /// Runs a manifest.
    fn play(manifest: &str) -> Pod {
        let engine = Engine::with_images();
        let database = Database::new();
        let mut pod = documents(manifest).remove(0);
        let [configuration, secret] = configured(&database);
        let leafd = adapt(&mut pod, &secret, &engine, &database);
        let played = engine.path("played.yaml");
        fs::write(&played, format!("{configuration}\n---\n{pod}\n")).unwrap();

        engine.podman(&["play", "kube", "--start=false", played.to_str().unwrap()]);
        engine.podman(&["start", LEAFD]);
        let pod = Pod { engine, database, leafd };
        pod.engine.exec(LEAFD, &["leafctl", "wait", "answering"]);
        pod.probe("startupProbe");
        // The daemon is running, and its database has no tables yet. Its user may create them here.
        let apply = ["leafd", "schema", "apply", "--config", "/etc/leafd/leafd.toml"];
        pod.engine.exec(LEAFD, &apply);
        eventually("the tag is created", WITHIN, || {
            let create = ["exec", LEAFD, "leafctl", "tag", "create", TAG];
            pod.engine.try_podman(&create).status.success().then_some(())
        });
        pod.engine.podman(&["start", BESIDE]);
        pod
    }

    /// Runs a probe as the kubelet does.
    #[track_caller]
    fn probe(&self, probe: &str) {
        let command = match &self.leafd[probe] {
            Value::Null => &self.leafd["livenessProbe"],
            named => named,
        };
        self.engine.exec(LEAFD, &words(&command["exec"]["command"]));
    }

    /// Ids of the tag that were drawn from the current daemon.
    fn issued(&self) -> u64 {
        let status = self.engine.exec(LEAFD, &["leafctl", "status", "--json"]);
        let status: Value = serde_json::from_str(&status).unwrap();
        let tags = status["segments"]["tags"].as_array().unwrap();
        tags.iter().find(|tag| tag["tag"] == TAG).map_or(0, |tag| tag["issued"].as_u64().unwrap())
    }

    /// Waits until the application draws from the current daemon.
    #[track_caller]
    fn drawing(&self) {
        eventually("the application draws", WITHIN, || (self.issued() > 1_000).then_some(()));
    }

    /// Kills the daemon with SIGKILL. Returns how long it took to answer again.
    #[track_caller]
    fn kill(&self) -> Duration {
        let begun = Instant::now();
        let killed = self.engine.kill(LEAFD);
        eventually("the daemon is started again", WITHIN, || {
            let pid = self.engine.try_podman(&["inspect", "--format", "{{.State.Pid}}", LEAFD]);
            let pid = String::from_utf8(pid.stdout).unwrap().trim().parse().unwrap_or(0);
            let ping = ["exec", LEAFD, "leafctl", "ping"];
            let again = ![0, killed].contains(&pid);
            (again && self.engine.try_podman(&ping).status.success()).then_some(())
        });
        begun.elapsed()
    }

    /// Stops both containers as the kubelet does, in the order that this kind of pod has. Fails unless the application
    /// ended first, and both ended cleanly.
    #[track_caller]
    fn stop(&self) -> Seen {
        let hook = &self.leafd["lifecycle"]["preStop"]["exec"]["command"];
        std::thread::scope(|scope| {
            let begun = Instant::now();
            let beside = scope.spawn(|| self.engine.podman(&["stop", "--time", "25", BESIDE]));
            if hook.is_array() {
                self.engine.exec(LEAFD, &words(hook));
                assert!(begun.elapsed() >= Duration::from_millis(DRAIN_MS), "it was still in use");
            }
            beside.join().unwrap();
        });
        self.engine.podman(&["stop", "--time", "10", LEAFD]);
        for container in [BESIDE, LEAFD] {
            let code = self.engine.inspect(container, "{{.State.ExitCode}}");
            assert_eq!(code, "0", "{container}: {}", self.engine.log(container));
        }
        let log = self.engine.log(LEAFD);
        assert!(log.contains("stopped cleanly"), "{log}");
        self.seen()
    }

    /// What the application wrote at its end. Checks that no id was issued twice.
    #[track_caller]
    fn seen(&self) -> Seen {
        let text = fs::read_to_string(self.engine.path("out/seen")).unwrap();
        let (mut ids, mut errors, mut longest) = (HashSet::new(), Vec::new(), Duration::ZERO);
        for line in text.lines() {
            match line.split_once(' ').unwrap() {
                ("id", id) => assert!(ids.insert(id.parse::<u64>().unwrap()), "{id} came twice"),
                ("longest", us) => longest = Duration::from_micros(us.parse().unwrap()),
                _ => errors.push(line.to_owned()),
            }
        }
        Seen { ids: ids.len(), longest, errors }
    }
}

fn words(command: &Value) -> Vec<&str> {
    command.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

/// The ConfigMap and the Secret, with the values that an operator must fill in.
fn configured(database: &Database) -> [Value; 2] {
    let both: Result<[Value; 2], _> = configuration_with_masks().0.try_into();
    let [mut configuration, mut secret] = both.expect("a ConfigMap and a Secret");
    let text = configuration["data"]["leafd.toml"].as_str().unwrap();
    assert!(text.contains("db.example.com/ids"), "{text}");
    configuration["data"]["leafd.toml"] =
        json!(text.replace("db.example.com/ids", &database.address()));
    configuration["data"]["ca.pem"] = json!(fs::read_to_string(database.authority()).unwrap());
    secret["stringData"]["store_password"] = json!(PASSWORD);
    assert_eq!(secret["stringData"]["mask_keys"], format!("1 {}", "0".repeat(32)));
    secret["stringData"]["mask_keys"] = json!(MASK_KEYS);
    [configuration, secret]
}

/// Changes a pod's manifest so that this podman can run it. Returns leafd's container as it was.
fn adapt(pod: &mut Value, secret: &Value, engine: &Engine, database: &Database) -> Value {
    let spec = pod["spec"].as_object_mut().unwrap();
    let first = spec.remove("initContainers");
    let containers = spec["containers"].as_array_mut().unwrap();
    if let Some(Value::Array(first)) = first {
        containers.splice(0..0, first);
    }
    let [leafd, application] = &mut containers[..] else { panic!("two containers") };
    let as_it_was = leafd.clone();
    leafd["image"] = json!(IMAGE);
    leafd["imagePullPolicy"] = json!("Never");
    let leafd = leafd.as_object_mut().unwrap();
    for done_by_hand in ["restartPolicy", "startupProbe", "lifecycle"] {
        leafd.remove(done_by_hand);
    }
    application["image"] = json!(APPLICATION);
    application["imagePullPolicy"] = json!("Never");
    application["args"] = json!(["/out/seen", TAG, DRAIN_MS.to_string()]);

    // Each container gets the name server, and the application also gets a folder for its output.
    let out = engine.path("out");
    fs::create_dir(&out).unwrap();
    let uid = application["securityContext"]["runAsUser"].as_u64().unwrap();
    chown(&out, Some(u32::try_from(uid).unwrap()), None).unwrap();
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    containers[1]["volumeMounts"].as_array_mut().unwrap().push(mount("out", "/out"));
    for container in &mut *containers {
        let mounts = container["volumeMounts"].as_array_mut().unwrap();
        mounts.push(mount("names", "/etc/resolv.conf"));
    }
    let group = spec["securityContext"]["fsGroup"].as_u64().unwrap();
    let group = u32::try_from(group).unwrap();
    spec["securityContext"]["supplementalGroups"] = json!([group]);
    spec.insert("hostNetwork".to_owned(), json!(true));
    let volumes = spec["volumes"].as_array_mut().unwrap();
    for volume in &mut *volumes {
        let path = engine.path(volume["name"].as_str().unwrap());
        let source = volume.as_object_mut().unwrap();
        if source.remove("emptyDir").is_some() {
            folder(&path, group, 0o2777);
            source.insert("hostPath".to_owned(), json!({ "path": path }));
        } else if let Some(given) = source.remove("secret") {
            assert_eq!(given["secretName"], secret["metadata"]["name"]);
            folder(&path, group, 0o2755);
            for (name, text) in secret["stringData"].as_object().unwrap() {
                fs::write(path.join(name), text.as_str().unwrap()).unwrap();
                let mode = given["defaultMode"].as_u64().unwrap().try_into().unwrap();
                fs::set_permissions(path.join(name), Permissions::from_mode(mode)).unwrap();
            }
            source.insert("hostPath".to_owned(), json!({ "path": path }));
        }
    }
    volumes.push(json!({"name": "out", "hostPath": {"path": out}}));
    volumes.push(json!({"name": "names", "hostPath": {"path": database.resolv_conf()}}));
    as_it_was
}

/// A folder as the kubelet creates it for a pod with an `fsGroup`: new files in it belong to the group.
fn folder(path: &Path, group: u32, mode: u32) {
    fs::create_dir(path).unwrap();
    chown(path, Some(0), Some(group)).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Draws, kills the daemon, and stops the pod.
fn check(manifest: &str) {
    let pod = Pod::play(manifest);
    pod.drawing();
    let protected =
        "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'leafd'";
    assert_eq!(pod.database.server.sql(protected), [["t"]]);
    let mask = ["leafctl", "mask", TAG, "17", "--prefix", "ord"];
    assert_eq!(pod.engine.exec(LEAFD, &mask), PUBLIC_ID_OF_17);
    for _ in 0..KILLS {
        println!("{manifest}: {:.2?} from kill -9 to an answer", pod.kill());
        pod.probe("livenessProbe");
        pod.drawing();
    }
    let seen = pod.stop();
    println!(
        "{manifest}: {} ids, {} errors, longest wait {:.2?}",
        seen.ids,
        seen.errors.len(),
        seen.longest
    );
    assert!(seen.errors.is_empty(), "{:?}", &seen.errors[..seen.errors.len().min(5)]);
    assert!(seen.ids > 1_000 * KILLS, "{} ids", seen.ids);
}

#[test]
fn leafd_serves_as_an_ordinary_container() {
    check("container.yaml");
}

#[test]
fn leafd_serves_as_a_sidecar() {
    check("sidecar.yaml");
}

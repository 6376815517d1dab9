//! The content of `kubernetes/`: checked against the schemas of Kubernetes' releases, and against rules that no schema
//! contains.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::{Value, json};

/// The validator, which contains the schemas of all these releases, and Helm's engine as a library.
const PACKAGES: [&str; 2] = ["kubernetes-validate==1.37.0", "helm-python-sdk==0.2.2"];

/// The oldest supported release of Kubernetes, the first with native sidecars, and the newest known one.
pub const OLDEST: &str = "1.25";
pub const WITH_SIDECARS: &str = "1.29";
pub const NEWEST: &str = "1.37";

/// The manifests, and the oldest release that each is for.
const MANIFESTS: [(&str, &str); 5] = [
    ("configuration.yaml", OLDEST),
    ("container.yaml", OLDEST),
    ("daemonset.yaml", OLDEST),
    ("sidecar.yaml", WITH_SIDECARS),
    ("statefulset.yaml", WITH_SIDECARS),
];

/// Files that are not manifests: the chart's and Kustomize's.
const OTHERS: [&str; 4] = ["Chart.yaml", "values.yaml", "kustomization.yaml", "sidecar-patch.yaml"];

/// Prints a file's documents as JSON.
const AS_JSON: &str =
    "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../kubernetes")
}

/// A program of the Python environment that has [`PACKAGES`].
pub fn python(program: &str) -> Command {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    let bin = BIN.get_or_init(|| {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubernetes-validate");
        let bin = home.join("bin");
        run(Command::new("python3").args(["-m", "venv"]).arg(&home));
        run(Command::new(bin.join("pip")).args(["install", "--quiet"]).args(PACKAGES));
        bin
    });
    Command::new(bin.join(program))
}

pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|cause| panic!("{command:?}: {cause}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

/// The documents of a manifest.
pub fn documents(name: &str) -> Vec<Value> {
    documents_of(&folder().join(name))
}

fn documents_of(file: &Path) -> Vec<Value> {
    let output = run(python("python").args(["-c", AS_JSON]).arg(file));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The documents of the configuration with everything enabled that comments offer, and a file with them.
pub fn configuration_with_masks() -> (Vec<Value>, tempfile::NamedTempFile) {
    let text = std::fs::read_to_string(folder().join("configuration.yaml")).unwrap();
    let offered =
        |line: &str| line.trim_start().strip_prefix('#').is_some_and(|rest| !rest.starts_with(' '));
    let lines = text.lines().scan(false, |in_keys, line| {
        // The lines after this one belong to the keys.
        let taken = offered(line) || *in_keys;
        *in_keys = line.ends_with("#mask_keys: |");
        Some(if taken { line.replacen('#', "", 1) } else { line.to_owned() })
    });
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), lines.collect::<Vec<_>>().join("\n")).unwrap();
    (documents_of(file.path()), file)
}

pub fn validate(release: &str, paths: &[PathBuf]) -> Output {
    let mut command = python("kubernetes-validate");
    command.args(["--strict", "--kubernetes-version", release]).args(paths).output().unwrap()
}

/// A document's pod, or the pod template in it.
pub fn pod(document: &Value) -> Option<&Value> {
    match document["kind"].as_str()? {
        "Pod" => Some(&document["spec"]),
        "StatefulSet" | "DaemonSet" | "Deployment" | "Job" => {
            Some(&document["spec"]["template"]["spec"])
        }
        _ => None,
    }
}

/// All pods, with the name of the file.
fn pods() -> Vec<(&'static str, Value)> {
    let names = MANIFESTS.iter().map(|(name, _)| *name);
    let all = names.flat_map(|name| documents(name).into_iter().map(move |one| (name, one)));
    all.filter_map(|(name, document)| Some((name, pod(&document)?.clone()))).collect()
}

/// A pod's containers.
pub fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers"].into_iter().flat_map(|of| pod[of].as_array()).flatten()
}

/// The container of a pod that runs leafd.
fn leafd(pod: &Value) -> &Value {
    containers(pod).find(|one| one["name"] == "leafd").expect("a container called leafd")
}

#[test]
fn they_are_what_the_schemas_allow() {
    let listed = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let listed = listed.filter(|path| path.extension() == Some("yaml".as_ref()));
    let other = |path: &PathBuf| OTHERS.iter().any(|other| path.ends_with(other));
    let listed: Vec<_> = listed.filter(|path| !other(path)).collect();
    assert_eq!(listed.len(), MANIFESTS.len(), "each has a line above: {listed:?}");
    for release in [OLDEST, WITH_SIDECARS, NEWEST] {
        let for_it = MANIFESTS.iter().filter(|(_, oldest)| release == NEWEST || *oldest == release);
        let paths: Vec<_> = for_it.map(|(name, _)| folder().join(name)).collect();
        let output = validate(release, &paths);
        assert!(output.status.success(), "{release}: {output:?}");
    }
    let (_, with_masks) = configuration_with_masks();
    let output = validate(NEWEST, &[with_masks.path().to_owned()]);
    assert!(output.status.success(), "{output:?}");
    // The validator itself detects faults.
    let old = validate(OLDEST, &[folder().join("sidecar.yaml")]);
    assert!(!old.status.success(), "{old:?}");
    let misspelt = std::fs::read_to_string(folder().join("container.yaml")).unwrap();
    let misspelt = misspelt.replace("preStop", "prestop");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), misspelt).unwrap();
    let output = validate(NEWEST, &[file.path().to_owned()]);
    assert!(!output.status.success(), "{output:?}");
}

#[test]
fn every_container_may_do_as_little_as_possible() {
    for (name, pod) in pods() {
        let of_pod = &pod["securityContext"];
        assert_eq!(of_pod["seccompProfile"]["type"], "RuntimeDefault", "{name}");
        assert_eq!(pod["automountServiceAccountToken"], false, "{name}");
        for container in containers(&pod) {
            let may = &container["securityContext"];
            assert_eq!(may["readOnlyRootFilesystem"], true, "{name}");
            assert_eq!(may["allowPrivilegeEscalation"], false, "{name}");
            assert_eq!(may["capabilities"], json!({"drop": ["ALL"]}), "{name}");
            // Root is needed only where a node's own folders are used.
            let root = may["runAsUser"] == 0;
            assert_eq!(root, name == "daemonset.yaml", "{name}");
            assert!(root || of_pod["runAsNonRoot"] == true, "{name}");
        }
        let password =
            pod["volumes"].as_array().unwrap().iter().find(|one| one["name"] == "password");
        assert_eq!(password.unwrap()["secret"]["defaultMode"], 0o440, "{name}");
    }
}

#[test]
fn all_forms_run_the_same_daemon() {
    let release = format!("registry.example.com/leafd:{}", env!("CARGO_PKG_VERSION"));
    let pods = pods();
    assert_eq!(pods.len(), 4);
    let (_, first) = &pods[0];
    for (name, pod) in &pods {
        let container = leafd(pod);
        assert_eq!(container["image"], *release, "{name}");
        for member in ["args", "livenessProbe", "resources"] {
            assert_eq!(container[member], leafd(first)[member], "{name}: {member}");
        }
        let identity = container["env"].as_array().unwrap().iter();
        let identity = identity.filter(|one| one["name"] == "LEAFD_IDENTITY").count();
        assert_eq!(identity, 1, "{name} tells its daemon from others");
    }
}

#[test]
fn a_hook_ends_within_the_time_that_the_pod_has() {
    for (name, pod) in pods() {
        let command = &leafd(&pod)["lifecycle"]["preStop"]["exec"]["command"];
        assert_eq!(command.is_array(), name == "container.yaml", "{name}");
        let within_ms = command[4].as_str().map_or(0, |text| text.parse::<u64>().unwrap());
        let grace_ms = pod["terminationGracePeriodSeconds"].as_u64().unwrap() * 1_000;
        // `stop_within`, and some time for a busy node.
        assert!(grace_ms >= within_ms + 5_000 + 5_000, "{name}");
    }
}

#[test]
fn the_example_pod_is_the_sidecar_with_an_application_that_draws() {
    let file = folder().join("../examples/sidecar/pod.yaml");
    let output = validate(NEWEST, std::slice::from_ref(&file));
    assert!(output.status.success(), "{output:?}");
    let (example, template) = (documents_of(&file), documents("sidecar.yaml"));
    let (example, template) = (pod(&example[0]).unwrap(), pod(&template[0]).unwrap());
    assert_eq!(example["initContainers"], template["initContainers"]);
    assert_eq!(example["volumes"], template["volumes"]);
    let application = containers(example).find(|one| one["name"] == "application").unwrap();
    assert_eq!(application["command"][0], "leafctl");
}

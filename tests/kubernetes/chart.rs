//! The Helm chart and the Kustomize base: rendered by Helm's and Kustomize's own engines, checked against Kubernetes'
//! schemas, and held to the restricted Pod Security Standard.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::manifests::{
    NEWEST, OLDEST, WITH_SIDECARS, containers, documents, folder, pod, python, run, validate,
};

/// Renders a chart with values, and prints its documents as JSON, or Helm's error.
const RENDER: &str = "
import json, sys, yaml
from helm_python.chart import Chart, lint
from helm_python.errors import HelmError
chart, values = Chart.load(sys.argv[1]), json.loads(sys.argv[2])
try:
    chart.validate_schema(values)
    files = chart.render(values, name='leafd', namespace='ids')
except HelmError as error:
    print(json.dumps({'error': str(error)}))
    sys.exit()
manifests = [text for name, text in files.items() if name.endswith('.yaml')]
documents = [one for text in manifests for one in yaml.safe_load_all(text) if one]
notes = ''.join(text for name, text in files.items() if name.endswith('leafd/templates/NOTES.txt'))
print(json.dumps({'documents': documents, 'notes': notes, 'lint': lint(sys.argv[1])}))
";

/// The faults of a PodMonitor according to the Prometheus Operator's schema, one per line. Kubernetes ignores members
/// that a schema doesn't have, but here they are faults.
const CHECK_MONITOR: &str = "
import json, sys, yaml
from jsonschema import Draft202012Validator
known, monitor = yaml.safe_load(open(sys.argv[1])), json.loads(sys.argv[2])
def close(schema):
    if 'properties' in schema:
        schema['additionalProperties'] = False
        for inner in schema['properties'].values(): close(inner)
    if 'items' in schema: close(schema['items'])
close(known['spec'])
for name in ['apiVersion', 'kind']:
    if monitor[name] != known[name]: print(name, monitor[name])
for fault in Draft202012Validator(known['spec']).iter_errors(monitor['spec']):
    print(fault.json_path, fault.message)
";

fn faults_of_monitor(monitor: &Value) -> String {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubernetes/podmonitor.yaml");
    let mut command = python("python");
    let output = run(command.args(["-c", CHECK_MONITOR]).arg(schema).arg(monitor.to_string()));
    String::from_utf8(output.stdout).unwrap()
}

fn rendered(chart: &Path, values: &Value) -> Value {
    let mut command = python("python");
    let output = run(command.args(["-c", RENDER]).arg(chart).arg(values.to_string()));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn chart_with(values: &Value) -> Vec<Value> {
    let rendered = rendered(&folder(), values);
    assert_eq!(rendered["error"], json!(null), "{values}");
    rendered["documents"].as_array().unwrap().clone()
}

fn of_kind<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    documents
        .iter()
        .find(|one| one["kind"] == kind)
        .unwrap_or_else(|| panic!("no {kind}: {documents:?}"))
}

/// Validates the documents of Kubernetes' own kinds against the schemas of these releases.
#[track_caller]
fn valid(documents: &[Value], releases: &[&str]) {
    let folder = TempDir::new().unwrap();
    let own = documents.iter().filter(|one| one["apiVersion"] != "monitoring.coreos.com/v1");
    let paths: Vec<_> = own
        .enumerate()
        .map(|(place, document)| {
            let path = folder.path().join(format!("{place}.yaml"));
            // JSON is YAML.
            fs::write(&path, document.to_string()).unwrap();
            path
        })
        .collect();
    for release in releases {
        let output = validate(release, &paths);
        assert!(output.status.success(), "{release}: {output:?}");
    }
}

/// What a pod does that the restricted Pod Security Standard forbids.
fn not_restricted(pod: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |is_one: bool, what: &str| {
        if is_one && !faults.iter().any(|known| known == what) {
            faults.push(what.to_owned());
        }
    };
    for member in ["hostNetwork", "hostPID", "hostIPC"] {
        fault(pod[member] == true, member);
    }
    let volumes = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        let kinds = volume.as_object().unwrap().keys().filter(|key| *key != "name");
        kinds.for_each(|kind| fault(!volumes.contains(&&**kind), &format!("{kind} volumes")));
    }
    let of_pod = &pod["securityContext"];
    for member in ["sysctls", "windowsOptions", "seLinuxOptions", "appArmorProfile"] {
        fault(!of_pod[member].is_null(), member);
    }
    for container in containers(pod) {
        let may = &container["securityContext"];
        let either =
            |member: &str| if may[member].is_null() { &of_pod[member] } else { &may[member] };
        fault(may["privileged"] == true, "privileged");
        fault(may["allowPrivilegeEscalation"] != false, "privilege escalation");
        fault(!may["procMount"].is_null(), "procMount");
        fault(may["capabilities"] != json!({"drop": ["ALL"]}), "capabilities");
        fault(either("runAsNonRoot") != true, "root");
        fault(either("runAsUser") == 0, "root");
        let seccomp = &either("seccompProfile")["type"];
        fault(
            !["RuntimeDefault", "Localhost"].contains(&seccomp.as_str().unwrap_or_default()),
            "seccomp",
        );
        let ports = container["ports"].as_array();
        fault(ports.into_iter().flatten().any(|port| !port["hostPort"].is_null()), "host ports");
        fault(!container["lifecycle"]["postStart"]["httpGet"]["host"].is_null(), "hosts of probes");
    }
    faults
}

/// An application's chart that includes the sidecar from leafd's chart.
fn application() -> TempDir {
    let chart = TempDir::new().unwrap();
    let below = chart.path().join("charts/leafd");
    fs::create_dir_all(chart.path().join("templates")).unwrap();
    fs::create_dir_all(below.join("templates")).unwrap();
    for from in [folder(), folder().join("templates")] {
        for file in fs::read_dir(&from).unwrap().map(|entry| entry.unwrap().path()) {
            let place = file.strip_prefix(folder()).unwrap();
            if file.is_file() {
                fs::copy(&file, below.join(place)).unwrap();
            }
        }
    }
    let of_chart = concat!(
        "apiVersion: v2\nname: application\nversion: 1.0.0\ndependencies:\n  - {name: leafd, version: ",
        env!("CARGO_PKG_VERSION"),
        "}\n"
    );
    fs::write(chart.path().join("Chart.yaml"), of_chart).unwrap();
    fs::write(chart.path().join("values.yaml"), "leafd: {daemonset: {enabled: false}}\n").unwrap();
    let guide = fs::read_to_string(folder().join("../docs/guide/kubernetes.md")).unwrap();
    let (_, rest) = guide.split_once("```yaml\n# templates/deployment.yaml").unwrap();
    fs::write(chart.path().join("templates/deployment.yaml"), rest.split_once("```").unwrap().0)
        .unwrap();
    chart
}

/// The values that the guide's `helm install` command sets, as Helm reads them.
#[test]
fn the_guide_s_installation_gives_what_kubernetes_takes() {
    let guide = fs::read_to_string(folder().join("../docs/guide/kubernetes.md")).unwrap();
    let (_, command) = guide.split_once("helm install leafd ./kubernetes ").unwrap();
    let command = command.split_once("```").unwrap().0.replace("\\\n", " ").replace('\'', "");
    let mut words = command.split_whitespace();
    let mut values = json!({});
    while let Some(option) = words.next() {
        let word = words.next().expect("an option has a value");
        let (place, value) = match option {
            "--namespace" => {
                assert_eq!(word, "ids");
                continue;
            }
            "--set" => word.split_once('=').map(|(place, value)| (place, value.to_owned())),
            "--set-file" => word.split_once('=').map(|(place, file)| {
                let authority = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
                assert_eq!(file, "ca.pem");
                (place, authority.to_owned())
            }),
            other => panic!("the test doesn't know {other}"),
        }
        .expect("KEY=VALUE");
        let place = place.split('.').fold(&mut values, |at, key| &mut at[key]);
        *place = json!(value);
    }
    let documents = chart_with(&values);
    valid(&documents, &[OLDEST, NEWEST]);
    let leafd = &pod(of_kind(&documents, "DaemonSet")).unwrap()["containers"][0];
    assert!(leafd["image"].as_str().unwrap().starts_with("registry.example.com/leafd:"), "{leafd}");
    let toml = of_kind(&documents, "ConfigMap")["data"]["leafd.toml"].as_str().unwrap();
    assert!(toml.contains("postgres://leafd@db1/ids?sslrootcert=/etc/leafd/ca.pem"), "{toml}");
}

#[test]
fn the_chart_gives_what_kubernetes_takes_with_any_values() {
    let plain = chart_with(&json!({}));
    let names: Vec<&str> = plain.iter().filter_map(|one| one["kind"].as_str()).collect();
    assert_eq!(names, ["ConfigMap", "DaemonSet", "NetworkPolicy"]);
    valid(&plain, &[OLDEST, NEWEST]);
    let all = json!({
        "image": {"repository": "r.example/leafd", "tag": "7", "pullPolicy": "Always", "pullSecrets": ["pull"]},
        "store": {"url": "mysql://leafd@db/ids", "passwordSecret": {"name": "mine", "key": "word"}},
        "publicIds": {"secretKey": "masks"},
        "tls": {"ca": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
        "settings": "autonomy = \"20m\"\nmax_step = 1000\n",
        "resources": {"requests": {"cpu": "1"}},
        "priorityClassName": "system-node-critical",
        "nodeSelector": {"ids": "true"},
        "tolerations": [],
        "podAnnotations": {"note": "a"},
        "podLabels": {"team": "b"},
        "metrics": {"enabled": true, "port": 9999, "podMonitor": {"enabled": true, "interval": "10s", "labels": {"release": "p"}}},
        "networkPolicy": {"storePorts": [3306], "storeTo": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
    });
    let full = chart_with(&all);
    valid(&full, &[OLDEST, NEWEST]);
    let daemonset = of_kind(&full, "DaemonSet");
    let (template, pod) = (&daemonset["spec"]["template"], pod(daemonset).unwrap());
    let leafd = &pod["containers"][0];
    assert_eq!(leafd["image"], "r.example/leafd:7");
    assert_eq!(
        leafd["args"],
        json!(["--config", "/etc/leafd/leafd.toml", "--set", "http=0.0.0.0:9999"])
    );
    // Values that are not given stay at their defaults.
    let resources =
        json!({"requests": {"cpu": "1", "memory": "32Mi"}, "limits": {"memory": "160Mi"}});
    assert_eq!(leafd["resources"], resources);
    assert_eq!(pod["priorityClassName"], "system-node-critical");
    assert_eq!(template["metadata"]["annotations"]["prometheus.io/port"], "9999");
    assert_eq!(template["metadata"]["labels"]["team"], "b");
    let password =
        pod["volumes"].as_array().unwrap().iter().find(|one| one["name"] == "password").unwrap();
    assert_eq!(password["secret"]["secretName"], "mine");
    let items = json!([
        {"key": "word", "path": "store_password"},
        {"key": "masks", "path": "mask_keys"},
    ]);
    assert_eq!(password["secret"]["items"], items);
    let toml = of_kind(&full, "ConfigMap")["data"]["leafd.toml"].as_str().unwrap();
    for line in [
        "store = \"mysql://leafd@db/ids\"",
        "mask_key_file = \"/run/secrets/leafd/mask_keys\"",
        "max_step = 1000",
    ] {
        assert!(toml.lines().any(|one| one == line), "{toml}");
    }
    let ca = of_kind(&full, "ConfigMap")["data"]["ca.pem"].as_str().unwrap();
    assert_eq!(
        ca.lines().collect::<Vec<_>>(),
        ["-----BEGIN CERTIFICATE-----", "AAAA", "-----END CERTIFICATE-----"]
    );
    let monitor = of_kind(&full, "PodMonitor");
    assert_eq!(faults_of_monitor(monitor), "", "{monitor}");
    for (place, wrong) in [
        ("/spec/podMetricsEndpoints/0/interval", json!("ten seconds")),
        ("/spec/podMetricsEndpoints/0/port", json!(9999)),
        ("/spec/selector/matchLabels", json!(["leafd"])),
        ("/spec/jobLabel", json!({})),
        ("/spec/selector", json!({"matchLabel": {}})),
    ] {
        let mut other = monitor.clone();
        *other.pointer_mut(place).unwrap() = wrong;
        assert_ne!(faults_of_monitor(&other), "", "{place} may be anything");
    }
    assert_eq!(monitor["metadata"]["labels"]["release"], "p");
    assert_eq!(monitor["spec"]["podMetricsEndpoints"][0]["port"], leafd["ports"][0]["name"]);
    for selector in [
        &monitor["spec"]["selector"],
        &of_kind(&full, "NetworkPolicy")["spec"]["podSelector"],
        &daemonset["spec"]["selector"],
    ] {
        for (label, value) in selector["matchLabels"].as_object().unwrap() {
            assert_eq!(&template["metadata"]["labels"][label], value, "{label}");
        }
    }
    // Only the scraper may connect.
    let policy = &of_kind(&full, "NetworkPolicy")["spec"];
    assert_eq!(policy["ingress"][0]["ports"], json!([{"port": 9999}]));
    assert_eq!(of_kind(&plain, "NetworkPolicy")["spec"]["ingress"], json!([]));
}

#[test]
fn the_chart_s_daemonset_is_the_manifest_s() {
    let manifest = documents("daemonset.yaml").remove(0);
    let chart = chart_with(&json!({}));
    let (of_manifest, of_chart) =
        (pod(&manifest).unwrap(), pod(of_kind(&chart, "DaemonSet")).unwrap());
    let mut same = of_chart.clone();
    let volumes = same["volumes"].as_array_mut().unwrap().iter_mut();
    for volume in volumes.filter(|one| one["name"] == "password") {
        volume["secret"].as_object_mut().unwrap().remove("items");
    }
    assert_eq!(&same, of_manifest);
    assert_eq!(
        of_kind(&chart, "DaemonSet")["spec"]["updateStrategy"],
        manifest["spec"]["updateStrategy"]
    );
    let version = rendered(&folder(), &json!({}));
    let messages = version["lint"]["messages"].as_array().unwrap();
    assert!(messages.iter().all(|one| one["severity"].as_u64() < Some(2)), "{messages:?}");
    assert!(
        version["notes"].as_str().unwrap().contains("WARNING: store.url names /etc/leafd/ca.pem")
    );
    let of_chart = fs::read_to_string(folder().join("Chart.yaml")).unwrap();
    assert!(
        of_chart.contains(concat!("\nappVersion: ", env!("CARGO_PKG_VERSION"), "\n")),
        "{of_chart}"
    );
}

#[test]
fn jobs_create_tables_and_tags() {
    let all = chart_with(&json!({
        "schema": {"enabled": true, "url": "postgres://owner@db/ids", "passwordSecret": {"name": "o", "key": "k"}},
        "tags": [["orders"], ["ledger", "--strict"]],
    }));
    valid(&all, &[WITH_SIDECARS, NEWEST]);
    let jobs: Vec<&Value> = all.iter().filter(|one| one["kind"] == "Job").collect();
    let [schema, tags] = jobs[..] else { panic!("{jobs:?}") };
    for job in [schema, tags] {
        assert_eq!(not_restricted(pod(job).unwrap()), Vec::<String>::new(), "{job}");
        assert!(job["metadata"]["annotations"]["helm.sh/hook"].is_string(), "{job}");
    }
    let apply = &pod(schema).unwrap()["containers"][0];
    let words = apply["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let mut command = Command::new(leafd_tests::host::leafd_binary());
    let output = command.args(words).env_clear().output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // Only the Secret is missing.
    assert!(said.contains("/run/secrets/owner/store_password can't be used"), "{said}");
    let pod_of_tags = pod(tags).unwrap();
    let inits = pod_of_tags["initContainers"].as_array().unwrap();
    let commands: Vec<&Value> = inits.iter().skip(1).map(|one| &one["args"]).collect();
    assert_eq!(inits[0]["restartPolicy"], "Always");
    assert_eq!(
        commands,
        [
            &json!(["tag", "create", "orders", "--if-not-exists"]),
            &json!(["tag", "create", "ledger", "--strict", "--if-not-exists"]),
        ]
    );
    // The daemon beside them treats their user as an administrator.
    let uid = &inits[1]["securityContext"]["runAsUser"];
    assert!(inits[0]["args"].as_array().unwrap().contains(&json!(format!("admin_uids=[{uid}]"))));
}

#[test]
fn the_chart_brings_alerts_and_a_dashboard() {
    let affinity = json!({"nodeAffinity": {}});
    let all = chart_with(&json!({
        "affinity": affinity,
        "metrics": {
            "enabled": true,
            "rules": {"enabled": true, "labels": {"release": "p"}},
            "dashboard": {"enabled": true},
            "podMonitor": {"sidecars": {"enabled": true}},
        },
    }));
    valid(&all, &[OLDEST, NEWEST]);
    assert_eq!(pod(of_kind(&all, "DaemonSet")).unwrap()["affinity"], affinity);
    let rules = of_kind(&all, "PrometheusRule");
    assert_eq!(rules["metadata"]["labels"]["release"], "p");
    let shipped = documents("../monitoring/alerts.yml").remove(0);
    assert_eq!(rules["spec"], shipped);
    let labelled = |one: &&Value| one["metadata"]["labels"]["grafana_dashboard"] == "1";
    let map = all.iter().find(labelled).expect("a ConfigMap for Grafana");
    let dashboard: Value =
        serde_json::from_str(map["data"]["leafd.json"].as_str().unwrap()).unwrap();
    let shipped = fs::read_to_string(folder().join("../monitoring/dashboard.json")).unwrap();
    assert_eq!(dashboard, serde_json::from_str::<Value>(&shipped).unwrap());
    let monitor = of_kind(&all, "PodMonitor");
    assert_eq!(faults_of_monitor(monitor), "", "{monitor}");
}

#[test]
fn values_that_can_t_be_meant_are_refused() {
    for (values, word) in [
        (json!({"imagee": {}}), "imagee"),
        (json!({"store": {"url": "postgres://leafd:secret@db/ids"}}), "url"),
        (json!({"metrics": {"port": "9644"}}), "port"),
        (json!({"tls": {"ca": "a file"}}), "ca"),
        (json!({"metrics": {"podMonitor": {"enabled": true}}}), "needs metrics.enabled"),
        (
            json!({"metrics": {"podMonitor": {"sidecars": {"enabled": true}}}}),
            "needs metrics.enabled",
        ),
        (json!({"schema": {"url": "postgres://owner:secret@db/ids"}}), "url"),
        (json!({"tags": ["orders"]}), "tags"),
    ] {
        let refused = rendered(&folder(), &values);
        let error = refused["error"].as_str().unwrap_or_else(|| panic!("{values} is taken"));
        assert!(error.contains(word), "{values}: {error}");
    }
}

#[test]
fn a_chart_takes_the_sidecar_from_this_one() {
    let chart = application();
    let rendered = rendered(chart.path(), &json!({}));
    assert_eq!(rendered["error"], json!(null));
    let all = rendered["documents"].as_array().unwrap();
    valid(all, &[WITH_SIDECARS, NEWEST]);
    assert!(all.iter().all(|one| one["kind"] != "DaemonSet"), "{all:?}");
    let pod = pod(of_kind(all, "Deployment")).unwrap();
    let sidecar = &documents("sidecar.yaml")[0]["spec"];
    assert_eq!(pod["initContainers"], sidecar["initContainers"]);
    assert_eq!(pod["securityContext"], sidecar["securityContext"]);
    assert_eq!(not_restricted(pod), Vec::<String>::new());
}

#[test]
fn kustomize_gives_the_manifests() {
    let kustomize = |folder: &Path| {
        let output = run(Command::new("kubectl").arg("kustomize").arg(folder));
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), output.stdout).unwrap();
        documents(file.path().to_str().unwrap())
    };
    let base = kustomize(&folder());
    valid(&base, &[OLDEST, NEWEST]);
    let plain: Vec<Value> =
        ["configuration.yaml", "daemonset.yaml"].into_iter().flat_map(documents).collect();
    assert_eq!(base.len(), plain.len());
    for document in &plain {
        assert_eq!(of_kind(&base, document["kind"].as_str().unwrap()), document);
    }

    // An overlay that adds the sidecar to an application.
    let overlay = TempDir::new().unwrap();
    fs::copy(folder().join("sidecar-patch.yaml"), overlay.path().join("sidecar-patch.yaml"))
        .unwrap();
    let sidecar = &documents("sidecar.yaml")[0]["spec"];
    let mut application = sidecar["containers"].clone();
    application[0]["image"] = json!("registry.example.com/shop:1");
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "application"},
        "spec": {
            "selector": {"matchLabels": {"app": "shop"}},
            "template": {"metadata": {"labels": {"app": "shop"}}, "spec": {"containers": application}},
        },
    });
    fs::write(overlay.path().join("deployment.yaml"), deployment.to_string()).unwrap();
    let kustomization = "resources: [deployment.yaml]\npatches: [{path: sidecar-patch.yaml}]\n";
    fs::write(overlay.path().join("kustomization.yaml"), kustomization).unwrap();
    let patched = kustomize(overlay.path());
    valid(&patched, &[WITH_SIDECARS, NEWEST]);
    let pod = pod(&patched[0]).unwrap();
    for member in [
        "initContainers",
        "volumes",
        "securityContext",
        "automountServiceAccountToken",
        "terminationGracePeriodSeconds",
    ] {
        assert_eq!(pod[member], sidecar[member], "{member}");
    }
    assert_eq!(pod["containers"], application);
    assert_eq!(not_restricted(pod), Vec::<String>::new());
}

#[test]
fn pods_meet_the_restricted_standard_but_for_what_is_said() {
    for name in ["container.yaml", "sidecar.yaml", "statefulset.yaml"] {
        let all = documents(name);
        for pod in all.iter().filter_map(pod) {
            assert_eq!(not_restricted(pod), Vec::<String>::new(), "{name}");
        }
    }
    let full = json!({"metrics": {"enabled": true}});
    for daemonset in
        [documents("daemonset.yaml").remove(0), of_kind(&chart_with(&full), "DaemonSet").clone()]
    {
        assert_eq!(not_restricted(pod(&daemonset).unwrap()), ["hostPath volumes", "root"]);
    }
    let text = fs::read_to_string(folder().join("daemonset.yaml")).unwrap();
    let said = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("# "))
        .collect::<Vec<_>>()
        .join(" ");
    assert!(said.contains(
        "The restricted Pod Security Standard allows neither root nor directories of the node"
    ));

    // The check itself detects violations.
    let mut odd = documents("sidecar.yaml")[0]["spec"].clone();
    odd["hostNetwork"] = json!(true);
    odd["containers"][0]["securityContext"]["privileged"] = json!(true);
    odd["containers"][0]["securityContext"]["capabilities"]["add"] = json!(["NET_ADMIN"]);
    odd["securityContext"]["seccompProfile"] = json!({"type": "Unconfined"});
    assert_eq!(not_restricted(&odd), ["hostNetwork", "seccomp", "privileged", "capabilities"]);
}

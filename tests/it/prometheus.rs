//! The shipped files for Prometheus and Grafana, with a real Prometheus that scrapes a real daemon: every query of the
//! dashboard finds series, and every alert can fire.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leafd_client::Client;
use serde_json::Value;

use crate::host::{Host, die_with_parent, eventually};
use leafd_tests::http::get;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

#[track_caller]
fn promtool(arguments: &[&str]) -> String {
    let output = Command::new("promtool").args(arguments).output().expect("Debian's prometheus");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn every_alert_is_tested_and_described() {
    let rules = shipped("monitoring/alerts.yml");
    let tests = shipped("tests/monitoring/alerts_test.yml");
    promtool(&["check", "rules", rules.to_str().unwrap()]);
    promtool(&["test", "rules", tests.to_str().unwrap()]);
    let (rules, tests) = (fs::read_to_string(rules).unwrap(), fs::read_to_string(tests).unwrap());
    let document = fs::read_to_string(shipped("docs/operate/metrics.md")).unwrap();
    let alerts: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() >= 12, "{alerts:?}");
    for alert in alerts {
        // At least one case in which it fires, and one in which it doesn't.
        let tried = tests.matches(&format!("alertname: {alert}\n")).count();
        assert!(tried >= 2, "{alert} is tried {tried} times");
        assert!(document.contains(&format!("`{alert}`")), "docs/operate/metrics.md lacks {alert}");
    }
}

/// Every metric that the rules, the dashboard or the document name is one that the daemon can report.
#[test]
fn what_is_named_is_told() {
    let table = fs::read_to_string(shipped("daemon/src/metrics/table.rs")).unwrap()
        + &fs::read_to_string(shipped("daemon/src/metrics/text.rs")).unwrap();
    for name in ["monitoring/alerts.yml", "monitoring/dashboard.json", "docs/operate/metrics.md"] {
        let text = fs::read_to_string(shipped(name)).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let metrics: Vec<&str> = words.filter(|word| word.starts_with("leafd_")).collect();
        assert!(metrics.len() >= 10, "{name} names only {metrics:?}");
        for metric in metrics {
            let of_histogram =
                ["_bucket", "_count", "_sum"].iter().find_map(|part| metric.strip_suffix(part));
            let is_told = |name: &str| table.contains(&format!("\"{name}\""));
            assert!(
                is_told(metric) || of_histogram.is_some_and(is_told),
                "{name}: nothing tells {metric}"
            );
        }
    }
}

/// A Prometheus for one test.
struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    fn start(folder: &Path, target: &str) -> Prometheus {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let address = free.to_string();
        let config = folder.join("prometheus.yml");
        let rules = shipped("monitoring/alerts.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{rules:?}]\n\
             scrape_configs: [{{job_name: leafd, static_configs: [{{targets: [{target:?}]}}]}}]\n"
        );
        fs::write(&config, text).unwrap();
        let log = fs::File::create(folder.join("prometheus.log")).unwrap();
        let child = die_with_parent(
            Command::new("prometheus")
                .arg(format!("--config.file={}", config.display()))
                .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
                .arg(format!("--web.listen-address={address}"))
                .stdout(Stdio::null())
                .stderr(log),
        )
        .spawn()
        .expect("Debian's prometheus");
        Prometheus { child, address }
    }

    /// The result of a query.
    fn query(&self, query: &str) -> Result<Vec<Value>, String> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = get(&self.address, &format!("/api/v1/query?query={encoded}"));
        // The answer may come in chunks, whose sizes surround the JSON.
        let body = &answer.body;
        let json = body.find('{').zip(body.rfind('}')).map(|(from, to)| &body[from..=to]);
        let parsed: Value =
            serde_json::from_str(json.ok_or(body)?).map_err(|e| format!("{e}: {body}"))?;
        if parsed["status"] != "success" {
            return Err(format!("{query}: {parsed}"));
        }
        Ok(parsed["data"]["result"].as_array().cloned().unwrap_or_default())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Draws a few ids of every kind. Call this repeatedly.
fn draw(client: &Client) {
    client.next("orders").unwrap();
    client.next("snowflake").unwrap();
    let _ = client.next("nosuch").unwrap_err();
}

#[test]
fn every_query_of_the_dashboard_finds_something() {
    let mut host = Host::new().set("http", "127.0.0.1:0");
    host.start();
    host.create("orders");
    let client = host.client();
    draw(&client);
    let folder = tempfile::tempdir().unwrap();
    let prometheus = Prometheus::start(folder.path(), &host.http("serving metrics and health"));
    let up = || {
        std::net::TcpStream::connect(&prometheus.address).ok()?;
        prometheus.query("leafd_build_info").ok().filter(|found| !found.is_empty())
    };
    eventually("Prometheus has scraped the daemon", Duration::from_secs(60), up);

    let dashboard = fs::read_to_string(shipped("monitoring/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut queries = 0;
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
    {
        let query = target["expr"].as_str().unwrap();
        let query = query.replace("$__rate_interval", "1m").replace("$instance", ".*");
        let query = query.replace("$tag", ".*");
        eventually(&query, Duration::from_secs(60), || {
            draw(&client);
            let found = prometheus.query(&query).unwrap();
            let is_number = |one: &Value| {
                let number = one["value"][1].as_str().and_then(|text| text.parse::<f64>().ok());
                number.is_some_and(f64::is_finite)
            };
            found.iter().any(is_number).then_some(())
        });
        queries += 1;
    }
    assert!(queries >= 20, "{queries}");
    // This host has no problem, and no rule fails.
    let firing =
        prometheus.query("ALERTS{alertstate=\"firing\", alertname!=\"LeafdRequestsRefused\"}");
    assert_eq!(firing.unwrap(), Vec::<Value>::new());
    let failing = prometheus.query("prometheus_rule_evaluation_failures_total > 0");
    assert_eq!(failing.unwrap(), Vec::<Value>::new());
}

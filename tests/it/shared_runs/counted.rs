//! What administrators are told of shared runs: in the status, in the metrics, by `leafctl`.

use std::time::Duration;

use leafd_client::{MetricsFormat, opcode};
use serde_json::{Value, json};

use super::pages::{ask, reply, share};
use super::sharing;
use crate::host::{Host, eventually};

/// A metric of shared runs, all its series together.
fn metric(host: &Host, name: &str) -> u64 {
    let text = host.client().metrics_text(MetricsFormat::Prometheus).unwrap();
    let name = format!("leafd_shared_run{name}");
    let named = |line: &&str| line.split(['{', ' ']).next() == Some(name.as_str());
    let value = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64;
    text.lines().filter(named).map(value).sum()
}

fn shared(host: &Host) -> Value {
    host.status()["shared_runs"].clone()
}

#[test]
fn what_is_shared_is_counted_in_status_and_metrics() {
    let mut host = sharing();
    host.start();
    for tag in ["orders", "shared.other"] {
        host.create(tag);
    }
    let none = json!({"revoked": 0, "tampered": 0, "unused": 0});
    assert_eq!(
        shared(&host),
        json!({"live": 0, "begun": 0, "ended": none, "requests": 0, "published": 0, "drawn": 0})
    );
    let status = String::from_utf8(host.leafctl(&["status"]).stdout).unwrap();
    assert!(!status.contains("shared runs"), "nothing to tell: {status}");

    let mut raw = host.raw();
    let (orders, other) = (share(&mut raw, "orders"), share(&mut raw, "shared.other"));
    assert!((0..5).all(|_| orders.draw().is_some()));
    assert!((0..2).all(|_| other.draw().is_some()));
    let status = host.status();
    let told = &status["shared_runs"];
    let published = told["published"].as_u64().unwrap();
    assert!(published >= 64, "32 of each at first: {told}");
    assert_eq!(
        *told,
        json!({"live": 2, "begun": 2, "ended": none, "requests": 2, "published": published, "drawn": 7})
    );
    let user = &status["users"][0];
    assert_eq!((&user["uid"], user["issued"].as_u64()), (&json!(0), Some(published)));
    // The daemon may publish more of what is drawn at any time.
    eventually("leafctl says it", Duration::from_secs(20), || {
        let published = shared(&host)["published"].as_u64().unwrap();
        let line = format!("2 now, 0 ended; {published} ids published, 7 drawn, 2 requests");
        let said = String::from_utf8(host.leafctl(&["status"]).stdout).unwrap();
        said.contains(&line).then_some(())
    });

    // One is revoked, and somebody writes into the other one's memory.
    let shown = host.admin(opcode::TAG_SHOW, &json!({ "tag": "orders" }));
    let body = json!({ "tag": "orders", "generation": shown["generation"] });
    host.admin(opcode::TAG_DELETE, &body);
    other.tickets.overwrite(u64::MAX);
    ask(&mut raw, "shared.other", other.number, 1_000);
    reply(&mut raw);
    let told = shared(&host);
    assert_eq!(told["ended"], json!({"revoked": 1, "tampered": 1, "unused": 0}));
    assert_eq!((&told["live"], &told["requests"]), (&json!(0), &json!(3)));
    // Of the tampered one's ids all seem to be drawn.
    let (drawn, published) = (told["drawn"].as_u64(), told["published"].as_u64());
    assert!((Some(7)..=published).contains(&drawn), "{told}");
    for (name, value) in [
        ("s", &told["live"]),
        ("s_begun_total", &told["begun"]),
        ("s_ended_total", &json!(2)),
        ("_requests_total", &told["requests"]),
        ("_ids_published_total", &told["published"]),
        ("_ids_drawn_total", &told["drawn"]),
    ] {
        assert_eq!(json!(metric(&host, name)), *value, "{name}");
    }
}

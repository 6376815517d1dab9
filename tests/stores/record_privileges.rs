//! The daemon's user loses its privileges on `leafd_claim` while it claims: nothing is claimed that can't be recorded,
//! held ids are still issued, and status, doctor and errors say what to grant. If claims are not recorded, no right to
//! record them is needed.

use std::collections::HashSet;
use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::servers::Server;
use leafd_wire::opcode;
use serde_json::json;

use crate::scene::create;

on_each_server!(claims_wait_for_the_right_to_record_them);

/// How long a daemon may take for background work, on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

/// The exit status of `leafctl ping` if something that must be ready is not.
const EXIT_NOT_READY: i32 = 4;

/// The privileges on each table, as the documents list them.
const PRIVILEGES: [(&str, &str); 9] = [
    ("leaf_alloc", "SELECT, INSERT, UPDATE, DELETE"),
    ("leafd_meta", "SELECT, INSERT, UPDATE"),
    ("leafd_tag", "SELECT, INSERT, UPDATE"),
    ("leafd_host", "SELECT, INSERT, UPDATE"),
    ("leafd_worker", "SELECT, INSERT, UPDATE"),
    ("leafd_layout", "SELECT, INSERT, UPDATE"),
    ("leafd_claim", "SELECT, INSERT, DELETE"),
    ("leafd_worker_taken", "SELECT, INSERT"),
    ("leaf_workerid_alloc", "SELECT"),
];

/// Runs a statement about privileges, and ends the sessions, because MariaDB and MySQL check privileges when a session
/// begins.
fn change<S: Server>(server: &S, statement: &str) {
    let user = if S::SCHEME == "mysql" { "leafd@'%'" } else { "leafd" };
    server.sql(&format!("{statement} {user}"));
    S::end_sessions(&mut server.connection().unwrap());
}

/// Draws all held ids. Returns why there are no more.
fn draw_dry(host: &Host, drawn: &mut Vec<u64>) -> String {
    let client = host.client();
    eventually("what is held ends", WITHIN, || match client.next_direct("orders") {
        Ok(id) => {
            drawn.push(id);
            None
        }
        Err(error) => Some(error.to_string()),
    })
}

/// The remedy in the status of the condition with this message.
fn remedy(host: &Host, message: &str) -> String {
    eventually("the status tells it", WITHIN, || {
        let _ = host.client().next_direct("orders");
        let status = host.status();
        let conditions = status["health"]["conditions"].as_array().unwrap().clone();
        let found =
            conditions.iter().find(|one| one["message"].as_str().unwrap().contains(message))?;
        Some(found["remedy"].as_str().unwrap().to_owned())
    })
}

fn claims_wait_for_the_right_to_record_them<S: Server>() {
    let server = S::new();
    let mut host = Host::on_store(&server.url()).set("identity", "web-1").set("max_step", "20");
    host.start();
    create(&host, "orders", 20);
    if S::SCHEME == "mysql" {
        change(&server, "REVOKE ALL ON `ids%`.* FROM");
        for (table, privileges) in PRIVILEGES {
            change(&server, &format!("GRANT {privileges} ON {table} TO"));
        }
    }
    let mut drawn = Vec::new();
    drawn.push(eventually("its privileges are enough", WITHIN, || {
        host.client().next_direct("orders").ok()
    }));

    let denied = match S::NAME {
        "MariaDB" => "`leafd_claim`",
        "MySQL" => "'leafd_claim'",
        _ => "permission denied for table leafd_claim",
    };
    change(&server, "REVOKE INSERT ON leafd_claim FROM");
    let refused = draw_dry(&host, &mut drawn);
    assert!(refused.contains(denied), "{refused}");
    assert!(drawn.len() <= 60, "three claims at most: {}", drawn.len());
    let told = remedy(&host, denied);
    assert!(told.contains("docs/guide/many-hosts.md"), "{told}");
    let ping = host.leafctl(&["ping", "--ready", "segments"]);
    assert_eq!(ping.status.code(), Some(EXIT_NOT_READY), "{ping:?}");
    let doctor = host.command(Some("doctor")).output().unwrap();
    let words = String::from_utf8_lossy(&doctor.stdout);
    assert_eq!(doctor.status.code(), Some(1), "{words}");
    assert!(words.contains("INSERT ON leafd_claim"), "{words}");
    // A restart gives the same result.
    host.stop();
    host.start();
    let refused = draw_dry(&host, &mut drawn);
    assert!(refused.contains(denied), "{refused}");
    // The documentation says that a host without records needs no such privilege.
    let mut silent = Host::on_store(&server.url()).set("claims_kept", "0s");
    silent.start();
    let unrecorded = silent.raw().draw("orders", 30);

    // Without any privilege, MariaDB and MySQL don't even show the table.
    change(&server, "REVOKE SELECT, DELETE ON leafd_claim FROM");
    let refused = draw_dry(&host, &mut drawn);
    assert!(refused.contains("leafd_claim"), "{refused}");
    let told = remedy(&host, if S::SCHEME == "mysql" { "hides it" } else { denied });
    assert!(told.contains("grant leafd's user its privileges"), "{told}");
    change(&server, "GRANT SELECT, INSERT, DELETE ON leafd_claim TO");
    drawn.push(eventually("claims go on", WITHIN, || host.client().next_direct("orders").ok()));
    drawn.extend(host.raw().draw("orders", 50));

    for id in &drawn {
        let answer = host.admin(opcode::WHOSE, &json!({ "tag": "orders", "id": id }));
        assert_eq!(answer["claims"][0]["name"], "web-1", "{answer}");
    }
    let answer = host.admin(opcode::WHOSE, &json!({ "tag": "orders", "id": unrecorded[0] }));
    assert_eq!(answer["verdict"], "by_none_of_leafds_hosts", "{answer}");
    let mut seen = HashSet::new();
    assert!(drawn.iter().chain(&unrecorded).all(|id| seen.insert(id)), "no id came twice");
}

//! `leafd doctor` on real servers: each problem is caused, and the doctor's report of it is checked.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::servers::{PASSWORD, Server, TABLES};
use leafd_tests::wall_clock::WallClock;
use serde_json::Value;
use tempfile::TempDir;

on_each_server!(troubles_of_a_store, troubles_of_a_certificate);

/// The doctor's findings on a host, and its exit status.
fn findings(host: &Host) -> (Option<i32>, Vec<Value>) {
    let output = host.command(Some("doctor")).arg("--json").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), report["findings"].as_array().unwrap().clone())
}

fn failed(findings: &[Value]) -> Vec<&Value> {
    findings.iter().filter(|one| one["verdict"] == "failed").collect()
}

/// Checks that nothing failed, and returns all findings.
#[track_caller]
fn is_well(host: &Host) -> Vec<Value> {
    let (code, findings) = findings(host);
    assert_eq!((code, failed(&findings)), (Some(0), vec![]));
    findings
}

/// Checks that exactly one check fails, with this text and this remedy.
#[track_caller]
fn one_fails(host: &Host, subject: &str, says: &str, advises: &str) {
    let (code, findings) = findings(host);
    let failed = failed(&findings);
    assert_eq!((code, failed.len()), (Some(1), 1), "{findings:#?}");
    check(failed[0], subject, says, advises);
}

/// Checks that a check warns with this text and this remedy, and that none fails.
#[track_caller]
fn one_warns(host: &Host, subject: &str, says: &str, advises: &str) {
    let findings = is_well(host);
    let found =
        findings.iter().find(|one| one["verdict"] == "warning" && one["subject"] == subject);
    check(found.unwrap_or_else(|| panic!("{findings:#?}")), subject, says, advises);
}

#[track_caller]
fn check(finding: &Value, subject: &str, says: &str, advises: &str) {
    assert_eq!(finding["subject"], subject, "{finding}");
    assert!(finding["text"].as_str().unwrap().contains(says), "{finding}");
    assert!(finding["remedy"].as_str().unwrap().contains(advises), "{finding}");
}

/// All rows of all tables, to check that nothing was written.
fn rows<S: Server>(server: &S) -> Vec<Vec<Vec<String>>> {
    TABLES.map(|table| server.sql(&format!("SELECT * FROM {table} ORDER BY 1"))).to_vec()
}

fn troubles_of_a_store<S: Server>() {
    let mut server = S::new();
    let on_server = |worker: &str| Host::on_store(&server.url()).set("worker", worker);
    // The doctor changes nothing, neither before the first start nor beside a daemon.
    let fresh = Host::on_store(&server.url());
    let before = rows(&server);
    let found = is_well(&fresh);
    let subjects: Vec<&str> = found.iter().filter_map(|one| one["subject"].as_str()).collect();
    let all = ["configuration", "state directory", "daemon", "password", "login", "clock"];
    for subject in all.iter().chain(&["privileges", "tables", "ceilings", "workers"]) {
        assert!(subjects.contains(subject), "{subject} in {subjects:?}");
    }
    assert_eq!(rows(&server), before, "the doctor has written to the store");
    assert!(!fresh.state_dir().exists(), "the doctor has made a directory");

    // There is one number, which the first host has: its own doctor finds no problem, but the second one's does.
    let on_pool = || Host::on_store(&server.url()).set("worker_range", "0..1");
    let mut first = on_pool();
    first.start();
    first.create("orders");
    first.raw().draw("orders", 1);
    first.raw().draw("snowflake", 1);
    one_warns(&first, "workers", "1 of 1 numbers are held", "leafctl worker list");
    let second = on_pool();
    one_fails(&second, "workers", "none of them by this host", "leafctl worker release");
    one_fails(
        &on_server("static:0"),
        "workers",
        "two hosts with the same worker",
        "stop one of the two",
    );
    is_well(&on_server("static:1"));

    server.sql("UPDATE leafd_tag SET ceiling = 100000 WHERE tag = 'orders'");
    server.sql("UPDATE leaf_alloc SET max_id = 90001 WHERE biz_tag = 'orders'");
    one_warns(
        &fresh,
        "ceilings",
        "\"orders\" has used 90 %",
        "leafctl tag set \"orders\" --ceiling",
    );
    server.sql("UPDATE leaf_alloc SET max_id = 100001 WHERE biz_tag = 'orders'");
    one_fails(
        &fresh,
        "ceilings",
        "\"orders\" has used 100 %",
        "leafctl tag set \"orders\" --ceiling",
    );
    server.sql("UPDATE leafd_tag SET ceiling = 9223372036854775807 WHERE tag = 'orders'");

    if S::NAME == "PostgreSQL" {
        one_warns(&fresh, "durability", "fsync is off", "acknowledges");
    } else {
        for (setting, lax) in [("innodb_flush_log_at_trx_commit", 2), ("sync_binlog", 0)] {
            server.sql(&format!("SET GLOBAL {setting} = {lax}"));
            one_warns(&fresh, "durability", &format!("{setting} is {lax}"), "acknowledges");
            server.sql(&format!("SET GLOBAL {setting} = 1"));
        }
    }

    let (ahead, clock) = WallClock::of(Host::on_store(&server.url()));
    is_well(&ahead);
    clock.step(3_600);
    one_fails(&ahead, "clock", "1 h behind this host's", "timedatectl");
    clock.step(-3_600);
    one_fails(&ahead, "clock", "1 h ahead of this host's", "timedatectl");

    first.stop();
    let copied =
        Command::new("cp").arg("-a").args([first.state_dir(), first.path("copy")]).status();
    assert!(copied.unwrap().success());
    std::fs::rename(first.path("state"), first.path("original")).unwrap();
    std::fs::rename(first.path("copy"), first.path("state")).unwrap();
    let first = first.set("worker_range", "0..9");
    one_warns(&first, "journal", "a copy: it belongs", "its own state directory");

    // MariaDB and MySQL grant privileges on the database, PostgreSQL on the table.
    let (on, whom) = match S::SCHEME {
        "mysql" => ("`ids%`.*", "leafd@'%'"),
        _ => ("leaf_alloc", "leafd"),
    };
    if S::NAME == "PostgreSQL" {
        // An owner's privileges can be revoked only by the owner or a superuser.
        server.sql("REVOKE DELETE ON leaf_alloc FROM leafd");
        one_warns(
            &fresh,
            "privileges",
            "lacks DELETE ON leaf_alloc",
            "GRANT DELETE ON leaf_alloc TO leafd",
        );
        server.sql("GRANT DELETE ON leaf_alloc TO leafd");
        server.sql("REVOKE DELETE ON leafd_claim FROM leafd");
        let advice = "GRANT DELETE ON leafd_claim TO leafd";
        one_warns(&fresh, "privileges", "claims older than claims_kept are not deleted", advice);
        server.sql("GRANT DELETE ON leafd_claim TO leafd");
        // The remedy is SQL that works as printed.
        server.sql("REVOKE INSERT, UPDATE ON leafd_tag, leafd_host FROM leafd");
        let (_, findings) = findings(&fresh);
        let privileges = findings.iter().find(|one| one["subject"] == "privileges").unwrap();
        let advice = privileges["remedy"].as_str().unwrap();
        let (_, advice) = advice.split_once("tables: ").unwrap();
        server.sql(advice.strip_suffix("; leafd needs no restart").unwrap());
        is_well(&fresh);
        server.sql("REVOKE UPDATE ON leafd_worker FROM leafd");
        one_fails(&fresh, "privileges", "workers can't be leased", "GRANT UPDATE ON leafd_worker");
        server.sql("GRANT UPDATE ON leafd_worker TO leafd");
    }
    server.sql(&format!("REVOKE UPDATE ON {on} FROM {whom}"));
    one_fails_first(&fresh, "privileges", "UPDATE ON leaf_alloc", "GRANT UPDATE ON leaf_alloc");
    server.sql(&format!("GRANT UPDATE ON {on} TO {whom}"));

    let mut wrong = Host::on_store(&server.url());
    wrong.change_variable("LEAFD_STORE_PASSWORD", "former");
    server.set_password("rotated");
    for host in [&wrong, &fresh] {
        one_fails(host, "login", "leafd", "LEAFD_STORE_PASSWORD");
    }
    server.set_password(PASSWORD);
    is_well(&fresh);

    // A port that was just released, so nothing listens on it.
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let elsewhere = Host::on_store(&S::url_of(&[unused], "ids"));
    one_fails(&elsewhere, "login", "refused", "check that the database is running");
    let unnamed = server.url().replace("127.0.0.1", "no-such-host.invalid");
    one_fails(&Host::on_store(&unnamed), "login", "no-such-host.invalid", "this host can reach it");
    server.kill();
    one_fails(&fresh, "login", "refused", "check that the database is running");
}

/// Checks that some checks fail, the first one with this text and this remedy.
#[track_caller]
fn one_fails_first(host: &Host, subject: &str, says: &str, advises: &str) {
    let (code, findings) = findings(host);
    assert_eq!(code, Some(1), "{findings:#?}");
    check(failed(&findings)[0], subject, says, advises);
}

/// A certificate authority, another one, and certificates for `localhost` that a server's user can read.
struct Certificates {
    dir: TempDir,
}

impl Certificates {
    fn new(user: &str) -> Certificates {
        let made = Certificates { dir: tempfile::tempdir().unwrap() };
        let script = "
            for ca in ca other; do
                openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 300 -subj /CN=$ca \
                    -keyout $ca.key -out $ca.pem
            done
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=server \
                -keyout server.key -out server.csr
            echo subjectAltName=DNS:localhost >names
            sign='openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names'
            $sign -days 200 -out good.pem
            $sign -days -1 -out expired.pem
            cp good.pem server.pem
            chmod 755 .
            chmod 644 *.pem";
        let made_by =
            Command::new("sh").args(["-ec", script]).current_dir(made.dir.path()).output();
        let output = made_by.unwrap();
        assert!(output.status.success(), "{output:?}");
        if nix::unistd::geteuid().is_root() {
            let user = nix::unistd::User::from_name(user).unwrap().unwrap();
            std::os::unix::fs::chown(made.path("server.key"), Some(user.uid.into()), None).unwrap();
        }
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn troubles_of_a_certificate<S: Server>() {
    let (user, words, reload) = match S::NAME {
        "MariaDB" => ("mysql", ["--ssl-cert=", "--ssl-key="], "FLUSH SSL"),
        "MySQL" => ("root", ["--ssl-cert=", "--ssl-key="], "ALTER INSTANCE RELOAD TLS"),
        _ => ("postgres", ["ssl_cert_file=", "ssl_key_file="], "SELECT pg_reload_conf()"),
    };
    let certificates = Certificates::new(user);
    let with = |word: &str, name: &str| format!("{word}{}", certificates.path(name).display());
    let mut settings = vec![with(words[0], "server.pem"), with(words[1], "server.key")];
    match S::NAME {
        "PostgreSQL" => settings.push("ssl=on".to_owned()),
        "MySQL" => settings.push(with("--ssl-ca=", "ca.pem")),
        _ => {}
    }
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = S::with(&settings);
    let host = |name: &str, authority: &Path| {
        let url = server.url().replace("127.0.0.1", name);
        let url = url.split('?').next().unwrap();
        Host::on_store(&format!("{url}?sslrootcert={}", authority.display()))
    };
    let (ours, other) = (certificates.path("ca.pem"), certificates.path("other.pem"));
    let sound = host("localhost", &ours);
    is_well(&sound);
    one_fails(&host("localhost", &other), "login", "certificate", "sslrootcert");
    one_fails(&host("127.0.0.1", &ours), "login", "certificate", "sslrootcert");
    // MySQL doesn't load expired certificates.
    if S::NAME == "MySQL" {
        return;
    }
    std::fs::copy(certificates.path("expired.pem"), certificates.path("server.pem")).unwrap();
    server.sql(reload);
    eventually("the server has its new certificate", Duration::from_secs(10), || {
        (findings(&sound).0 == Some(1)).then_some(())
    });
    one_fails(&sound, "login", "certificate", "sslrootcert");
}

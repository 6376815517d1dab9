//! The page on restoring a backup, followed literally on each kind of server: every statement and command in its order,
//! while daemons run. Only the server's address and folders differ.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use leafd_tests::host::{Host, eventually, leafd_binary};
use leafd_tests::load::Drawn;
use leafd_tests::raw::ids_request;
use leafd_tests::servers::{DATABASE, Server};
use leafd_wire::Status;

use crate::scene::create;

const PAGE: &str = include_str!("../../docs/operate/restore.md");

/// How soon daemons must have ids again, on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

on_each_server!(the_page_on_restoring_a_backup_does_what_it_says);

/// The blocks to run, in their order: the language, and the text without the list's indentation.
fn blocks() -> Vec<(&'static str, String)> {
    let parts = PAGE.split("```").skip(1).step_by(2);
    let dedent = |text: &str| text.lines().map(str::trim_start).collect::<Vec<_>>().join("\n");
    parts
        .map(|part| part.split_once('\n').expect("a language"))
        .map(|(language, text)| (language, dedent(text)))
        .collect()
}

/// Runs the commands of a block, with the programs that were built, and with folders below a temporary one.
#[track_caller]
fn run(script: &str) {
    let folder = tempfile::tempdir().unwrap();
    for program in ["leafd", "leafctl"] {
        symlink(leafd_binary().with_file_name(program), folder.path().join(program)).unwrap();
    }
    let path = folder.path().to_str().unwrap();
    // A daemon that outlived a failed command would keep the output open.
    let script =
        format!("trap 'kill $! 2> /dev/null || :' EXIT\n{}", script.replace("/var/tmp", path));
    let output = Command::new("/bin/sh")
        .args(["-eux", "-c", &script])
        .env_clear()
        .env("PATH", format!("{path}:/usr/bin:/bin"))
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// Draws numbers of the series that the backup lacks.
fn receipts_of(host: &Host) -> Option<String> {
    let output = host.leafctl(&["series", "next", "receipts", "-n", "3"]);
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

fn the_page_on_restoring_a_backup_does_what_it_says<S: Server>() {
    let server = S::new();
    let host = || Host::on_store(&server.url()).set("failover_settle", "1s").set("worker", "none");
    let mut hosts = [host(), host()];
    hosts.iter_mut().for_each(Host::start);
    let [a, b] = &hosts;
    let mut drawn = Drawn::default();
    let mut draw = |host: &Host, tag: &str, count: u32| {
        drawn.add_ids(tag, &host.raw().draw(tag, count));
    };
    for tag in ["orders", "dry", "coupons"] {
        create(a, tag, 100);
        draw(a, tag, 50);
    }
    // A deleted tag, which the page raises among those that the backup lacks.
    server.sql(
        "INSERT INTO leafd_tag (tag, generation, highest_end)
         VALUES ('series/orders/acme/2026-11-24', 1, 500)",
    );
    let backup = server.dump(DATABASE);
    // The backup lacks some ids, a tag, a series, and a deletion.
    draw(a, "orders", 3_000);
    draw(b, "orders", 3_000);
    draw(b, "dry", 500);
    create(b, "invoices", 1_000);
    draw(a, "invoices", 100);
    let receipts = ["series", "create", "receipts", "--format", "RCP-{n:7}"];
    let created = a.leafctl(&receipts);
    assert!(created.status.success(), "{created:?}");
    receipts_of(a).expect("numbers before the restore");
    let deleted = a.leafctl(&["tag", "delete", "coupons", "--yes-delete", "coupons"]);
    assert!(deleted.status.success(), "{deleted:?}");

    let (own, blocks_run): (&[&str], _) = match S::NAME {
        "PostgreSQL" => (&["sql postgres"], 6),
        "MariaDB" => (&["sql mysql", "sql mariadb"], 7),
        _ => (&["sql mysql"], 6),
    };
    let raised = server.url().replace("leafd@", "leafd_raise@");
    let mut restored = false;
    let mut done = 0;
    for (language, text) in blocks() {
        if text.contains("leafd_raise") && own.contains(&language) && !restored {
            // The daemons can't log in by now, and issue their held ids.
            let mut raw = b.raw();
            eventually("what it holds is used up", WITHIN, || {
                raw.send(&ids_request("dry", 100, 1, 500));
                let reply = raw.reply();
                let has_some = reply.status() == Status::Ok;
                if has_some {
                    drawn.add_ids("dry", &reply.ids());
                }
                (!has_some).then_some(())
            });
            server.restore(DATABASE, &backup);
            restored = true;
        }
        match language {
            "sh" => run(&text.replace("postgres://leafd_raise@db1/ids", &raised)),
            language if own.contains(&language) || language == "sql" => drop(server.sql(&text)),
            // The page leaves this step to the operator.
            "sql mariadb" if S::NAME == "MySQL" => {
                S::end_sessions(&mut server.connection().unwrap());
                continue;
            }
            language => {
                assert!(language.starts_with("sql "), "a block of {language}: {text}");
                continue;
            }
        }
        done += 1;
    }
    assert_eq!(done, blocks_run, "statements and commands");
    for tag in ["orders", "dry", "invoices"] {
        for host in &hosts {
            let id = eventually("ids after the restore", WITHIN, || {
                let mut raw = host.raw();
                raw.send(&ids_request(tag, 200, 1, 2_000));
                let reply = raw.reply();
                (reply.status() == Status::Ok).then(|| reply.ids())
            });
            drawn.add_ids(tag, &id);
        }
    }
    for host in &hosts {
        let numbers = eventually("numbers after the restore", WITHIN, || receipts_of(host));
        assert!(numbers.lines().all(|number| number > "RCP-1000000"), "{numbers}");
    }
    hosts[1].raw().refused(&ids_request("coupons", 1, 1, 2_000), Status::TagUnknown);
    drawn.backwards.clear();
    drawn.assert_sound();
}

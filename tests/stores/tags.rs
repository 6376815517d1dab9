//! Tags are administered with `leafctl` on every kind of store while daemons use them: its output, its refusals, and
//! when a change reaches the daemon that made it and another daemon.

use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::load::Drawn;
use leafd_tests::raw::{Raw, ids_request};
use leafd_tests::servers::mysqld::Engine;
use leafd_tests::servers::{MariaDb, Mysql, Postgres, Server};
use leafd_wire::Status;
use serde_json::Value;

/// The setting `removed_tag_check`: within this time, the other daemons know about a change made through one daemon.
const CHECK: &str = "1s";

/// How long that may take to be visible on a busy machine. The setting's default would be too long.
const KNOWN_WITHIN: Duration = Duration::from_secs(60);

/// More tags than fit on a few pages of `leafctl tag list`.
const MANY: usize = 2_345;

/// The exit status of `leafctl` if it was refused.
const REFUSED: i32 = 1;

/// Makes a test of each check for each kind of store.
macro_rules! on_each_store {
    ($($check:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[test]
            fn $check() {
                let mut host = super::Host::new().set("removed_tag_check", super::CHECK);
                host.start();
                let sql = |host: &super::Host, sql: &str| host.store_sql(sql);
                super::$check(&mut [host], &sql);
            })+
        }
        mod on_postgres {
            $(#[test]
            fn $check() {
                super::on_server::<super::Postgres>(super::$check);
            })+
        }
        mod on_mariadb {
            $(#[test]
            fn $check() {
                super::on_server::<super::MariaDb>(super::$check);
            })+
        }
        mod on_mysql {
            $(#[test]
            fn $check() {
                if super::Engine::Mysql.is_tested() {
                    super::on_server::<super::Mysql>(super::$check);
                }
            })+
        }
    };
}

on_each_store!(
    a_tag_s_life,
    changes_reach_daemons_that_use_the_tag,
    ceilings_are_warned_about_and_kept,
    a_ceiling_that_was_lowered_while_a_host_was_off_holds_at_once,
    a_long_list_comes_whole,
);

/// Runs SQL in the store of a host.
type Sql<'a> = &'a dyn Fn(&Host, &str);

fn on_server<S: Server>(check: fn(&mut [Host], Sql<'_>)) {
    let server = S::new();
    let host = || Host::on_store(&server.url()).set("removed_tag_check", CHECK);
    let mut hosts = [host(), host()];
    hosts.iter_mut().for_each(Host::start);
    check(&mut hosts, &|_, sql| drop(server.sql(sql)));
}

/// The output of `leafctl tag` if it succeeds.
#[track_caller]
fn done(host: &Host, words: &[&str]) -> String {
    let output = host.leafctl(&[&["tag"], words].concat());
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The row that it prints.
#[track_caller]
fn row(host: &Host, words: &[&str]) -> Value {
    serde_json::from_str(&done(host, &[words, &["--json"]].concat())).unwrap()
}

/// The output if it is refused.
#[track_caller]
fn refused(host: &Host, words: &[&str], why: &str) -> String {
    let output = host.leafctl(&[&["tag"], words].concat());
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(REFUSED), "{words:?}: {said}");
    assert!(said.contains(why), "{words:?}: {why:?} is not in {said}");
    said
}

/// Draws one id at a time until this is refused. Checks the status, and returns the text.
#[track_caller]
fn until_refused(raw: &mut Raw, tag: &str, status: Status, ids: &mut Vec<u64>) -> String {
    for _ in 0..100_000 {
        raw.ask(tag, 1, 1);
        let reply = raw.reply();
        match reply.status() {
            Status::Ok => ids.extend(reply.ids()),
            _ => return reply.refused(status),
        }
    }
    panic!("ids of {tag} never end");
}

fn assert_unique(ids: Vec<u64>) {
    let mut drawn = Drawn::default();
    drawn.add_ids("ids", &ids);
    drawn.assert_sound();
}

fn a_tag_s_life(hosts: &mut [Host], _: Sql<'_>) {
    let (host, other) = (&hosts[0], hosts.last().unwrap());
    let words = ["create", "orders", "--start", "500", "--step", "20", "--ceiling", "100000"];
    let made = row(host, &[&words[..], &["--description", "the shop's"]].concat());
    let is = |row: &Value| {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| row[name].as_u64().unwrap();
        let numbers = (number("max_id"), number("step"), number("ceiling"));
        (text("tag"), numbers, row["strict"] == true, text("description"))
    };
    let as_made = ("orders".to_owned(), (500, 20, 100_000), false, "the shop's".to_owned());
    assert_eq!(is(&made), as_made);
    assert_eq!(is(&row(other, &["show", "orders"])), as_made);
    assert!(done(other, &["show", "orders"]).contains("the shop's"));
    assert_eq!(row(host, &["create", "ledger", "--strict"])["strict"], true);
    refused(
        other,
        &["create", "orders"],
        "already has a tag \"orders\": show it with leafctl tag show",
    );
    refused(host, &["create", "snowflake"], "snowflake layout");
    refused(host, &["create", "late", "--start", "11", "--ceiling", "10"], "allowed: 1 to 10");
    refused(host, &["create", "none", "--step", "0"], "step can't be 0");
    for option in ["--step", "--start", "--ceiling"] {
        let said = host.leafctl(&["tag", "create", "none", option, "-5"]).stderr;
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("'-5'") && said.contains("must be a whole number from 0"), "{said}");
    }
    refused(host, &["create", "long", "--description", &"x".repeat(257)], "at most 256 characters");
    refused(host, &["show", "nothing"], "no tag \"nothing\"");
    refused(host, &["set", "orders"], "nothing to set");
    refused(host, &["raise", "nothing", "--to", "5"], "no tag \"nothing\"");

    let set =
        row(host, &["set", "orders", "--step", "50", "--ceiling", "90000", "--description", ""]);
    assert_eq!(is(&set), ("orders".to_owned(), (500, 50, 90_000), false, String::new()));
    let mut ids = other.raw().draw("orders", 30);
    assert_eq!(ids, (500..530).collect::<Vec<u64>>());
    let max_id = row(host, &["raise", "orders", "--to", "50000"])["max_id"].as_u64().unwrap();
    assert!(max_id >= 50_000, "{max_id}");
    let max_id = row(other, &["raise", "orders", "--to", "700"])["max_id"].as_u64().unwrap();
    assert!(max_id >= 50_000, "it is never lowered: {max_id}");
    // Draws more ids than are held.
    while *ids.last().unwrap() < 50_000 {
        ids.extend(other.raw().draw("orders", 500));
    }

    let said = refused(host, &["delete", "orders"], "nothing was deleted");
    assert!(said.contains("--yes-delete \"orders\"") && said.contains("max_id"), "{said}");
    refused(host, &["delete", "orders", "--yes-delete", "order"], "nothing was deleted");
    assert_eq!(row(other, &["delete", "orders", "--yes-delete", "orders"])["tag"], "orders");
    // The daemon that deleted the tag knows it immediately.
    other.raw().refused(&ids_request("orders", 1, 1, 1_000), Status::TagUnknown);
    refused(host, &["show", "orders"], "no tag \"orders\"");
    refused(host, &["delete", "orders", "--yes-delete", "orders"], "no tag \"orders\"");
    let said = refused(host, &["create", "orders"], "existed before");
    let above = said.split("with start ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(above.parse::<u64>().unwrap() > *ids.iter().max().unwrap(), "{said}");
    row(host, &["create", "orders", "--start", above]);
    ids.extend(host.raw().draw("orders", 100));
    // The tag was requested in vain a moment ago.
    ids.push(other.raw().draw_until("orders", KNOWN_WITHIN));
    assert_unique(ids);
}

fn changes_reach_daemons_that_use_the_tag(hosts: &mut [Host], sql: Sql<'_>) {
    let (host, other) = (&hosts[0], hosts.last().unwrap());
    for tag in ["lowered", "deleted", "remade", "stepped"] {
        row(host, &["create", tag, "--step", "1000"]);
    }
    let mut raw = other.raw();
    let mut ids = raw.draw("lowered", 100);
    // The new ceiling lies within the ids that the other daemon holds.
    row(host, &["set", "lowered", "--ceiling", "500"]);
    eventually("a lowered ceiling", KNOWN_WITHIN, || (held(other, "lowered") <= 400).then_some(()));
    let text = until_refused(&mut raw, "lowered", Status::TagExhausted, &mut ids);
    assert!(text.contains("its ceiling 500"), "{text}");
    assert!(ids.iter().all(|id| *id <= 500), "{:?}", ids.last());
    // Dropped ids stay claimed.
    row(host, &["set", "lowered", "--ceiling", "100000"]);
    ids.push(raw.draw_until("lowered", KNOWN_WITHIN));
    assert!(*ids.last().unwrap() > 500);
    assert_unique(ids);

    raw.draw("deleted", 10);
    row(host, &["delete", "deleted", "--yes-delete", "deleted"]);
    eventually("a deleted tag", KNOWN_WITHIN, || {
        raw.ask("deleted", 1, 1);
        (raw.reply().status() == Status::TagUnknown).then_some(())
    });

    // Changed by hand, as Leaf's operators do.
    let mut ids = raw.draw("remade", 10);
    sql(host, "DELETE FROM leaf_alloc WHERE biz_tag = 'remade'");
    sql(host, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('remade', 1, 10)");
    eventually("a tag made anew", KNOWN_WITHIN, || {
        raw.ask("remade", 1, 1);
        let reply = raw.reply();
        match reply.status() {
            Status::Ok => {
                ids.extend(reply.ids());
                None
            }
            // A check may come between the two statements. The client is then told to retry.
            _ => reply.text().contains("leafctl tag delete \"remade\"").then_some(()),
        }
    });
    row(host, &["delete", "remade", "--yes-delete", "remade"]);
    row(host, &["create", "remade", "--start", "20000", "--step", "10"]);
    ids.push(raw.draw_until("remade", KNOWN_WITHIN));
    assert_unique(ids);

    // The next claim is at least as large as the new step.
    let mut ids = raw.draw("stepped", 10);
    row(host, &["set", "stepped", "--step", "70000"]);
    eventually("a claim of the new step", KNOWN_WITHIN, || {
        ids.extend(raw.draw("stepped", 3_000));
        let max_id = row(host, &["show", "stepped"])["max_id"].as_u64().unwrap();
        (max_id > 70_000).then_some(())
    });
    assert_unique(ids);
}

/// How many numbers of a tag a daemon holds.
fn held(host: &Host, tag: &str) -> u64 {
    let status = host.status();
    let tags = status["segments"]["tags"].as_array().unwrap();
    let found = tags.iter().find(|one| one["tag"] == tag).unwrap();
    found["held"].as_u64().unwrap()
}

fn ceilings_are_warned_about_and_kept(hosts: &mut [Host], _: Sql<'_>) {
    // Claims are so small that none passes two warnings.
    for host in hosts.iter_mut() {
        host.stop();
        host.change("max_step", "30");
        host.start();
    }
    let (host, other) = (&hosts[0], hosts.last().unwrap());
    row(host, &["create", "few", "--ceiling", "1000", "--step", "5"]);
    let mut ids = Vec::new();
    let text = until_refused(&mut host.raw(), "few", Status::TagExhausted, &mut ids);
    assert!(text.contains("its ceiling 1000") && text.contains("leafctl tag set"), "{text}");
    assert_eq!(ids.len(), 1_000, "{:?} {text}", ids.last());
    assert_eq!(ids, (1..=1_000).collect::<Vec<u64>>(), "every number, and none twice");
    let log = host.log();
    let warnings: Vec<&str> =
        log.lines().filter(|line| line.contains("% used: raise the ceiling")).collect();
    let percents: Vec<u64> = warnings.iter().map(|line| percent(line)).collect();
    let bounds = [80..90, 90..95, 95..99, 99..101];
    assert_eq!(percents.len(), bounds.len(), "{percents:?}");
    assert!(
        bounds.iter().zip(&percents).all(|(one, percent)| one.contains(percent)),
        "{percents:?}"
    );
    assert!(warnings[0].contains("ERROR"), "{}", warnings[0]);

    ends_are_told_in_time(host);
    for (tag, ceiling) in [("of-32-bits", (1_u64 << 31) - 1), ("of-53-bits", (1 << 53) - 1)] {
        let (start, most) = ((ceiling - 99).to_string(), ceiling.to_string());
        row(host, &["create", tag, "--start", &start, "--ceiling", &most, "--step", "30"]);
        let mut ids = Vec::new();
        until_refused(&mut other.raw(), tag, Status::TagExhausted, &mut ids);
        until_refused(&mut host.raw(), tag, Status::TagExhausted, &mut ids);
        assert_eq!(ids.len(), 100);
        assert_eq!(ids.iter().max(), Some(&ceiling));
        assert_unique(ids);
        let output = host.leafctl(&["next", tag]);
        assert_eq!(output.status.code(), Some(REFUSED));
        assert!(String::from_utf8_lossy(&output.stderr).contains("exhausted"), "{output:?}");
    }
}

fn a_ceiling_that_was_lowered_while_a_host_was_off_holds_at_once(hosts: &mut [Host], sql: Sql<'_>) {
    // Only a check at the start itself can detect this in time.
    hosts[0].change("removed_tag_check", "30s");
    row(&hosts[0], &["create", "lowered", "--step", "1000"]);
    let mut ids = hosts[0].raw().draw("lowered", 5);
    hosts[0].stop();
    sql(&hosts[0], "UPDATE leafd_tag SET ceiling = 20 WHERE tag = 'lowered'");
    hosts[0].start();
    let text = until_refused(&mut hosts[0].raw(), "lowered", Status::TagExhausted, &mut ids);
    assert!(text.contains("exhausted"), "{text}");
    assert_eq!(ids, (1..=20).collect::<Vec<u64>>());
}

/// The problem is reported as long as it lasts, and ids remain available.
fn ends_are_told_in_time(host: &Host) {
    row(host, &["create", "ending", "--ceiling", "1000", "--start", "700", "--step", "5"]);
    let near = || {
        let status = host.status();
        let conditions = status["health"]["conditions"].as_array().cloned().unwrap();
        conditions
            .into_iter()
            .find(|one| one["code"] == "tag_near_ceiling" && one["subject"] == "ending")
    };
    let mut raw = host.raw();
    raw.draw("ending", 1);
    assert!(near().is_none(), "{:?}", near());
    raw.draw("ending", 130);
    let told = near().expect("it is told");
    assert_eq!([&told["severity"], &told["kind"]], ["warning", "segments"]);
    assert!(told["message"].as_str().unwrap().contains("\"ending\" is 8"), "{told}");
    assert!(told["remedy"].as_str().unwrap().contains("leafctl tag set"), "{told}");
    assert!(host.leafctl(&["ping", "--ready", "segments"]).status.success());
    row(host, &["set", "ending", "--ceiling", "2000"]);
    assert!(near().is_none(), "{:?}", near());
}

/// How much of a tag is used, by a line of the log.
pub fn percent(line: &str) -> u64 {
    let after = line.split("percent=").nth(1).unwrap_or_else(|| panic!("no percent in {line}"));
    after.split_whitespace().next().unwrap().parse().unwrap()
}

fn a_long_list_comes_whole(hosts: &mut [Host], sql: Sql<'_>) {
    let host = &hosts[0];
    assert_eq!(done(host, &["list", "--json"]), "");
    let names: Vec<String> = (0..MANY).map(|number| format!("t{number:05}")).collect();
    for some in names.chunks(500) {
        let rows: Vec<String> = some.iter().map(|name| format!("('{name}', 1, 7)")).collect();
        let columns = "leaf_alloc (biz_tag, max_id, step)";
        sql(host, &format!("INSERT INTO {columns} VALUES {}", rows.join(", ")));
    }
    let listed = |words: &[&str]| {
        let lines = done(host, &[&["list", "--json"], words].concat());
        let name = |line| {
            let row: Value = serde_json::from_str(line).unwrap();
            row["tag"].as_str().unwrap().to_owned()
        };
        lines.lines().map(name).collect::<Vec<String>>()
    };
    assert_eq!(listed(&[]), names);
    assert_eq!(listed(&["--limit", "3"]), names[..3]);
    assert_eq!(listed(&["--after", "t01233", "--limit", "1050"]), names[1_234..2_284]);
    assert_eq!(listed(&["--after", &names[MANY - 1]]), Vec::<String>::new());
    let table = done(host, &["list", "--limit", "2"]);
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.starts_with("TAG"), "{table}");
    let all = host.leafctl(&["tag", "list", "--after", &names[MANY - 2], "--limit", "1"]);
    assert!(all.stderr.is_empty(), "{all:?}");
    let some = host.leafctl(&["tag", "list", "--limit", "1"]);
    assert!(String::from_utf8_lossy(&some.stderr).contains("there are more tags"), "{some:?}");
    done(host, &["create", "a-strict-one", "--strict"]);
    let table = done(host, &["list"]);
    let strict: Vec<&str> = table.lines().filter(|line| line.contains(" strict")).collect();
    assert!(strict.len() == 1 && strict[0].starts_with("a-strict-one "), "{strict:?}");
    let output = host.leafctl(&["tag", "list", "--after", ""]);
    assert_eq!(output.status.code(), Some(REFUSED), "no tag has an empty name: {output:?}");
}

/// PostgreSQL's owner may make the description column as wide as they like.
#[test]
fn descriptions_of_many_megabytes_are_listed_cut() {
    let server = Postgres::new();
    let mut host = Host::on_store(&server.url());
    host.start();
    server.sql("ALTER TABLE leaf_alloc ALTER description TYPE text");
    server.sql(
        "INSERT INTO leaf_alloc (biz_tag, max_id, step, description)
         SELECT 'big' || i, 1, 1000, repeat('D', 5000000) FROM generate_series(1, 20) AS i",
    );
    let rows = done(&host, &["list", "--json"]);
    assert_eq!(rows.lines().count(), 20);
    assert!(rows.len() < 20_000, "{} bytes", rows.len());
    host.assert_alive();
}

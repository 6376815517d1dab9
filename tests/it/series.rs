//! Document numbers: series, tenants, which numbers can be drawn, accounts, and texts that are read back.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use leafd_client::{Client, Error, opcode};
use leafd_tests::program::leafd_binary;
use leafd_tests::wall_clock::WallClock;
use leafd_wire::{IdsRequest, Status};
use serde_json::{Value, json};

use crate::access::{STRANGER, raw_as};
use crate::c_library::{Way, folder, program, succeed};
use crate::host::{Host, die_with_parent, eventually};
use crate::raw::ids_request;

const WITHIN: Duration = Duration::from_secs(30);

/// Runs `leafctl` and returns its output.
#[track_caller]
fn leafctl(host: &Host, words: &[&str]) -> String {
    let output = host.leafctl(words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `leafctl`, which must fail, and returns the reason.
#[track_caller]
fn refused(host: &Host, words: &[&str]) -> String {
    let output = host.leafctl(words);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.lines().count() <= 2, "{said}");
    said
}

fn create(host: &Host, name: &str, format: &str, rest: &[&str]) {
    let words = ["series", "create", name, "--format", format];
    leafctl(host, &[&words[..], rest].concat());
}

/// The current year in UTC. A test that runs past its end draws again.
fn year() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    (1970 + now.as_secs() / 31_556_952).to_string()
}

fn numbers_request(name: &[u8], count: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    IdsRequest { tag: name, count, deadline_ms: 2_000 }.put_as(
        opcode::SERIES_NEXT,
        0,
        1,
        &mut bytes,
    );
    bytes
}

#[track_caller]
fn status_of<T: std::fmt::Debug>(result: Result<T, Error>) -> (Status, String) {
    match result {
        Err(Error::Service { status, message, .. }) => (status, message),
        other => panic!("{other:?}"),
    }
}

fn started() -> Host {
    let mut host = Host::new().worker(17);
    host.start();
    host
}

#[test]
fn numbers_are_drawn_read_back_and_accounted_for() {
    let host = started();
    create(&host, "invoices", "INV-{yyyy}-{n:6}", &["--timezone", "Europe/Berlin"]);
    let year = year();
    let expected: Vec<String> = (1..=3).map(|n| format!("INV-{year}-{n:06}")).collect();
    assert_eq!(leafctl(&host, &["series", "next", "invoices"]).trim(), expected[0]);
    let series = host.client().series("invoices");
    assert_eq!(series.next_batch(2).unwrap(), expected[1..]);
    assert_eq!(series.next_batch(2_500).unwrap().len(), 2_500);
    assert!(series.next_batch(0).unwrap().is_empty());
    let said = leafctl(&host, &["series", "check", &expected[1]]);
    assert!(
        said.starts_with(&format!("valid: number 2 of {year} (series/invoices/{year}); issued;")),
        "{said}"
    );
    let said = leafctl(&host, &["series", "check", &format!("INV-{year}-999999")]);
    assert!(said.contains("not claimed yet"), "{said}");
    let said = leafctl(&host, &["series", "check", "INV-2001-000001"]);
    assert!(said.contains("not issued"), "{said}");
    assert!(refused(&host, &["series", "check", "INV-12"]).contains("not a document number"));
    // The account contains every number once, with its text.
    let tag = format!("series/invoices/{year}");
    let end = || host.admin(opcode::TAG_SHOW, &json!({ "tag": tag }))["max_id"].as_u64().unwrap();
    let before = end();
    let account = host.admin(opcode::GAPS, &json!({ "tag": tag, "first": 1 }));
    let parts = account["parts"].as_array().unwrap();
    let issued = &parts[0];
    let begins = (issued["first"].as_u64(), issued["first_text"].as_str(), issued["why"].as_str());
    assert_eq!(begins, (Some(1), Some(&*expected[0]), Some("issued")));
    let ends =
        parts.windows(2).all(|pair| pair[1]["first"] == pair[0]["last"].as_u64().unwrap() + 1);
    assert!(ends, "{parts:#?}");
    let last = parts.iter().rfind(|part| part["why"] == "issued").unwrap();
    assert_eq!(last["last"], 2_503);
    // The host may claim more in the meantime.
    let claimed_to = parts.last().unwrap()["last"].as_u64().unwrap();
    assert!((before..=end()).contains(&(claimed_to + 1)), "{before} {claimed_to}");
    let text = leafctl(&host, &["series", "account", "invoices"]);
    assert!(text.starts_with(&format!("{} to ", expected[0])), "{text}");
    let text = leafctl(&host, &["gaps", &tag, "2..3"]);
    assert!(text.starts_with(&format!("{} to {} (2..3)", expected[1], expected[2])), "{text}");
    let csv = leafctl(&host, &["series", "account", "invoices", &year, "--output", "csv"]);
    assert!(csv.starts_with("first,last,first_text"), "{csv}");
    assert!(csv.contains(&format!(",\"{}\",", expected[0])), "{csv}");
    let lines = leafctl(&host, &["series", "account", "invoices", "--output", "json"]);
    // Consecutive parts with the same fate are one line, such as the claims of a dense series.
    let line: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((&line["first_text"], &line["last"]), (&issued["first_text"], &json!(2_503)));
    let list = leafctl(&host, &["series", "list"]);
    assert!(list.contains("Europe/Berlin") && list.contains(&year), "{list}");
}

/// A dense series holds no ids, yet its tag doesn't leave memory as an idle one while a claim is pending.
#[test]
fn a_dense_series_in_steady_use_skips_nothing() {
    let mut host = Host::new().worker(17).set("tag_idle", "1s");
    host.start();
    create(&host, "dense", "D{n:6}", &["--dense"]);
    let series = host.client().series("dense");
    let begun = Instant::now();
    for number in 1.. {
        assert_eq!(series.next().unwrap(), format!("D{number:06}"));
        if begun.elapsed() > Duration::from_secs(4) {
            break;
        }
    }
}

#[test]
fn a_restart_and_another_client_go_on_in_the_period() {
    let mut host = started();
    create(&host, "plain", "P{n:4}", &[]);
    create(&host, "dense", "D{n:4}{check}", &["--dense", "--overflow", "refuse"]);
    let draw = |host: &Host, name: &str| host.client().series(name).next().unwrap();
    assert_eq!(draw(&host, "plain"), "P0001");
    assert!(draw(&host, "dense").starts_with("D0001"));
    host.stop();
    host.start();
    assert_eq!(draw(&host, "plain"), "P0002");
    assert!(draw(&host, "dense").starts_with("D0002"));
    host.kill();
    host.start();
    // A dense series skips nothing, and the account names the number whose answer may have been lost in the crash.
    assert!(draw(&host, "dense").starts_with("D0003"));
    let body = json!({ "tag": "series.dense/dense/all", "first": 1 });
    let account = host.admin(opcode::GAPS, &body);
    let why: Vec<&str> = account["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["why"].as_str().unwrap())
        .collect();
    assert_eq!(why, ["issued", "issued_until_crash", "issued"]);
    // No host holds any of its numbers, and only the series draws them.
    assert_eq!(account["parts"][2]["last"], 3);
    let (status, words) = status_of(host.client().next("series.dense/dense/all"));
    assert!(status == Status::ValueRefused && words.contains("belongs to a series"), "{words}");
    assert_eq!(host.client().series("dense").next_batch(500).unwrap().len(), 500);
    assert!(draw(&host, "dense").starts_with("D0504"));
}

#[test]
fn a_full_period_refuses_or_grows_and_warns_before() {
    let host = started();
    create(&host, "grow", "G{n:1}", &[]);
    create(&host, "refuse", "R{n:1}", &["--overflow", "refuse"]);
    let client = host.client();
    let numbers = client.series("grow").next_batch(12).unwrap();
    assert_eq!((&*numbers[8], &*numbers[9]), ("G9", "G10"));
    assert_eq!(client.series("refuse").next_batch(9).unwrap().pop().unwrap(), "R9");
    assert_eq!(status_of(client.series("refuse").next()).0, Status::TagExhausted);
    for words in ["numbers get longer", "the tag is 100% used: wait for the next period"] {
        eventually(words, WITHIN, || host.log().contains(words).then_some(()));
    }
    // Numbers above its ceiling would not be numbers of the series.
    let (_, words) = status_of(client.series("refuse").next());
    assert!(words.contains("wait for the next period") && !words.contains("--ceiling"), "{words}");
    let status = host.status().to_string();
    assert!(!status.contains("--ceiling") && !host.log().contains("--ceiling"), "{status}");
}

/// Another host may have issued the very number at which 80 % are used, or it may have been skipped.
#[test]
fn the_warning_comes_with_any_number_beyond_80_percent() {
    let host = started();
    create(&host, "grow", "G{n:9}", &[]);
    let series = host.client().series("grow");
    assert_eq!(series.next().unwrap(), "G000000001");
    leafctl(&host, &["tag", "raise", "series/grow/all", "--to", "900000000"]);
    // The ids that the host holds come first.
    while !series.next_batch(1_000).unwrap()[999].starts_with("G9") {}
    let warned = || host.log().matches("numbers get longer").count();
    eventually("the warning", WITHIN, || (warned() == 1).then_some(()));
    // The warning is logged only once.
    series.next_batch(5).unwrap();
    assert_eq!(warned(), 1);
}

#[test]
fn tenants_have_counts_of_their_own_and_are_limited() {
    let host = started();
    create(&host, "orders", "O-{tenant}-{n:3}", &["--tenants-max", "2"]);
    let orders = host.client().series("orders");
    assert_eq!(orders.tenant("acme").next().unwrap(), "O-ACME-001");
    assert_eq!(orders.tenant("ACME").next().unwrap(), "O-ACME-002");
    assert_eq!(orders.tenant("acme2").next().unwrap(), "O-ACME2-001");
    let (status, words) = status_of(orders.tenant("third").next());
    assert!(status == Status::ValueRefused && words.contains("tag set"), "{words}");
    // This is not a problem of the host, because any user can invent tenants.
    let conditions = &host.status()["health"]["conditions"];
    assert_eq!(*conditions, json!([]));
    assert!(!host.log().contains("used up"), "{}", host.log());
    for (tenant, part) in
        [("", "needs a tenant"), ("a-b", "letters and digits"), (&*"x".repeat(33), "1 to 32")]
    {
        let (status, words) = status_of(orders.tenant(tenant).next());
        assert!(status == Status::ValueRefused && words.contains(part), "{tenant}: {words}");
    }
    // A refused draw leaves no tag behind.
    let tags = leafctl(&host, &["tag", "list"]);
    assert_eq!(tags.matches("series/orders/").count(), 2, "{tags}");
    let found = host.admin(opcode::SERIES_CHECK, &json!({ "text": "O-ACME2-001" }));
    assert_eq!(found["found"][0]["tenant"], "acme2");
    // Tenants are counted by a tag, so an operator can allow more of them.
    leafctl(&host, &["tag", "set", "series.dense/orders/tenants", "--ceiling", "3"]);
    let third = || orders.tenant("third").next().ok();
    assert_eq!(eventually("a third tenant", WITHIN, third), "O-THIRD-001");
    assert_eq!(status_of(orders.tenant("fourth").next()).0, Status::ValueRefused);
}

#[test]
fn access_rules_name_series_and_tenants_as_tags() {
    let rules = "[{tags = [\"series/orders/acme/*\"], uids = [4003]}, {tags = [\"series/bills/*\"], uids = [4003]}]";
    let mut host = Host::new().worker(17).set("socket_mode", "0666").set("access", rules);
    host.start();
    create(&host, "orders", "O-{tenant}-{n:3}", &[]);
    create(&host, "bills", "B{n:3}", &[]);
    let draw = |uid: u32, series: &str, tenant: &str| {
        let mut raw = raw_as(&host, uid, uid, &[]);
        let name = if tenant.is_empty() { series.to_owned() } else { format!("{series}/{tenant}") };
        raw.send(&numbers_request(name.as_bytes(), 1));
        raw.reply()
    };
    for (uid, series, tenant, may) in [
        (STRANGER, "orders", "acme", false),
        (STRANGER, "orders", "other", true),
        (STRANGER, "bills", "", false),
        (4_003, "orders", "acme", true),
        (4_003, "bills", "", true),
    ] {
        let reply = draw(uid, series, tenant);
        assert_eq!(reply.status() == Status::Ok, may, "{uid} {series} {tenant}");
        if may {
            assert!(reply.body.ends_with(b"001") && !reply.body.contains(&b'\n'), "{reply:?}");
        }
    }
    let mut stranger = raw_as(&host, STRANGER, STRANGER, &[]);
    // A user who drew from this tag could exhaust the tenants of all users.
    let counter = "series.dense/orders/tenants";
    for peer in [&mut stranger, &mut host.raw()] {
        let words = peer.refused(&ids_request(counter, 1, 1, 2_000), Status::ValueRefused);
        assert!(words.contains("belongs to a series"), "{words}");
    }
    for opcode in [opcode::SERIES_CREATE, opcode::SERIES_LIST] {
        stranger.request(opcode, 1, b"{}");
        stranger.reply().refused(Status::Denied);
    }
    stranger.request(opcode::SERIES_CHECK, 1, br#"{"text":"B001"}"#);
    stranger.reply().refused(Status::ValueRefused);
    stranger.request(opcode::SERIES_CHECK, 1, br#"{"text":"O-OTHER-001"}"#);
    assert_eq!(stranger.reply().status(), Status::Ok);
}

#[test]
fn what_makes_no_sense_is_refused_in_words() {
    let host = started();
    create(&host, "bills", "B{n:3}", &[]);
    let create = |name: &str, format: &str, rest: &[&str]| {
        let words = ["series", "create", name, "--format", format];
        refused(&host, &[&words[..], rest].concat())
    };
    for (said, part) in [
        (create("bills", "C{n:3}", &[]), "already exists"),
        (create("others", "B{n:3}", &[]), "already has this format"),
        (create("Bills", "C{n:3}", &[]), "can't name a series"),
        (create("c", "C{n:3}{yyyy}", &[]), "no fixed length"),
        (create("c", "C{MM}-{n:3}", &[]), "so they would repeat"),
        (create("c", "C{n:3}", &["--timezone", "Mars/Olympus"]), "unknown on this host"),
        (create("c", "C{n:3}", &["--tenants-max", "0"]), "tenants_max"),
        (refused(&host, &["series", "next", "nosuch"]), "no series"),
        (refused(&host, &["series", "next", "bills", "--tenant", "x"]), "no {tenant}"),
        (refused(&host, &["series", "account", "nosuch"]), "no series"),
        (refused(&host, &["series", "account", "bills", "2026"]), "the current one is all"),
        (refused(&host, &["series", "account", "bills"]), "doesn't exist"),
        (refused(&host, &["tag", "create", "series/bills/all"]), "such names are reserved"),
        (refused(&host, &["tag", "create", "series.dense/x"]), "such names are reserved"),
    ] {
        assert!(said.contains(part), "{said}");
    }
    let mut raw = host.raw();
    for body in
        [&b""[..], &[1, 0, 0, 0, 0, 0, 0, 0, 9, 0], &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]]
    {
        raw.request(opcode::SERIES_NEXT, 1, body);
        raw.reply().refused(Status::Malformed);
    }
    for count in [0, 1_001] {
        raw.send(&numbers_request(b"bills", count));
        raw.reply().refused(Status::CountInvalid);
    }
    raw.send(&numbers_request(b"\xff/\xff", 1));
    raw.reply().refused(Status::TagUnknown);
}

/// Hides the host's time zones from a command.
const WITHOUT_ZONES: &str = r#"for folder in /usr/share/zoneinfo /usr/share/lib/zoneinfo /etc/zoneinfo; do
    [ ! -d "$folder" ] || mount -t tmpfs tmpfs "$folder" || exit 1
done
exec "$@""#;

/// A daemon in an image that contains only the two programs has none of its host's files.
#[test]
fn time_zones_are_known_where_the_host_has_none() {
    let mut host =
        Host::new().worker(17).runner(&["unshare", "--mount", "sh", "-c", WITHOUT_ZONES, "sh"]);
    host.start();
    // These places are always 25 hours apart, so they never have the same date.
    for (name, zone) in [("east", "Pacific/Kiritimati"), ("west", "Pacific/Pago_Pago")] {
        create(&host, name, &format!("{name}-{{yyyy}}{{MM}}{{dd}}-{{n:1}}"), &["--timezone", zone]);
    }
    let day = |name: &str| {
        let number = host.client().series(name).next().unwrap();
        number[5..13].parse::<u32>().unwrap()
    };
    assert!(day("east") > day("west"));
    let words = ["series", "create", "c", "--format", "C{n:3}", "--timezone", "Mars/Olympus"];
    assert!(refused(&host, &words).contains("unknown on this host"));
}

/// This lets a system package bring new rules.
#[test]
fn the_host_s_time_zones_come_before_the_program_s() {
    let mut host = Host::new().worker(17);
    let zones = host.path("zones");
    fs::create_dir_all(zones.join("Test")).unwrap();
    fs::copy("/usr/share/zoneinfo/Pacific/Kiritimati", zones.join("Test/Zone")).unwrap();
    host.change_variable("TZDIR", zones.to_str().unwrap());
    host.start();
    create(&host, "bills", "B{n:3}", &["--timezone", "Test/Zone"]);
    let words = ["series", "create", "c", "--format", "C{n:3}", "--timezone", "Europe/Berlin"];
    assert!(refused(&host, &words).contains("unknown on this host"));
}

/// The embedded store's clock is the host's clock.
#[test]
fn days_end_and_their_counts_are_deleted_after_the_retention() {
    let (mut host, clock) = WallClock::of(Host::new().worker(17).set("claims_kept", "87600h"));
    host.start();
    create(&host, "days", "D{yyyy}{MM}{dd}-{n:3}", &["--retention-days", "2"]);
    create(&host, "tenants", "T-{tenant}-{yyyy}-{MM}-{dd}-{n:3}", &["--tenants-max", "1"]);
    let draw = |seconds: i64| {
        clock.step(seconds);
        // This query makes the daemon read the clock.
        leafctl(&host, &["series", "list"]);
        let tenants = host.client().series("tenants");
        assert!(tenants.tenant("a").next().unwrap().ends_with("-001"));
        status_of(tenants.tenant("b").next());
        host.client().series("days").next().unwrap()
    };
    const DAY: i64 = 86_400;
    let days = [0, DAY, 4 * DAY].map(draw);
    let mut dates: Vec<&str> = days.iter().map(|text| text.strip_suffix("-001").unwrap()).collect();
    dates.dedup();
    assert_eq!(dates.len(), 3, "{days:?}");
    let date = days[0][1..9].to_owned();
    let period = format!("{}-{}-{}", &date[..4], &date[4..6], &date[6..]);
    let tags = leafctl(&host, &["tag", "list"]);
    assert!(!tags.contains(&format!("series/days/{period}")), "{tags}");
    // Each day has a tag for the admitted tenant, even prepared days, and none for the other tenant.
    assert!(tags.matches("series/tenants/a/").count() >= 3 && !tags.contains("/b/"), "{tags}");
    assert!(refused(&host, &["series", "account", "days", &period]).contains("retention deletes"));
    // The store remembers the last number, so no number is issued twice even if its clock is set back.
    clock.step(0);
    leafctl(&host, &["series", "list"]);
    let again = host.client().series("days").next().unwrap();
    assert!(again.starts_with(dates[0]) && !days.contains(&again), "{again}");
}

const GUIDE: &str = include_str!("../../docs/guide/document-numbers.md");

/// The guide's program in this language.
fn shown(language: &str) -> &'static str {
    let (_, from) = GUIDE.split_once(&format!("```{language}\n")).unwrap();
    from.split_once("```").unwrap().0
}

#[test]
fn the_guide_s_commands_run_as_printed() {
    let host = started();
    let commands = GUIDE.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let programs = leafd_binary().parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-ec", commands]).env("PATH", path).env("LEAFD_SOCKET", host.socket());
    let output = die_with_parent(&mut shell).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let year = year();
    for part in [
        &format!("INV-{year}-000001\n"),
        "ORD-ACME-",
        "-00003\n",
        "(1..1)  issued",
        "Europe/Berlin",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
}

#[test]
fn c_programs_draw_numbers() {
    for way in [Way::Gcc, Way::Asan] {
        let host = started();
        create(&host, "bills", "B{n:4}", &[]);
        create(&host, "orders", "O-{tenant}-{n:3}", &[]);
        let printed = succeed(program(way, "tests/series.c").arg(host.socket()));
        assert_eq!(printed, "series: ok\n", "{way:?}");
    }
    let host = started();
    create(&host, "orders", "O-{tenant}-{n:3}", &[]);
    let source = folder().join("guide-series.c");
    let before = "#include <stdio.h>\n#include <leafd.h>\nint main(int argc, char **argv) { (void)argc;\n\
        leafd_client *client = NULL;\nconst leafd_settings settings = {argv[1], 5000, 0, 0};\n\
        if (leafd_new(&settings, &client, NULL)) { return 1; }\n";
    let after = "printf(\"%s %s\", orders[0], orders[2]);\nleafd_free(client);\nreturn 0;\n}\n";
    fs::write(&source, format!("{before}{}{after}", shown("c"))).unwrap();
    let printed = succeed(program(Way::Gcc, source.to_str().unwrap()).arg(host.socket()));
    assert_eq!(printed, "O-ACME-001 O-ACME-003");
}

/// The guide's example for Rust.
fn as_in_the_guide(client: &Client) -> Result<(String, Vec<String>), Error> {
    let invoice = client.series("invoices").next()?;
    let orders = client.series("orders").tenant("acme").next_batch(3)?;
    Ok((invoice, orders))
}

#[test]
fn the_guide_s_rust_draws_numbers() {
    let host = started();
    create(&host, "invoices", "I{n:3}", &[]);
    create(&host, "orders", "O-{tenant}-{n:3}", &[]);
    let (invoice, orders) = as_in_the_guide(&host.client()).unwrap();
    assert_eq!((&*invoice, &*orders[2]), ("I001", "O-ACME-003"));
    let here = include_str!("series.rs");
    for line in shown("rust").lines() {
        assert!(here.contains(&format!("\n    {line}\n")), "{line}");
    }
}

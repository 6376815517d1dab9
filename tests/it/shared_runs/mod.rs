//! Runs that all processes of a user draw from in memory: each id once and in order, whoever is killed, stopped or
//! hostile, and none after the right to it has ended.

mod clocks;
mod counted;
mod drawers;
mod ends;
mod frozen;
mod journals;
mod no_files;
mod strangers;

use std::time::Duration;

use leafd_client::Client;
use leafd_tests::shared_pages as pages;
use leafd_wire::{ShareReply, Status};

use self::pages::{ask, boot_ns, reply, share};
use crate::host::{Host, eventually};
use crate::raw::Raw;

const SHARED: &str = r#"[{tags = ["orders", "shared.*", "snowflake"], share_uids = [0, 4001]}]"#;

fn sharing() -> Host {
    Host::new().worker(17).set("socket_mode", "0666").set("access", SHARED)
}

fn client(host: &Host) -> Client {
    let client = Client::builder().socket(host.socket()).deadline(Duration::from_secs(30));
    client.shared(true).build().unwrap()
}

fn requests(host: &Host) -> u64 {
    host.status()["requests"].as_u64().unwrap()
}

#[test]
fn clients_of_a_user_draw_from_one_run_without_requests() {
    let mut host = sharing();
    host.start();
    host.create("orders");
    let clients = [client(&host), client(&host)];
    let tags = clients.each_ref().map(|client| client.tag("orders").unwrap());
    let mut last = 0;
    let count = 200_000;
    for turn in 0..count {
        let id = match turn % 4 {
            0 => clients[0].next("orders"),
            1 => tags[0].next(),
            2 => clients[1].next("orders"),
            _ => tags[1].take().map_or_else(|| tags[1].next(), Ok),
        };
        let id = id.unwrap();
        assert!(id > last, "{id} follows {last}");
        last = id;
    }
    let asked = requests(&host);
    assert!(asked < count / 50, "{asked} requests for {count} ids");
    let skipped = last - count;
    assert!(skipped < count / 10, "{skipped} of {last} ids were skipped");
}

#[test]
fn what_is_not_shared_is_drawn_as_before() {
    let mut host = sharing();
    host.start();
    for tag in ["orders", "held"] {
        host.create(tag);
    }
    host.admin(
        leafd_client::opcode::TAG_CREATE,
        &serde_json::json!({ "tag": "shared.strict", "strict": true }),
    );
    let client = client(&host);
    for tag in ["held", "snowflake", "shared.strict"] {
        let mut ids: Vec<u64> = (0..200).map(|_| client.next(tag).unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 200, "{tag}");
    }
    // Held as ever, and not asked about again for each id.
    assert!(requests(&host) < 300, "{}", requests(&host));
    let failure = client.next("shared.nosuch").unwrap_err();
    assert_eq!(failure.status(), Some(Status::TagUnknown), "{failure}");
    let mut raw = host.raw();
    ask(&mut raw, "held", 0, 5_000);
    let (answer, came) = reply(&mut raw);
    assert!(matches!(
        ShareReply::decode(&answer.body),
        Ok(ShareReply::NotShared { again_ms: 1.. })
    ));
    assert!(came.is_empty());
}

#[test]
fn a_page_is_shared_by_all_who_ask_and_said_to_be_the_same() {
    let mut host = sharing();
    host.start();
    host.create("orders");
    let (mut one, mut other) = (host.raw(), host.raw());
    let (first, second) = (share(&mut one, "orders"), share(&mut other, "orders"));
    assert_eq!(first.number, second.number);
    let drawn: Vec<u64> = (0..10).map(|turn| [&first, &second][turn % 2].draw().unwrap()).collect();
    assert_eq!(drawn, (1..=10).collect::<Vec<u64>>());
    ask(&mut one, "orders", first.number, 5_000);
    let (answer, came) = reply(&mut one);
    assert_eq!(ShareReply::decode(&answer.body), Ok(ShareReply::Same { page: first.number }));
    assert!(came.is_empty());
    // Direct draws of others come above all that is published.
    let direct = host.raw().draw("orders", 1)[0];
    assert!(first.draw().unwrap() < direct);
}

#[test]
fn a_quota_holds_for_what_is_shared() {
    let rules = r#"[{tags = ["orders"], share_uids = [0], ids_per_second = 1, burst = 40}]"#;
    let mut host = sharing().set("access", rules);
    host.start();
    host.create("orders");
    let mut raw = host.raw();
    let pages = share(&mut raw, "orders");
    let mut drawn = 0;
    let refused = loop {
        match pages.draw() {
            Some(_) => drawn += 1,
            None => {
                ask(&mut raw, "orders", pages.number, 0);
                let (answer, _) = reply(&mut raw);
                if answer.status() != Status::Ok {
                    break answer;
                }
            }
        }
        assert!(drawn < 200, "the quota is 40 at once");
    };
    let text = refused.refused(Status::Overloaded);
    assert!(text.contains("1 ids/s") && drawn >= 32, "{drawn}: {text}");
}

/// In a time namespace the clock that counts suspend is ahead of the one that doesn't, as it is after a suspend.
#[test]
fn pages_end_by_the_clock_that_counts_suspend() {
    let ahead = ["unshare", "--time", "--boottime", "100000", "--fork", "--kill-child"];
    let mut host = sharing();
    // The daemon is the command's child: what is signalled here is the command.
    host = host.runner(&ahead);
    host.begin();
    let within = Duration::from_secs(30);
    eventually("a daemon answers", within, || Raw::try_connect(&host.socket()));
    host.create("orders");
    let mut raw = host.raw();
    let pages = share(&mut raw, "orders");
    assert_eq!(pages.draw(), None, "by this process's clock the page is of another time");
    eventually("it goes by the clock that is ahead", Duration::from_secs(30), || {
        ask(&mut raw, "orders", pages.number, 20_000);
        reply(&mut raw);
        pages.run.is_open(boot_ns() + 100_000_000_000_000).then_some(())
    });
}

//! Tags that nobody draws leave the daemon's memory. The state directory records exactly which ids of each are left, so
//! the tags return without a gap, even after a crash.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leafd_wire::Status;

use crate::host::{Host, eventually};
use crate::raw::ids_request;
use crate::seed::seeds;

const TAGS: usize = 40;

const WITHIN: Duration = Duration::from_secs(60);

fn name(number: usize) -> String {
    format!("tag-{number}")
}

/// A daemon with many tags that leave its memory after a second.
fn host() -> Host {
    let mut host = Host::new().worker(17).set("tag_idle", "1s");
    host.start();
    let rows: Vec<String> =
        (0..TAGS).map(|number| format!("('{}', 1, 1000)", name(number))).collect();
    let rows = rows.join(", ");
    host.store_sql(&format!("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES {rows}"));
    host
}

fn in_memory(host: &Host) -> u64 {
    host.status()["segments"]["tags_in_use"].as_u64().unwrap()
}

fn wait_until_none_is_in_memory(host: &Host) {
    eventually("every tag leaves memory", WITHIN, || (in_memory(host) == 0).then_some(()));
}

#[test]
fn idle_tags_leave_memory_and_come_back_at_the_next_id() {
    let mut host = host();
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    for crash in [false, true] {
        let client = host.client();
        for number in 0..TAGS {
            let tag = name(number);
            // For some tags, this is more than is marked at once.
            for count in [1, 1 + 37 * (number as u64 % 5)] {
                let ids: Vec<u64> = client.next_batch(&tag, count).unwrap().collect();
                let expected = next.entry(tag.clone()).or_insert(1);
                assert_eq!(ids, (*expected..*expected + count).collect::<Vec<_>>(), "{tag}");
                *expected += count;
            }
        }
        assert!(in_memory(&host) > 0);
        wait_until_none_is_in_memory(&host);
        let issued = host.status()["segments"]["issued"].as_u64().unwrap();
        let skipped = &host.status()["segments"]["skipped"];
        assert!(skipped.as_object().unwrap().values().all(|ids| ids == 0), "{skipped}");
        assert_eq!(issued, next.values().map(|next| next - 1).sum::<u64>());
        if crash {
            host.kill();
            host.start();
        }
    }
    let client = host.client();
    for (tag, next) in &next {
        assert_eq!(client.next_direct(tag).unwrap(), *next, "{tag}, after a crash");
    }
}

#[test]
fn a_quota_that_was_drawn_keeps_its_tag_in_memory() {
    let rules = r#"[{tags = ["tag-0"], ids_per_second = 1, burst = 1000}]"#;
    let mut host = Host::new().worker(17).set("tag_idle", "1s").set("access", rules);
    host.start();
    let mut raw = host.raw();
    for tag in ["tag-0", "tag-1"] {
        host.create(tag);
        assert_eq!(raw.draw(tag, 1_000).len(), 1_000);
    }
    eventually("the other tag leaves memory", WITHIN, || (in_memory(&host) == 1).then_some(()));
    thread::sleep(Duration::from_secs(3));
    assert_eq!(in_memory(&host), 1);
    host.raw().refused(&ids_request("tag-0", 1_000, 1, 1_000), Status::Overloaded);
    host.stop();
}

/// Requests arrive just as their tags leave memory, again and again.
#[test]
fn a_tag_that_is_asked_for_as_it_leaves_memory_gives_no_id_twice() {
    const CALLERS: usize = 8;
    const COMINGS: u64 = 64;
    let host = host();
    let over = AtomicBool::new(false);
    for mut random in seeds(1) {
        let seed = random.u64(..);
        thread::scope(|scope| {
            let callers: Vec<_> = (0..CALLERS)
                .map(|caller| {
                    let (host, over) = (&host, &over);
                    scope.spawn(move || draw_now_and_then(host, seed, caller, over))
                })
                .collect();
            let (mut comings, mut before) = (0, 0);
            eventually("tags leave memory while they are asked for", WITHIN * 2, || {
                let now = in_memory(&host);
                comings += now.abs_diff(before);
                before = now;
                (comings > COMINGS).then_some(())
            });
            over.store(true, Ordering::Relaxed);
            callers.into_iter().for_each(|caller| caller.join().unwrap());
        });
    }
}

/// Draws from the caller's own tags, each about as often as it takes to leave memory, and checks that their ids ascend.
fn draw_now_and_then(host: &Host, seed: u64, caller: usize, over: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(seed ^ caller as u64);
    let client = host.client();
    let own: Vec<String> = (0..4).map(|tag| name(caller * 4 + tag)).collect();
    let mut last = vec![0; own.len()];
    while !over.load(Ordering::Relaxed) {
        for (tag, last) in own.iter().zip(&mut last) {
            let id = client.next_direct(tag).unwrap();
            assert!(id > *last, "{id} of {tag} follows {last}");
            *last = id;
        }
        thread::sleep(Duration::from_millis(random.u64(800..2_600)));
    }
}

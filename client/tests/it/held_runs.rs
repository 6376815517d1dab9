//! Tests held runs: ids are unique, and runs are refilled in time and not held for too long.

use std::thread;
use std::time::{Duration, Instant};

use leafd_client::TAGS_MAX;

use crate::checks::{Random, check_unique, client, direct, until};
use crate::server::Server;

fn draw_in_threads(tag: &str, threads: usize, each: usize) -> usize {
    let server = Server::start();
    let client = client(&server);
    let ids: Vec<Vec<u64>> = thread::scope(|scope| {
        let drawing: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| (0..each).map(|_| client.next(tag).unwrap()).collect()))
            .collect();
        drawing.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    check_unique(ids.into_iter().flatten())
}

#[test]
fn many_threads_share_runs_and_no_id() {
    assert_eq!(draw_in_threads("orders", 8, 100_000), 800_000);
}

#[test]
fn many_threads_share_strided_runs() {
    assert_eq!(draw_in_threads("strided", 4, 20_000), 80_000);
}

#[test]
fn many_threads_share_short_lived_runs() {
    assert_eq!(draw_in_threads("short", 4, 50_000), 200_000);
}

#[test]
fn answers_in_pieces_are_used_whole() {
    assert_eq!(draw_in_threads("pieces", 4, 10_000), 40_000);
}

#[test]
fn ids_that_may_not_be_held_are_requests_each() {
    assert_eq!(draw_in_threads("strict", 4, 500), 2000);
    let server = Server::start();
    let client = client(&server);
    let ids: Vec<u64> = (0..100).map(|_| client.next("strict").unwrap()).collect();
    assert!(ids.is_sorted_by(|a, b| a < b));
    assert_eq!(server.requests_for("strict"), 100);
}

#[test]
fn direct_ids_of_many_threads_are_unique() {
    let server = Server::start();
    server.shared().awake.store(true, std::sync::atomic::Ordering::Relaxed);
    let client = direct(&server);
    let ids: Vec<Vec<u64>> = thread::scope(|scope| {
        let drawing: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let ids: Vec<u64> = (0..1000).map(|_| client.next("orders").unwrap()).collect();
                    assert!(ids.is_sorted_by(|a, b| a < b), "not increasing");
                    ids
                })
            })
            .collect();
        drawing.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(check_unique(ids.into_iter().flatten()), 8000);
    assert_eq!(server.requests_for("orders"), 8000);
}

#[test]
fn a_run_saves_requests() {
    let server = Server::start();
    let client = client(&server);
    let tag = client.tag("orders").unwrap();
    assert_eq!(check_unique((0..1_000_000).map(|_| tag.next().unwrap())), 1_000_000);
    assert!(server.requests_for("orders") < 2000, "{}", server.requests_for("orders"));
}

/// Taking the fourth id of a first run requests the next run. Its answer occupies a request's place until the tag is
/// used again.
#[test]
fn as_many_tags_as_a_client_may_use_leave_places_for_callers() {
    let server = Server::start();
    let client = client(&server);
    let tags: Vec<_> = (0..TAGS_MAX).map(|n| client.tag(&format!("tag-{n}")).unwrap()).collect();
    let mut ids: Vec<u64> =
        tags.iter().flat_map(|tag| [(); 4].map(|()| tag.next().unwrap())).collect();
    // None of the runs requested ahead has been used yet.
    ids.extend(tags[..1_000].iter().map(|tag| client.next_direct(tag.name()).unwrap()));
    let later: Vec<Vec<u64>> = thread::scope(|scope| {
        let drawing: Vec<_> = tags
            .chunks(TAGS_MAX / 4)
            .map(|tags| scope.spawn(|| tags.iter().map(|tag| tag.next().unwrap()).collect()))
            .collect();
        drawing.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let drawn = check_unique(ids.into_iter().chain(later.into_iter().flatten()));
    assert_eq!(drawn, 5 * TAGS_MAX + 1_000);
}

/// The maximum number of concurrent calls is sent, although other connections have answers for runs ahead of use.
#[test]
fn calls_do_not_wait_for_connections_of_runs_ahead() {
    const CALLS: u64 = 32;
    let server = Server::start();
    let client = client(&server);
    for number in 0..40 {
        for _ in 0..4 {
            client.next(&format!("tag-{number}")).unwrap();
        }
    }
    // They are still waiting when the test ends.
    for _ in 0..CALLS {
        let client = client.clone();
        thread::spawn(move || client.within(Duration::from_secs(60)).next_direct("silent"));
    }
    until(|| server.requests_for("silent") == CALLS);
}

#[test]
fn ids_are_dropped_when_their_time_is_over() {
    let server = Server::start();
    let client = client(&server);
    let before = Instant::now();
    let first = client.next("short").unwrap();
    let second = client.next("short").unwrap();
    if before.elapsed() < Duration::from_millis(40) {
        assert_eq!(second, first + 1, "the run of the first id was not used");
    }
    thread::sleep(Duration::from_millis(70));
    // The fixture's counter is above all ids that it issued for holding.
    let mark = client.next_direct("short").unwrap();
    let late = client.next("short").unwrap();
    assert!(late > mark, "{late} was held since before {mark} was drawn");
}

#[test]
fn how_long_ids_may_be_held_counts_from_when_they_were_asked_for() {
    let server = Server::start();
    let client = client(&server);
    // The ids are too old when they arrive, so each call gets one of them, and the rest are skipped.
    let ids: Vec<u64> = (0..3).map(|_| client.next("late").unwrap()).collect();
    check_unique(ids);
    assert_eq!(server.requests_for("late"), 3);
}

/// Draws `count` ids within their hold time, waits until it is over, and draws one more, which must be newer.
fn an_old_one_is_skipped(tag: &str, count: usize) {
    for _ in 0..50 {
        let server = Server::start();
        let client = client(&server);
        let before = Instant::now();
        for _ in 0..count {
            client.next(tag).unwrap();
        }
        if before.elapsed() > Duration::from_millis(25) {
            continue;
        }
        thread::sleep(Duration::from_millis(70));
        let mark = client.next_direct(tag).unwrap();
        let late = client.next(tag).unwrap();
        assert!(late > mark, "{late} was requested before {mark} was drawn");
        return;
    }
    panic!("{count} ids never came within 25 ms");
}

#[test]
fn an_answer_that_nobody_awaited_is_too_old_as_well() {
    // Taking the fourth id of a first run requests the next run.
    an_old_one_is_skipped("short", 4);
}

#[test]
fn a_run_behind_another_grows_old_too() {
    an_old_one_is_skipped("brief", 2);
}

#[test]
fn a_mix_of_everything_is_unique() {
    let server = Server::start();
    let client = client(&server);
    let mut random = Random::new();
    let seeds: Vec<u64> = (0..4).map(|_| random.below(u64::MAX)).collect();
    let ids: Vec<Vec<u64>> = thread::scope(|scope| {
        let drawing: Vec<_> = seeds
            .into_iter()
            .map(|seed| {
                let client = &client;
                let mut random = Random::of(seed);
                scope.spawn(move || {
                    let tags = ["orders", "short", "strict", "pieces", "strided"];
                    let mut ids = Vec::new();
                    for _ in 0..2000 {
                        let tag = tags[random.below(5) as usize];
                        match random.below(4) {
                            0 => ids.push(client.next_direct(tag).unwrap()),
                            1 => {
                                let count = random.below(50);
                                let batch = client.next_batch(tag, count).unwrap();
                                assert_eq!(batch.remaining(), count);
                                ids.extend(batch);
                            }
                            _ => {
                                for _ in 0..random.below(100) {
                                    ids.push(client.next(tag).unwrap());
                                }
                            }
                        }
                    }
                    ids
                })
            })
            .collect();
        drawing.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    check_unique(ids.into_iter().flatten());
}

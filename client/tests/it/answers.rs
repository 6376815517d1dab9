//! Tests answers in any order, batches and pipelines.

use std::thread;
use std::time::{Duration, Instant};

use leafd_client::{COUNT_MAX, Error};

use crate::checks::{check_unique, client, direct};
use crate::server::{SLOW, Server};

#[test]
fn a_tag_that_waits_holds_up_no_other() {
    let server = Server::start();
    let client = direct(&server);
    let mut ids = Vec::new();
    let mut draw = || {
        let start = Instant::now();
        thread::scope(|scope| {
            let slow: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| client.next("slow").map(|id| (id, start.elapsed()))))
                .collect();
            thread::sleep(Duration::from_millis(20));
            ids.extend((0..100).map(|_| client.next("orders").unwrap()));
            let took = start.elapsed();
            for thread in slow {
                let (id, took) = thread.join().unwrap().unwrap();
                assert!(took >= SLOW);
                ids.push(id);
            }
            took
        })
    };
    // A busy machine may be slow once.
    assert!((0..3).any(|_| draw() < SLOW), "each time they waited for the slow tag");
    check_unique(ids);
    let made = server.shared().connections_made.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(made, 5, "one for each call at a time");
}

#[test]
fn threads_that_want_the_same_run_wait_for_it_together() {
    let server = Server::start();
    let mut ids: Vec<u64> = Vec::new();
    let mut draw = || {
        let client = client(&server);
        let start = Instant::now();
        thread::scope(|scope| {
            let drawing: Vec<_> =
                (0..4).map(|_| scope.spawn(|| client.next("slow").unwrap())).collect();
            ids.extend(drawing.into_iter().map(|thread| thread.join().unwrap()));
        });
        assert!(start.elapsed() >= SLOW);
        start.elapsed()
    };
    // A busy machine may be slow once.
    assert!((0..3).any(|_| draw() < 2 * SLOW), "each time they waited for two runs or more");
    check_unique(ids);
}

#[test]
fn batches_of_any_size_are_complete_and_in_order() {
    let server = Server::start();
    let client = client(&server);
    let sizes = [0, 1, 2, 1000, u64::from(COUNT_MAX), u64::from(COUNT_MAX) + 1, 5_500_001];
    for count in sizes {
        let ids = client.next_batch("orders", count).unwrap();
        assert_eq!(ids.remaining(), count);
        let ids: Vec<u64> = ids.collect();
        assert_eq!(ids.len() as u64, count);
        assert_eq!(check_unique(ids.iter().copied()) as u64, count);
        assert!(ids.is_sorted());
    }
}

#[test]
fn a_batch_beyond_the_limit_is_refused_without_a_request() {
    let server = Server::start();
    let error = client(&server).next_batch("orders", leafd_client::BATCH_MAX + 1).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error:?}");
    assert_eq!(server.requests_for("orders"), 0);
}

#[test]
fn large_answers_arrive_whole() {
    let server = Server::start();
    // Runs of three: 640 KiB in one frame.
    let ids = client(&server).next_batch("pieces", 120_000).unwrap();
    assert_eq!(check_unique(ids), 120_000);
}

#[test]
fn a_pipeline_gives_answers_as_they_come() {
    let server = Server::start();
    let client = client(&server);
    let mut pipeline = client.pipeline();
    assert_eq!(pipeline.push("slow", 1).unwrap(), 0);
    for number in 1..=200 {
        assert_eq!(pipeline.push("orders", 2).unwrap(), number);
    }
    assert_eq!(pipeline.push("unknown", 1).unwrap(), 201);
    assert_eq!(pipeline.outstanding(), 202);
    let mut order = Vec::new();
    let mut ids = Vec::new();
    while let Some(answer) = pipeline.answer() {
        order.push(answer.request);
        match answer.ids {
            Ok(of_answer) => ids.extend(of_answer),
            Err(Error::Service { .. }) => assert_eq!(answer.request, 201),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(order.last(), Some(&0), "the slow one comes last");
    order.sort_unstable();
    assert_eq!(order, (0..202).collect::<Vec<u64>>());
    assert_eq!(check_unique(ids), 401);
    assert_eq!(pipeline.outstanding(), 0);
}

#[test]
fn more_than_the_socket_takes_can_be_pipelined() {
    let server = Server::start();
    let client = client(&server);
    let mut pipeline = client.within(Duration::from_secs(20)).pipeline();
    let other = client.clone();
    let stop = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let others = scope.spawn(|| {
            let mut ids = Vec::new();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                ids.push(other.next_direct("others").unwrap());
            }
            ids
        });
        for _ in 0..50_000 {
            pipeline.push("orders", 1).unwrap();
        }
        pipeline.flush().unwrap();
        let mut ids = Vec::new();
        while let Some(answer) = pipeline.answer() {
            ids.extend(answer.ids.unwrap());
        }
        assert_eq!(ids.len(), 50_000);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        ids.extend(others.join().unwrap());
        check_unique(ids);
    });
}

#[test]
fn a_dropped_pipeline_leaves_nothing_behind() {
    let server = Server::start();
    let client = client(&server);
    let mut ids = Vec::new();
    for _ in 0..50 {
        let mut pipeline = client.pipeline();
        for _ in 0..10 {
            pipeline.push("orders", 1).unwrap();
        }
        ids.extend(pipeline.answer().unwrap().ids.unwrap());
        drop(pipeline);
        ids.push(client.next_direct("orders").unwrap());
    }
    assert_eq!(check_unique(ids), 100);
}

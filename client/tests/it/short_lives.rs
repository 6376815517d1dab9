//! Tests what short-lived processes skip, and clients that draw a few ids of very many tags.

use crate::checks::{check_unique, client};
use crate::server::Server;
use leafd_client::TAGS_MAX;

#[test]
fn a_process_that_draws_few_ids_skips_fewer_than_it_draws() {
    let server = Server::start();
    let mut drawn = Vec::new();
    for count in 1..=50 {
        let client = client(&server);
        drawn.extend((0..count).map(|_| client.next("orders").unwrap()));
        // All requests ahead have been answered once this one is.
        drawn.push(client.next_direct("orders").unwrap());
    }
    let count = check_unique(drawn) as u64;
    let skipped = server.given() - count;
    println!("{skipped} skipped for {count}, by {} requests", server.requests_for("orders"));
    assert!(skipped * 100 <= count * 65, "{skipped} skipped for {count} drawn");
}

/// Each tag's next run is requested ahead, and never used.
#[test]
fn runs_that_nobody_takes_leave_room_for_requests_of_others() {
    let server = Server::start();
    let client = client(&server);
    let mut ids = Vec::new();
    let draw = |ids: &mut Vec<u64>, tags: usize| {
        for tag in (0..tags).map(|tag| format!("tag{tag}")) {
            ids.extend((0..4).map(|_| client.next(&tag).unwrap()));
        }
    };
    draw(&mut ids, TAGS_MAX);
    ids.extend((0..100).map(|tag| client.next_direct(&format!("tag{tag}")).unwrap()));
    ids.extend(client.next_batch("tag0", 1_000).unwrap());
    draw(&mut ids, 1_000);
    assert_eq!(check_unique(ids), 4 * TAGS_MAX + 4 * 1_000 + 1_100);
}

//! The power fails while the real daemon serves: journal and store contain only what was synced, and still no id is
//! issued twice. With syncs that do nothing, some must be; otherwise the test proves nothing.

use std::collections::HashSet;
use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::host::Host;
use crate::power::{Mode, PowerLoss};
use crate::raw::{Raw, ids_request};
use crate::seed::seeds;

const ROUNDS: u32 = 12;

/// The outcome of the rounds.
#[derive(Debug, Default)]
struct Outcome {
    issued: HashSet<u64>,
    twice: u64,
    /// Starts that were refused, and tags that were lost.
    refused: Vec<String>,
}

/// Draws until the daemon is killed, and records the ids.
fn draw(host: &mut Host, time: Duration, outcome: &mut Outcome) {
    let socket = host.socket();
    let end = Instant::now() + time;
    let drawing: Vec<_> = ["orders", "hot", "snowflake"]
        .into_iter()
        .map(|tag| {
            let mut raw = Raw::connect(&socket);
            std::thread::spawn(move || {
                let mut ids = Vec::new();
                let mut refused = None;
                for request in 0.. {
                    let count = if tag == "hot" { 3_000 } else { 1 + request % 90 };
                    let sent = raw.stream.write_all(&ids_request(tag, count, 1, 5_000));
                    match sent.and_then(|()| raw.try_reply()) {
                        Err(_) => break,
                        Ok(reply) if reply.header.status == 0 => ids.extend(reply.ids()),
                        Ok(reply) => {
                            refused = Some(format!("{tag}: {}", reply.text()));
                            break;
                        }
                    }
                    // Marks move often enough at this rate; more ids would only take longer to compare.
                    std::thread::sleep(Duration::from_micros(500));
                }
                (ids, refused)
            })
        })
        .collect();
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
    host.kill();
    for thread in drawing {
        let (ids, refused) = thread.join().unwrap();
        outcome.refused.extend(refused);
        for id in ids {
            outcome.twice += u64::from(!outcome.issued.insert(id));
        }
    }
}

fn rounds(mode: Mode) -> Outcome {
    let mut outcome = Outcome::default();
    for mut random in seeds(1) {
        let mut host = Host::new().worker(17);
        fs::create_dir(host.state_dir()).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let power = PowerLoss::of(&host.state_dir(), scratch.path()).unwrap();
        // The tags' ids are far from each other and from snowflake ids, so one set can hold them all.
        host.watch(&power, Mode::Sync);
        host.start();
        for (tag, start) in [("orders", 1u64), ("hot", 1_000_000_000_000)] {
            let body = serde_json::json!({ "tag": tag, "start": start, "step": 50 });
            host.admin(leafd_wire::opcode::TAG_CREATE, &body);
        }
        for round in 0..ROUNDS {
            draw(&mut host, Duration::from_micros(random.u64(20_000..300_000)), &mut outcome);
            power.fail().unwrap();
            host.watch(&power, if round == 0 { Mode::Sync } else { mode });
            if let Err(refusal) = host.try_start() {
                outcome.refused.push(refusal.said);
                break;
            }
        }
    }
    println!(
        "{mode:?}: {} ids, {} twice, refused: {:?}",
        outcome.issued.len(),
        outcome.twice,
        outcome.refused
    );
    outcome
}

#[test]
fn no_id_is_given_twice_when_the_power_fails() {
    let outcome = rounds(Mode::Sync);
    assert_eq!(outcome.twice, 0);
    assert_eq!(outcome.refused, Vec::<String>::new());
    assert!(outcome.issued.len() > 10_000, "hardly anything was drawn");
}

#[test]
fn without_syncs_ids_are_given_twice_and_this_test_sees_it() {
    let outcome = rounds(Mode::NoSync);
    assert!(outcome.twice > 0 || !outcome.refused.is_empty());
}

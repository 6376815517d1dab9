//! How many claims a tag costs as its rate grows a thousandfold: one in the time of `autonomy`, and above the rate at
//! which `max_step` caps a claim, one for each `max_step` ids.

use std::ops::Range;
use std::time::{Duration, Instant};

use leafd_client::Client;

use super::strict::claims;
use super::{Database, Plan, Section};
use crate::host::Host;
use crate::servers::Postgres;

/// Ids a second, each of a tag and daemon of its own.
const RATES: [u64; 7] = [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000];

/// The defaults, 10 min and 10,000,000, three hundred times smaller: they cap at the same rate.
const AUTONOMY: Duration = Duration::from_secs(2);
const STEP_MAX: u64 = 33_333;

/// How long until a tag's claims follow its rate.
const SETTLES: u32 = 3;

/// How many `autonomy` are measured.
const MEASURED: u32 = 4;

/// Between two batches.
const PAUSE: Duration = Duration::from_millis(10);

const TAG: &str = "steady";

pub(super) fn measure(plan: &Plan, server: &Postgres) -> Vec<Section> {
    let mut section = Section::new(
        "rate",
        "Writes to the store as a tag's rate grows; autonomy and max_step are 300 times smaller than their defaults",
        &["ids/s", "claims an autonomy", "by the model", "writes a million ids"],
    );
    let rates: Vec<u64> = RATES.into_iter().filter(|rate| *rate <= plan.rate_max).collect();
    let settings = [("autonomy", "2s"), ("max_step", "33333")];
    let hosts = Database::new(server).hosts(rates.len(), &settings);
    hosts[0].create(TAG);
    let mut ranges = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = hosts
            .iter()
            .zip(&rates)
            .map(|(host, rate)| scope.spawn(move || one(host, *rate)))
            .collect();
        for (thread, rate) in threads.into_iter().zip(&rates) {
            let Drawn { ids, claimed, seconds, ranges: of_host } = thread.join().unwrap();
            ranges.extend(of_host);
            let row = format!("{rate} ids/s");
            let autonomies = seconds / AUTONOMY.as_secs_f64();
            section.put(&row, "ids/s", ids / seconds);
            section.put(&row, "claims an autonomy", claimed / autonomies);
            let needed = ids / autonomies / STEP_MAX as f64;
            section.put(&row, "by the model", needed.max(1.0));
            section.put(&row, "writes a million ids", claimed / ids * 1e6);
        }
    });
    ranges.sort_unstable_by_key(|range| range.start);
    let twice = ranges.windows(2).find(|pair| pair[0].end > pair[1].start);
    assert_eq!(twice, None, "ids came twice");
    vec![section]
}

/// What was drawn while it was measured.
struct Drawn {
    ids: f64,
    claimed: f64,
    seconds: f64,
    /// Every id, those before included.
    ranges: Vec<Range<u64>>,
}

/// Draws at this rate.
fn one(host: &Host, rate: u64) -> Drawn {
    let client =
        Client::builder().socket(host.socket()).deadline(Duration::from_secs(30)).build().unwrap();
    let begun = Instant::now();
    let (mut drawn, mut from) = (0, None);
    let mut ranges: Vec<Range<u64>> = Vec::new();
    loop {
        let elapsed = begun.elapsed();
        if from.is_none() && elapsed >= AUTONOMY * SETTLES {
            from = Some((drawn, claims(std::slice::from_ref(host)), elapsed));
        }
        if let Some((drawn_before, claims_before, since)) = from
            && elapsed >= AUTONOMY * (SETTLES + MEASURED)
        {
            let claimed = claims(std::slice::from_ref(host)) - claims_before;
            return Drawn {
                ids: (drawn - drawn_before) as f64,
                claimed: claimed as f64,
                seconds: (elapsed - since).as_secs_f64(),
                ranges,
            };
        }
        let due = (elapsed.as_secs_f64() * rate as f64) as u64;
        if due > drawn {
            for id in client.next_batch(TAG, due - drawn).unwrap() {
                drawn += 1;
                match ranges.last_mut() {
                    Some(last) if last.end == id => last.end += 1,
                    _ => ranges.push(id..id + 1),
                }
            }
        }
        std::thread::sleep(PAUSE);
    }
}

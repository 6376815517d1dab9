//! How many claims a tag costs as its rate grows a thousandfold: one per `autonomy`; above the rate at which
//! `max_step` caps a claim, one per `max_step` ids.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use leafd_tests::host::Host;

use super::{Bench, Database, claims_of, client};
use crate::duplicates::{Span, spans_of};
use crate::report::Section;
use crate::stop;

/// Ids per second, each rate with a tag and a daemon of its own.
const RATES: [u64; 7] = [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000];

/// How many of them `--smoke` measures.
const SMOKE_RATES: usize = 3;

/// The defaults, 10 min and 10,000,000, divided by three hundred: they cap at the same rate.
const AUTONOMY: Duration = Duration::from_secs(2);
const STEP_MAX: u64 = 33_333;

/// How many `autonomy` it takes until a tag's claims follow its rate.
const SETTLES: u32 = 3;

/// How many `autonomy` are measured.
const MEASURED: u32 = 4;

/// The pause between two batches.
const PAUSE: Duration = Duration::from_millis(10);

const TAG: &str = "steady";

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Section>> {
    let about = "Writes to the store as a tag's rate grows; autonomy and max_step are 300 times smaller than their defaults";
    let columns = ["ids/s", "claims an autonomy", "by the model", "writes a million ids"];
    let mut section = Section::new("rate", about.to_owned(), &columns);
    let rates = if bench.smoke { &RATES[..SMOKE_RATES] } else { &RATES };
    let settings = [("autonomy", "2s"), ("max_step", "33333")];
    let database = Database::new(&bench.server);
    let hosts = database.hosts(rates.len(), &settings);
    hosts[0].create(TAG);
    let drawn: Vec<Drawn> = std::thread::scope(|scope| {
        let threads: Vec<_> = hosts
            .iter()
            .zip(rates)
            .map(|(host, rate)| scope.spawn(move || draw(host, *rate)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|drawn| drawn.map_err(|_| anyhow!("a thread panicked"))?).collect::<Result<_>>()
    })?;
    for (Drawn { ids, claimed, seconds, spans }, rate) in drawn.into_iter().zip(rates) {
        let row = format!("{rate} ids/s");
        let autonomies = seconds / AUTONOMY.as_secs_f64();
        section.put(&row, "ids/s", ids / seconds);
        section.put(&row, "claims an autonomy", claimed / autonomies);
        let needed = ids / autonomies / STEP_MAX as f64;
        section.put(&row, "by the model", needed.max(1.0));
        section.put(&row, "writes a million ids", claimed / ids * 1e6);
        bench.duplicates.add(&format!("{}/{TAG}", database.name), spans)?;
    }
    Ok(vec![section])
}

/// What was drawn during the measurement.
struct Drawn {
    ids: f64,
    claimed: f64,
    seconds: f64,
    /// Every id, including those before the measurement.
    spans: Vec<Span>,
}

/// Draws at this rate.
fn draw(host: &Host, rate: u64) -> Result<Drawn> {
    let client = client(host)?;
    let begun = Instant::now();
    let (mut drawn, mut from) = (0, None);
    let mut spans: Vec<Span> = Vec::new();
    loop {
        stop::check()?;
        let elapsed = begun.elapsed();
        if from.is_none() && elapsed >= AUTONOMY * SETTLES {
            from = Some((drawn, claims_of(std::slice::from_ref(host))?, elapsed));
        }
        if let Some((drawn_before, claims_before, since)) = from
            && elapsed >= AUTONOMY * (SETTLES + MEASURED)
        {
            let claimed = claims_of(std::slice::from_ref(host))? - claims_before;
            return Ok(Drawn {
                ids: (drawn - drawn_before) as f64,
                claimed: claimed as f64,
                seconds: (elapsed - since).as_secs_f64(),
                spans,
            });
        }
        let due = (elapsed.as_secs_f64() * rate as f64) as u64;
        if due > drawn {
            let mut ids: Vec<u64> = client.next_batch(TAG, due - drawn)?.collect();
            drawn = due;
            spans.extend(spans_of(&mut ids));
        }
        std::thread::sleep(PAUSE);
    }
}

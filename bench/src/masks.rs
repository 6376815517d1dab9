//! What it takes the daemon to mask an id and to read a masked one: computing alone, without the way there.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use leafd_core::Tag;
use leafd_core::mask::{KeyNumber, Mask, MaskBits, MaskKey};

use crate::report::{Report, Section};
use crate::{Plan, progress, stop};

const NAME: &str = "masks: public ids of dense numbers";

const ROUNDS: u32 = 5;
const TIME: Duration = Duration::from_millis(100);

const MASK: &str = "mask, ns";
const UNMASK: &str = "unmask, ns";

/// Rows by how many ids a batch has.
const ROWS: [(usize, &str); 3] =
    [(1, "one id"), (8, "each of a batch of 8"), (100, "each of a batch of 100")];

/// What can be asked for.
pub(crate) fn names() -> Vec<String> {
    vec![NAME.to_owned()]
}

/// Measures them if they are wanted.
///
/// # Errors
/// The user's wish to end.
pub(crate) fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    if !plan.wants(NAME) {
        return Ok(());
    }
    let tag = Tag::parse(b"orders").context("it is a tag")?;
    let key = MaskKey::new(KeyNumber::FIRST, b"it is only timed");
    let mask = Mask::new(&key, &tag, MaskBits::MAX);
    let (rounds, time) = (plan.rounds(ROUNDS), plan.time(TIME));
    let about = format!("What FF1 takes for 63 bits: medians of {rounds} rounds");
    let mut section = Section::new("masks", about, &[MASK, UNMASK]);
    for round in 1..=rounds {
        progress(&format!("{round}/{rounds} {NAME}"));
        for (count, row) in ROWS {
            section.put(row, MASK, ns_each(count, time, |ids| mask.mask_all(ids))?);
            section.put(row, UNMASK, ns_each(count, time, |ids| mask.unmask_all(ids))?);
            stop::check()?;
        }
    }
    report.sections.push(section);
    Ok(())
}

/// Nanoseconds an id of a batch, over so long.
fn ns_each<E>(
    count: usize,
    time: Duration,
    mut each: impl FnMut(&mut [u64]) -> Result<(), E>,
) -> Result<f64>
where
    Result<(), E>: anyhow::Context<(), E>,
{
    /// Batches between two looks at the clock.
    const BATCHES: u32 = 100;
    let mut ids: Vec<u64> = (1..).take(count).collect();
    let (began, mut batches) = (Instant::now(), 0u32);
    while began.elapsed() < time {
        for _ in 0..BATCHES {
            each(black_box(&mut ids)).context("what a mask yields is masked again")?;
        }
        batches += BATCHES;
    }
    Ok(began.elapsed().as_nanos() as f64 / f64::from(batches) / count as f64)
}

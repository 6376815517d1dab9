//! What it takes the daemon to mask an id and to read a masked one: computing alone, and a client's call for it.

use std::fs;
use std::hint::black_box;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use leafd_client::{Client, PublicIds};
use leafd_core::Tag;
use leafd_core::mask::{KeyNumber, Mask, MaskBits, MaskKey};

use crate::host::daemon::{OwnDaemon, new_dir};
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

const NUMBERS: &str = "numbers, us";
const TEXTS: &str = "texts, us";

/// Rows of calls, by how many ids one asks about.
const CALLS: [(usize, &str); 2] = [(1, "mask one id"), (100, "mask a page of 100")];
const BACK: [(usize, &str); 2] = [(1, "unmask one id"), (100, "unmask a page of 100")];

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
    report.sections.push(calls(rounds, time)?);
    Ok(())
}

/// What calls take that ask a daemon of the bench's own.
fn calls(rounds: u32, time: Duration) -> Result<Section> {
    let dir = new_dir()?;
    let keys = dir.path().join("mask_keys");
    fs::write(&keys, "1 000102030405060708090a0b0c0d0e0f\n").context("cannot write the keys")?;
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600))
        .context("cannot hide the keys")?;
    let setting = format!("mask_key_file={}", keys.display());
    let daemon = OwnDaemon::start_with(dir.path(), &[&setting])?;
    let client = Client::connect(daemon.socket())?;
    let orders = client.public_ids("orders").prefix("ord");
    let about =
        format!("What a call takes that asks the daemon, back to back: medians of {rounds} rounds");
    let mut section = Section::new("masks asked for", about, &[NUMBERS, TEXTS]);
    for round in 1..=rounds {
        progress(&format!("{round}/{rounds} {NAME}, asked for"));
        for ((count, row), (_, back)) in CALLS.into_iter().zip(BACK) {
            let ids: Vec<u64> = (1..).take(count).collect();
            let (numbers, shown) = (orders.mask(&ids)?, orders.mask_text(&ids)?);
            section.put(row, NUMBERS, us_a_call(&orders, time, |orders| orders.mask(&ids))?);
            section.put(row, TEXTS, us_a_call(&orders, time, |orders| orders.mask_text(&ids))?);
            section.put(back, NUMBERS, us_a_call(&orders, time, |orders| orders.unmask(&numbers))?);
            section.put(
                back,
                TEXTS,
                us_a_call(&orders, time, |orders| orders.unmask_text(&shown))?,
            );
            stop::check()?;
        }
    }
    daemon.process.stop()?;
    Ok(section)
}

/// Microseconds a call, over so long.
fn us_a_call<'a, T>(
    orders: &PublicIds<'a>,
    time: Duration,
    call: impl Fn(&PublicIds<'a>) -> Result<T, leafd_client::Error>,
) -> Result<f64> {
    let (began, mut calls) = (Instant::now(), 0u32);
    while began.elapsed() < time {
        black_box(call(orders)?);
        calls += 1;
    }
    Ok(began.elapsed().as_nanos() as f64 / 1_000.0 / f64::from(calls))
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
    /// Ids between two looks at the clock.
    const IDS: usize = 800;
    let at_a_time = (IDS / count) as u32;
    let mut ids: Vec<u64> = (1..).take(count).collect();
    let (began, mut batches) = (Instant::now(), 0u32);
    while began.elapsed() < time {
        for _ in 0..at_a_time {
            each(black_box(&mut ids)).context("what a mask yields is masked again")?;
        }
        batches += at_a_time;
    }
    Ok(began.elapsed().as_nanos() as f64 / f64::from(batches) / count as f64)
}

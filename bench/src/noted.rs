//! What direct draws pay for the note of which process drew them: ids of one daemon that notes draws and of one that does
//! not, in turn.

use std::time::{Duration, Instant};

use anyhow::Result;
use leafd_client::Client;

use crate::duplicates::{Duplicates, spans_of};
use crate::host::daemon::{OwnDaemon, new_dir};
use crate::report::{Report, Section};
use crate::{Plan, progress, stop};

const NAME: &str = "noted: who draws";

const ROUNDS: u32 = 9;
const TIME: Duration = Duration::from_millis(500);

/// Requests that are sent before the first answer is read.
const PIPELINED_BY: usize = 100;

/// Rows, and the setting that makes them: noted twice, which tells by how much two runs differ by themselves.
const ROWS: [(&str, &str); 3] = [
    ("noted", "draws_kept=32768"),
    ("not noted", "draws_kept=0"),
    ("noted, another daemon", "draws_kept=32768"),
];

const ALONE: &str = "back to back, ns/id";
const PIPELINED: &str = "pipelined by 100, ns/id";
/// Draws of two tags in turn, of which none continues the last one's entry.
const APART: &str = "pipelined, two tags in turn, ns/id";

const TAGS: [&str; 2] = ["noted-0", "noted-1"];

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    vec![NAME.to_owned()]
}

/// Measures it if it is selected.
///
/// # Errors
/// A daemon can't be started or doesn't answer; the user stops the run.
pub(crate) fn measure(plan: &Plan, duplicates: &mut Duplicates, report: &mut Report) -> Result<()> {
    if !plan.wants(NAME) {
        return Ok(());
    }
    let (rounds, time) = (plan.rounds(ROUNDS), plan.time(TIME));
    let mut daemons = Vec::new();
    for (row, setting) in ROWS {
        let dir = new_dir()?;
        let daemon = OwnDaemon::start_with(dir.path(), &[setting])?;
        let client = Client::connect(daemon.socket())?;
        for tag in TAGS {
            daemon.create_tag(&client, tag)?;
        }
        daemons.push((row, daemon, client, dir));
    }
    let about = format!(
        "Ids drawn directly, with and without a note of the process (draws_kept): medians of {rounds} rounds"
    );
    let mut section = Section::new("noted", about, &[ALONE, PIPELINED, APART]);
    let one_by_one = |client: &Client, ids: &mut [Vec<u64>; 2]| {
        ids[0].push(client.next_direct(TAGS[0])?);
        Ok(())
    };
    for round in 1..=rounds {
        for (row, _, client, _) in &daemons {
            progress(&format!("{round}/{rounds} {NAME}: {row}"));
            let mut ids = [Vec::new(), Vec::new()];
            section.put(row, ALONE, ns_an_id(client, time, &mut ids, one_by_one)?);
            section.put(
                row,
                PIPELINED,
                ns_an_id(client, time, &mut ids, |client, ids| pipelined(client, &[0], ids))?,
            );
            section.put(
                row,
                APART,
                ns_an_id(client, time, &mut ids, |client, ids| pipelined(client, &[0, 1], ids))?,
            );
            for (tag, ids) in TAGS.iter().zip(&mut ids) {
                duplicates.add(&format!("{row}/{tag}"), spans_of(ids))?;
            }
        }
    }
    report.sections.push(section);
    daemons.into_iter().try_for_each(|(_, daemon, ..)| daemon.process.stop())
}

/// Asks again and again for so long.
fn ns_an_id(
    client: &Client,
    time: Duration,
    ids: &mut [Vec<u64>; 2],
    draw: impl Fn(&Client, &mut [Vec<u64>; 2]) -> Result<()>,
) -> Result<f64> {
    draw(client, ids)?;
    let count = |ids: &[Vec<u64>; 2]| ids.iter().map(Vec::len).sum::<usize>();
    let (before, begun) = (count(ids), Instant::now());
    while begun.elapsed() < time {
        stop::check()?;
        draw(client, ids)?;
    }
    Ok(begun.elapsed().as_nanos() as f64 / (count(ids) - before) as f64)
}

/// Many requests, of these tags in turn, before the first answer is read.
fn pipelined(client: &Client, tags: &[usize], ids: &mut [Vec<u64>; 2]) -> Result<()> {
    let mut pipeline = client.pipeline();
    for tag in tags.iter().copied().cycle().take(PIPELINED_BY) {
        pipeline.push(TAGS[tag], 1)?;
    }
    while let Some(answer) = pipeline.answer() {
        // Requests are numbered from 0.
        let turn = usize::try_from(answer.request)? % tags.len();
        ids[tags[turn]].extend(answer.ids?);
    }
    Ok(())
}

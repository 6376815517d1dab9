//! The power fails at random instants while a process moves marks as fast as it can: no mark that the
//! journal acknowledged is lost. The same with syncs that do nothing must lose some, or this proves
//! nothing.
//!
//! The writing process is this test binary itself, run once more with a variable set.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

#[path = "../../tests/power/mod.rs"]
mod power;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use leafd::id::{Tag, UnixMs};
use leafd::journal::{Identity, Journal, LayoutRecord, Write};
use leafd::state_dir::StateDir;
use leafd::store::{Generation, StoreId};
use leafd_wire::Layout;
use power::{Mode, PowerLoss};

/// Tells the process that it is the one that writes, and where.
const WRITE_TO: &str = "LEAFD_TEST_WRITE_TO";

/// Numbers in a segment: small, so that segments are often begun and used up.
const SEGMENT: u64 = 1_000;

const TAGS: [&str; 3] = ["a", "b", "c"];

/// What a writer said: the first number not certain to be unused, by tag (or the layout's bound).
type Said = BTreeMap<String, u64>;

// === The process that writes ===

/// Not a test by itself: the writer's main function when [`WRITE_TO`] is set.
#[test]
fn writer() {
    let Some(dir) = std::env::var_os(WRITE_TO).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(write_for_ever(&dir));
}

/// Says `found NAME NUMBER` for what it finds and `acked NAME NUMBER` for what was acknowledged.
async fn write_for_ever(dir: &Path) {
    let identity = Identity::of_host(Path::new("/dev/null"), Some("power"));
    let dir = StateDir::open(dir).unwrap();
    let (journal, recovered) = Journal::open(&dir, &identity).unwrap();
    assert_eq!(recovered.set_aside, None, "the journal passes for a copy");
    let name = |text: &str| Tag::parse(text.as_bytes()).unwrap();
    let store = StoreId("store".into());

    let mut bound = recovered.layouts.first().map_or(0, |layout| layout.bound.0);
    say("found", &[("snowflake", bound)]);
    // By tag: the next number, and the end of its segment.
    let mut marks = Vec::new();
    for text in TAGS {
        let record = journal.tag(&store, &name(text)).await.unwrap().unwrap_or_default();
        assert!(record.unissued.len() <= 1, "{record:?}");
        let mark = record.unissued.first().map_or(record.highest_end.max(1), |range| range.start);
        say("found", &[(text, mark)]);
        marks.push((text, mark, record.unissued.first().map(|range| range.end)));
    }
    for step in 1.. {
        let mut batch = Vec::new();
        for (text, mark, end) in &mut marks {
            let (store, tag, generation) = (store.clone(), name(text), Generation(1));
            match *end {
                Some(last) => {
                    *mark = (*mark + step % 97 + 1).min(last);
                    batch.push(Write::Mark { store, tag, end: last, mark: *mark });
                    *end = (*mark < last).then_some(last);
                }
                None => {
                    let numbers = *mark..*mark + SEGMENT;
                    *end = Some(numbers.end);
                    *mark += 1;
                    batch.push(Write::Segment { store, tag, generation, numbers, mark: *mark });
                }
            }
        }
        bound += 1;
        let record =
            LayoutRecord { name: name("snowflake"), layout: Layout::LEAF, bound: UnixMs(bound) };
        batch.push(Write::Bound(record));
        journal.commit(batch).await.unwrap();
        let mut said: Vec<_> = marks.iter().map(|(text, mark, _)| (*text, *mark)).collect();
        said.push(("snowflake", bound));
        say("acked", &said);
    }
}

/// One write to the pipe for all lines, so that a kill cuts between acknowledgements.
fn say(what: &str, numbers: &[(&str, u64)]) {
    let lines: String =
        numbers.iter().map(|(name, number)| format!("{what} {name} {number}\n")).collect();
    std::io::stdout().write_all(lines.as_bytes()).unwrap();
    std::io::stdout().flush().unwrap();
}

// === The tests ===

#[test]
fn no_acknowledged_mark_is_lost_when_the_power_fails() {
    let losses = rounds(Mode::Sync, 40, seed());
    assert!(losses.is_empty(), "{losses:#?}");
}

#[test]
fn without_syncs_marks_are_lost_and_this_test_sees_it() {
    let losses = rounds(Mode::NoSync, 4, seed());
    assert!(!losses.is_empty());
}

/// `LEAFD_TEST_SEED` repeats a run as far as timing lets it.
fn seed() -> u64 {
    std::env::var("LEAFD_TEST_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..))
}

/// Lets the power fail again and again; returns every mark that was acknowledged and then not found.
fn rounds(mode: Mode, rounds: u32, seed: u64) -> Vec<String> {
    println!("{mode:?}: LEAFD_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("state");
    std::fs::create_dir(&dir).unwrap();
    let power = PowerLoss::of(&dir, scratch.path()).unwrap();
    let (mut acked, mut losses) = (Said::new(), Vec::new());
    for round in 0..=rounds {
        // The first round syncs in any case, so that there is something to lose marks of.
        let mode = if round == 0 { Mode::Sync } else { mode };
        let time = Duration::from_micros(random.u64(3_000..150_000));
        let (found, acked_now) = write_and_kill(&power, &dir, mode, time);
        for (name, number) in &acked {
            // It may have been killed before it said what it found.
            if let Some(found) = found.get(name).filter(|found| *found < number) {
                losses.push(format!("round {round}: {name} was acked {number}, found {found}"));
            }
        }
        acked.extend(found);
        acked.extend(acked_now);
        power.fail().unwrap();
    }
    println!("{mode:?}: acknowledged at last {acked:?}");
    assert!(acked.get("snowflake").is_some_and(|bound| *bound > 10), "hardly anything was written");
    losses
}

fn write_and_kill(power: &PowerLoss, dir: &Path, mode: Mode, time: Duration) -> (Said, Said) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["writer", "--exact", "--nocapture"]).env(WRITE_TO, dir).stdout(Stdio::piped());
    let mut child = power.watch(&mut command, mode).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        let (mut found, mut acked) = (Said::new(), Said::new());
        for line in output.lines().map_while(Result::ok) {
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["found", name, number] => found.insert(name.to_owned(), number.parse().unwrap()),
                ["acked", name, number] => acked.insert(name.to_owned(), number.parse().unwrap()),
                _ => None,
            };
        }
        (found, acked)
    });
    std::thread::sleep(time);
    let ended = child.try_wait().unwrap();
    assert_eq!(ended, None, "the writer ended by itself; see its words above");
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

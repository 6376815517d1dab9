//! The power fails at random instants while a process moves marks as fast as it can: no mark that the
//! journal acknowledged is lost. The same with syncs that do nothing must lose some, or this proves
//! nothing.
//!
//! The writing process is this test binary itself, run once more with a variable set.
#![allow(clippy::unwrap_used)]

#[path = "../../tests/power/mod.rs"]
mod power;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leafd::journal::{Identity, Journal, LayoutRecord, Outside, Write};
use leafd::state_dir::StateDir;
use leafd_core::store::{Generation, StoreId};
use leafd_core::{Tag, UnixMs};
use leafd_wire::{Layout, Run};
use power::{Mode, PowerLoss};

/// Tells the process that it is the one that writes, and where.
const WRITE_TO: &str = "LEAFD_TEST_WRITE_TO";

/// Numbers in a segment: small, so that segments are often begun and used up.
const SEGMENT: u32 = 1_000;

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
    let identity = Identity::in_root(dir, Some("power"));
    let dir = StateDir::open(dir).unwrap();
    // The machine's memory is gone with its power, but what its disk has synced is believed: that is what is tried.
    let memory = dir.path().with_extension("memory");
    let outside = Outside { memory: Some(&memory), may_begin_anew: &|_| Ok(()) };
    let (journal, recovered) = Journal::open(&dir, &identity, outside).unwrap();
    let name = |text: &str| Tag::parse(text.as_bytes()).unwrap();
    let store = StoreId("store".into());

    let mut bound = recovered.layouts.first().map_or(0, |layout| layout.mark.0);
    say("found", &[("snowflake", bound)]);
    // By tag: the next number, and the end of its segment.
    let mut marks = Vec::new();
    for text in TAGS {
        let record = journal.tag(&store, &name(text)).await.unwrap().unwrap_or_default();
        assert!(record.unissued.len() <= 1, "{record:?}");
        let mark = record.unissued.first().map_or(record.highest_end.max(1), |run| run.first);
        say("found", &[(text, mark)]);
        marks.push((text, mark, record.unissued.first().map(Run::end)));
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
                    let run = Run { first: *mark, count: SEGMENT, stride: 1 };
                    *end = Some(run.end());
                    *mark += 1;
                    batch.push(Write::Segment { store, tag, generation, run, mark: *mark });
                }
            }
        }
        bound += 1;
        let record =
            LayoutRecord { name: name("snowflake"), layout: Layout::LEAF, mark: UnixMs(bound) };
        batch.push(Write::LayoutMark(record));
        // A disk that fails for a while: the same again, until it is acknowledged.
        while let Err(e) = journal.commit(batch.clone()).await {
            assert!(journal.failure().is_some(), "{e}");
            say("failed", &[("commit", step)]);
            std::thread::sleep(Duration::from_millis(50));
        }
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
fn none_is_lost_either_when_syncs_failed_before() {
    let (scratch, power, dir) = place();
    let mut random = fastrand::Rng::with_seed(seed());
    let mut acked = Said::new();
    for round in 0..4 {
        let mut writer = Writer::start(&power, &dir, Mode::Sync);
        writer.wait_until(|writer| writer.said("acked").len() == TAGS.len() + 1);
        power.break_disk(true).unwrap();
        // What it says comes in order: all that was acknowledged before has been heard then.
        writer.wait_until(|writer| !writer.said("failed").is_empty());
        let broken = writer.said("acked");
        std::thread::sleep(Duration::from_millis(random.u64(20..1_300)));
        assert_eq!(
            writer.said("acked"),
            broken,
            "round {round}: a commit was acked without a sync"
        );
        power.break_disk(false).unwrap();
        // Half of the rounds see the journal work again before the power fails.
        if round % 2 == 0 {
            writer.wait_until(|writer| writer.said("acked") > broken);
        }
        writer.kill();
        assert_eq!(lost(&acked, &writer.said("found")), Said::new(), "round {round}");
        acked = writer.said("acked");
        power.fail().unwrap();
    }
    drop(scratch);
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
    let (_scratch, power, dir) = place();
    let (mut acked, mut losses) = (Said::new(), Vec::new());
    for round in 0..=rounds {
        // The first round syncs in any case, so that there is something to lose marks of.
        let mode = if round == 0 { Mode::Sync } else { mode };
        let time = Duration::from_micros(random.u64(3_000..150_000));
        let mut writer = Writer::start(&power, &dir, mode);
        if mode == Mode::NoSync {
            // Whoever acknowledged nothing lost nothing.
            writer.wait_until(|writer| !writer.said("acked").is_empty());
        }
        std::thread::sleep(time);
        writer.kill();
        let found = writer.said("found");
        for (name, number) in lost(&acked, &found) {
            losses.push(format!("round {round}: {name} was acked {number}, found {found:?}"));
        }
        acked.extend(found);
        acked.extend(writer.said("acked"));
        power.fail().unwrap();
    }
    println!("{mode:?}: acknowledged at last {acked:?}");
    assert!(acked.get("snowflake").is_some_and(|bound| *bound > 10), "hardly anything was written");
    losses
}

fn place() -> (tempfile::TempDir, PowerLoss, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("state");
    std::fs::create_dir(&dir).unwrap();
    let power = PowerLoss::of(&dir, scratch.path()).unwrap();
    (scratch, power, dir)
}

/// What was acknowledged and then found lower. A writer killed early has not said what it found.
fn lost(acked: &Said, found: &Said) -> Said {
    let lower =
        |(name, acked): &(&String, &u64)| found.get(*name).is_some_and(|found| found < *acked);
    acked.iter().filter(lower).map(|(name, number)| (name.clone(), *number)).collect()
}

/// A process that writes, and what it has said so far, by the line's first word.
struct Writer {
    child: Child,
    said: Arc<Mutex<BTreeMap<String, Said>>>,
    reader: Option<JoinHandle<()>>,
}

impl Writer {
    fn start(power: &PowerLoss, dir: &Path, mode: Mode) -> Writer {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["writer", "--exact", "--nocapture"]).env(WRITE_TO, dir);
        let mut child = power.watch(command.stdout(Stdio::piped()), mode).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let said = Arc::<Mutex<BTreeMap<String, Said>>>::default();
        let heard = said.clone();
        let reader = std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let words: Vec<_> = line.split(' ').collect();
                if let [what @ ("found" | "acked" | "failed"), name, number] = words[..] {
                    let mut heard = heard.lock().unwrap();
                    let said = heard.entry(what.to_owned()).or_default();
                    said.insert(name.to_owned(), number.parse().unwrap());
                }
            }
        });
        Writer { child, said, reader: Some(reader) }
    }

    fn said(&self, what: &str) -> Said {
        self.said.lock().unwrap().get(what).cloned().unwrap_or_default()
    }

    fn wait_until(&self, heard: impl Fn(&Writer) -> bool) {
        let start = Instant::now();
        while !heard(self) {
            assert!(start.elapsed() < Duration::from_secs(30), "it says {:?}", self.said);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn kill(&mut self) {
        assert_eq!(self.child.try_wait().unwrap(), None, "it ended by itself; see its words above");
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
    }
}

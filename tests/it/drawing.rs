//! Processes that draw ids of both kinds through the real client, in every way that it offers, and record each id that
//! they get, and the check that no id was issued twice.
//!
//! Such a process runs this test binary again, with a variable set.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leafd_client::{Client, Result};

use crate::host::die_with_parent;

/// Names the folder in which the process records the ids that it draws.
const RECORD: &str = "LEAFD_TEST_DRAW_TO";
/// Names the daemon's socket.
const SOCKET: &str = "LEAFD_TEST_DRAW_FROM";
/// Names the process's number.
const NUMBER: &str = "LEAFD_TEST_DRAWER";

/// What is drawn and how, by one thread each.
const WAYS: [(&str, Way); 5] = [
    ("orders", Way::Held),
    ("orders", Way::Direct),
    ("orders", Way::Batch),
    ("snowflake", Way::Held),
    ("snowflake", Way::Direct),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Held,
    Direct,
    Batch,
}

/// The number of ids drawn between two pauses: enough for load, but not so many that records fill the disk.
const IDS_A_TURN: usize = 40;
const PAUSE: Duration = Duration::from_millis(1);

/// Some drawing processes.
pub struct Drawers {
    children: Vec<Child>,
    record: PathBuf,
}

/// The ids that they drew of one tag.
#[derive(Debug, Default)]
pub struct Drawn {
    /// All ids, ascending.
    pub ids: Vec<u64>,
    /// How many ids were drawn twice, and some of them.
    pub twice: Vec<u64>,
}

/// The errors that they encountered.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Errors {
    pub count: u64,
    /// The first error text of each thread that had any, without repetitions.
    pub texts: BTreeSet<String>,
}

// === The process that draws ===

/// Not a test: this is the drawing process's main function if [`RECORD`] is set.
#[test]
fn drawer() {
    let Some(record) = std::env::var_os(RECORD).map(PathBuf::from) else { return };
    let socket = std::env::var_os(SOCKET).expect("a drawer knows its socket");
    let number = std::env::var(NUMBER).expect("a drawer knows its number");
    let client = Client::builder().socket(socket).build().unwrap();
    let (stop, errors) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for (index, (tag, way)) in WAYS.into_iter().enumerate() {
            let path = record.join(format!("{tag}.{number}-{index}"));
            let (client, stop, errors) = (&client, &stop, &errors);
            scope.spawn(move || draw(client, tag, way, &path, stop, errors));
        }
        // Waits until the starting process closes the pipe or ends.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stop.store(true, Ordering::Relaxed);
    });
    fs::write(record.join(format!("errors.{number}")), errors.into_inner().to_string()).unwrap();
}

fn draw(client: &Client, tag: &str, way: Way, path: &Path, stop: &AtomicBool, errors: &AtomicU64) {
    let mut record = BufWriter::new(File::create(path).unwrap());
    let mut said = None;
    let mut last = 0;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..IDS_A_TURN {
            let ids: Result<Vec<u64>> = match way {
                Way::Held => client.next(tag).map(|id| vec![id]),
                Way::Direct => client.next_direct(tag).map(|id| vec![id]),
                Way::Batch => client.next_batch(tag, 7).map(Iterator::collect),
            };
            match ids {
                Ok(ids) => {
                    for id in ids {
                        assert!(way == Way::Held || id > last, "{tag}: {id} follows {last}");
                        last = id;
                        record.write_all(&id.to_le_bytes()).unwrap();
                    }
                }
                Err(error) => {
                    errors.fetch_add(1, Ordering::Relaxed);
                    said.get_or_insert_with(|| error.to_string());
                    std::thread::sleep(PAUSE);
                }
            }
        }
        std::thread::sleep(PAUSE);
    }
    record.flush().unwrap();
    if let Some(said) = said {
        fs::write(
            path.with_file_name(format!("said-{}", path.extension().unwrap().display())),
            said,
        )
        .unwrap();
    }
}

// === impl Drawers ===

impl Drawers {
    /// Starts `count` processes that draw from the daemon at `socket` and write to the folder `record`.
    pub fn start(count: usize, socket: &Path, record: &Path) -> Drawers {
        fs::create_dir_all(record).unwrap();
        let children = (0..count)
            .map(|number| {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command
                    .args(["drawing::drawer", "--exact", "--nocapture"])
                    .env(RECORD, record)
                    .env(SOCKET, socket)
                    .env(NUMBER, number.to_string())
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null());
                die_with_parent(&mut command).spawn().unwrap()
            })
            .collect();
        Drawers { children, record: record.to_owned() }
    }

    /// Waits until every process has drawn in every way from now on, so that requests that were cut off have been
    /// answered.
    pub fn under_way(&self) {
        let end = Instant::now() + Duration::from_secs(20);
        let written = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
        let paths = (0..self.children.len()).flat_map(|number| {
            let name =
                move |(index, (tag, _)): (usize, &(&str, Way))| format!("{tag}.{number}-{index}");
            WAYS.iter().enumerate().map(name).map(|name| self.record.join(name))
        });
        let before: Vec<_> = paths.map(|path| (written(&path), path)).collect();
        for (length, path) in before {
            while written(&path) == length {
                assert!(Instant::now() < end, "nothing more is drawn into {}", path.display());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Lets them end, and returns the errors that they encountered.
    #[track_caller]
    pub fn stop(mut self) -> Errors {
        let mut errors = Errors::default();
        for child in &mut self.children {
            drop(child.stdin.take());
        }
        for (number, child) in self.children.iter_mut().enumerate() {
            let status = child.wait().unwrap();
            assert!(status.success(), "drawer {number} failed: see its words above");
            let count = fs::read_to_string(self.record.join(format!("errors.{number}"))).unwrap();
            errors.count += count.parse::<u64>().unwrap();
        }
        for entry in fs::read_dir(&self.record).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().to_string_lossy().starts_with("said-") {
                errors.texts.insert(fs::read_to_string(entry.path()).unwrap());
            }
        }
        errors
    }
}

impl Drop for Drawers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// All recorded ids of a tag.
pub fn drawn(record: &Path, tag: &str) -> Drawn {
    let mut ids = Vec::new();
    for entry in fs::read_dir(record).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_name().to_string_lossy().starts_with(&format!("{tag}.")) {
            continue;
        }
        let bytes = fs::read(entry.path()).unwrap();
        let (numbers, _torn) = bytes.as_chunks::<8>();
        ids.extend(numbers.iter().map(|number| u64::from_le_bytes(*number)));
    }
    ids.sort_unstable();
    let twice = ids.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    Drawn { ids, twice }
}

impl Drawn {
    /// Fails if an id was drawn twice.
    #[track_caller]
    pub fn assert_unique(&self) {
        let some = &self.twice[..self.twice.len().min(5)];
        assert!(
            self.twice.is_empty(),
            "{} ids were drawn twice, such as {some:?}",
            self.twice.len()
        );
        assert!(self.ids.iter().all(|id| *id > 0 && i64::try_from(*id).is_ok()));
    }
}

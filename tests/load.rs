//! A load on daemons, by clients in this process. Each thread draws one tag from one daemon, whatever happens to that
//! daemon, and records every id and every error. At the end, no id of a tag may have been issued twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leafd_client::{Client, Error};

/// How long a request may wait for its ids: shorter than an outage, but long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(4);

/// A thread's pause after an error.
const REST: Duration = Duration::from_millis(20);

/// How long every thread may take for its first ids.
const UNDER_WAY_WITHIN: Duration = Duration::from_secs(30);

/// What one thread draws.
#[derive(Clone, Debug)]
pub struct Draw {
    /// The daemon's socket.
    pub socket: PathBuf,
    /// The tag.
    pub tag: String,
    /// How many ids a thread draws between two pauses: one by one from a held run, or in one batch without held runs.
    pub ids: u64,
    /// How long a pause is.
    pub pause: Duration,
}

/// Threads that draw.
pub struct Load {
    threads: Vec<JoinHandle<Drawn>>,
    stop: Arc<AtomicBool>,
    issued: Vec<Arc<AtomicU64>>,
    begun: Instant,
}

/// What the threads drew.
#[derive(Debug, Default)]
pub struct Drawn {
    /// Every id, by tag; ascending once a load has stopped.
    pub ids: BTreeMap<String, Vec<u64>>,
    /// Every error's text, preceded by its status, and how often it occurred.
    pub errors: BTreeMap<String, u64>,
    /// How many times ids were requested, and the longest wait.
    pub requests: u64,
    pub longest: Duration,
    /// Ids that followed higher ones although they had to ascend.
    pub backwards: Vec<(u64, u64)>,
    /// How long the load lasted.
    pub seconds: f64,
}

impl Draw {
    /// A steady draw of some ten thousand ids a second.
    pub fn steady(socket: &Path, tag: &str) -> Draw {
        let pause = Duration::from_millis(2);
        Draw { socket: socket.to_owned(), tag: tag.to_owned(), ids: 10, pause }
    }

    fn run(&self, stop: &AtomicBool, issued: &AtomicU64) -> Drawn {
        let client = Client::builder().socket(&self.socket).deadline(DEADLINE).build().unwrap();
        let mut drawn = Drawn::default();
        let mut ids = Vec::new();
        let mut last = 0;
        while !stop.load(Ordering::Relaxed) {
            let before = ids.len();
            let mut outcome = Ok(());
            for _ in 0..self.ids {
                match drawn.timed(|| client.next(&self.tag)) {
                    Ok(id) => ids.push(id),
                    Err(error) => outcome = Err(error),
                }
                if outcome.is_err() {
                    break;
                }
            }
            let batch =
                outcome.and_then(|()| drawn.timed(|| client.next_batch(&self.tag, self.ids)));
            match batch {
                Ok(batch) => {
                    for id in batch {
                        if id <= last {
                            drawn.backwards.push((last, id));
                        }
                        last = id;
                        ids.push(id);
                    }
                    std::thread::sleep(self.pause);
                }
                Err(error) => {
                    *drawn.errors.entry(text(&error)).or_default() += 1;
                    std::thread::sleep(REST);
                }
            }
            issued.fetch_add((ids.len() - before) as u64, Ordering::Relaxed);
        }
        drawn.ids.insert(self.tag.clone(), ids);
        drawn
    }
}

/// An error's text for counting, without the parts that vary.
pub fn text(error: &Error) -> String {
    match error {
        Error::Service { status, message, .. } => format!("{status}: {message}"),
        Error::Connect { source, .. } => format!("no connection: {source}"),
        Error::Disconnected { source, .. } => format!("disconnected: {source}"),
        other => other.to_string(),
    }
}

impl Load {
    /// Starts a thread for each draw.
    pub fn start(draws: Vec<Draw>) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let issued: Vec<Arc<AtomicU64>> = draws.iter().map(|_| Arc::default()).collect();
        let threads = draws.into_iter().zip(&issued).map(|(draw, issued)| {
            let (stop, issued) = (Arc::clone(&stop), Arc::clone(issued));
            std::thread::spawn(move || draw.run(&stop, &issued))
        });
        Load { threads: threads.collect(), stop, issued, begun: Instant::now() }
    }

    /// Waits until every thread has ids.
    #[track_caller]
    pub fn under_way(&self) {
        self.each_draws(UNDER_WAY_WITHIN);
    }

    /// Waits until every thread has drawn more ids.
    #[track_caller]
    pub fn each_draws(&self, within: Duration) {
        let now: Vec<u64> =
            self.issued.iter().map(|issued| issued.load(Ordering::Relaxed)).collect();
        crate::host::eventually("every thread draws", within, || {
            let pairs = self.issued.iter().zip(&now);
            pairs
                .into_iter()
                .all(|(issued, before)| issued.load(Ordering::Relaxed) > *before)
                .then_some(())
        });
    }

    /// Ids drawn so far, by all threads.
    pub fn issued(&self) -> u64 {
        self.issued.iter().map(|issued| issued.load(Ordering::Relaxed)).sum()
    }

    /// Stops the load.
    #[track_caller]
    pub fn stop(mut self) -> Drawn {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Drawn::default();
        for thread in self.threads.drain(..) {
            all.add(thread.join().expect("a drawing thread does not panic"));
        }
        all.ids.values_mut().for_each(|ids| ids.sort_unstable());
        all.seconds = self.begun.elapsed().as_secs_f64();
        all
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drawn {
    fn timed<T>(&mut self, request: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let answer = request();
        self.requests += 1;
        self.longest = self.longest.max(begun.elapsed());
        answer
    }

    /// Adds what another load has drawn.
    pub fn add(&mut self, other: Drawn) {
        for (tag, ids) in other.ids {
            let of_tag = self.ids.entry(tag).or_default();
            of_tag.extend(ids);
            of_tag.sort_unstable();
        }
        for (text, count) in other.errors {
            *self.errors.entry(text).or_default() += count;
        }
        self.requests += other.requests;
        self.longest = self.longest.max(other.longest);
        self.backwards.extend(other.backwards);
        self.seconds += other.seconds;
    }

    /// The ids of a tag that both have drawn.
    pub fn common(&self, other: &Drawn, tag: &str) -> Vec<u64> {
        let there: BTreeSet<u64> = other.ids[tag].iter().copied().collect();
        self.ids[tag].iter().copied().filter(|id| there.contains(id)).collect()
    }

    /// Adds ids that were drawn without a load.
    pub fn add_ids(&mut self, tag: &str, ids: &[u64]) {
        let of_tag = self.ids.entry(tag.to_owned()).or_default();
        of_tag.extend(ids);
        of_tag.sort_unstable();
    }

    /// How many ids there are.
    pub fn count(&self) -> usize {
        self.ids.values().map(Vec::len).sum()
    }

    /// How many errors there were.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// How many ids were issued twice.
    pub fn duplicates(&self) -> usize {
        let of_tag = |ids: &Vec<u64>| ids.windows(2).filter(|pair| pair[0] == pair[1]).count();
        self.ids.values().map(of_tag).sum()
    }

    /// Fails if an id was issued twice, or out of order where one host's ids must ascend.
    #[track_caller]
    pub fn assert_sound(&self) {
        for (tag, ids) in &self.ids {
            assert!(ids.is_sorted(), "{tag}: a load that was stopped is sorted");
            let twice = ids.windows(2).find(|pair| pair[0] == pair[1]);
            assert_eq!(twice, None, "{tag}: {} ids came twice", self.duplicates());
            assert!(ids.iter().all(|id| *id > 0 && i64::try_from(*id).is_ok()), "{tag}");
        }
        let some = &self.backwards[..self.backwards.len().min(5)];
        assert!(some.is_empty(), "ids of one host came after higher ones: {some:?}");
    }
}

//! Leaf's segments: its table, and threads that claim from every tag in it as Leaf does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable as _;
use mysql::{Conn, OptsBuilder};

use crate::load::Drawn;
use crate::servers::{DATABASE, PASSWORD, USER};

/// The table as created by Leaf's script.
pub const TABLE: &str = "CREATE TABLE leaf_alloc (
    biz_tag varchar(128) NOT NULL DEFAULT '',
    max_id bigint(20) NOT NULL DEFAULT '1',
    step int(11) NOT NULL,
    description varchar(256) DEFAULT NULL,
    update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (biz_tag)) ENGINE=InnoDB";

/// How often it looks up the existing tags. Leaf does so once a minute.
const LOOKS_EVERY: Duration = Duration::from_millis(200);

/// A thread's pause between two claims. Leaf claims when it has used a part of what it holds.
const REST: Duration = Duration::from_millis(2);

/// The isolation of its transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// The server's default, which Leaf uses.
    RepeatableRead,
    /// Some operators set this in the database's address.
    ReadCommitted,
}

/// A Leaf that is running.
pub struct Leaf {
    stop: Arc<AtomicBool>,
    claims: Arc<AtomicU64>,
    tags: Arc<Mutex<BTreeSet<String>>>,
    threads: Vec<JoinHandle<Claimed>>,
}

/// What a thread claimed: ranges from their first id up to, but excluding, their end, by tag; and the errors.
#[derive(Default)]
struct Claimed {
    ranges: Vec<(String, u64, u64)>,
    errors: BTreeMap<String, u64>,
}

/// One of its connections.
fn connect(port: u16, isolation: Isolation) -> Result<Conn, mysql::Error> {
    let options = OptsBuilder::new()
        .ip_or_hostname(Some("127.0.0.1"))
        .tcp_port(port)
        .prefer_socket(false)
        .user(Some(USER))
        .pass(Some(PASSWORD))
        .db_name(Some(DATABASE));
    let mut connection = Conn::new(options)?;
    if isolation == Isolation::ReadCommitted {
        connection.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")?;
    }
    connection.query_drop("SET autocommit=0")?;
    Ok(connection)
}

/// Leaf's look-up of the existing tags in the table.
fn look(connection: &mut Conn) -> Result<BTreeSet<String>, mysql::Error> {
    let tags: Vec<String> = connection.query("SELECT biz_tag FROM leaf_alloc")?;
    connection.query_drop("ROLLBACK")?;
    Ok(tags.into_iter().collect())
}

/// Leaf's claim: the end of the range and its length, if the tag exists. The first two claims of a tag use the table's
/// step, and later ones a step that Leaf has chosen.
fn claim(
    connection: &mut Conn,
    tag: &str,
    step: Option<u64>,
) -> Result<Option<(u64, u64)>, mysql::Error> {
    let by = step.map_or("step".to_owned(), |step| step.to_string());
    connection.query_drop(format!(
        "UPDATE leaf_alloc SET max_id = max_id + {by} WHERE biz_tag = '{tag}'"
    ))?;
    let row: Option<(String, u64, u64)> = connection.query_first(format!(
        "SELECT biz_tag, max_id, step FROM leaf_alloc WHERE biz_tag = '{tag}'"
    ))?;
    connection.query_drop("COMMIT")?;
    Ok(row.map(|(_, end, of_table)| (end, step.unwrap_or(of_table))))
}

impl Leaf {
    /// Starts a Leaf with this many threads on a server, as the daemons' user.
    pub fn start(port: u16, isolation: Isolation, threads: usize) -> Leaf {
        let mut leaf = Leaf {
            stop: Arc::default(),
            claims: Arc::default(),
            tags: Arc::default(),
            threads: Vec::new(),
        };
        let (stop, tags) = (Arc::clone(&leaf.stop), Arc::clone(&leaf.tags));
        leaf.threads.push(std::thread::spawn(move || {
            let mut claimed = Claimed::default();
            let mut connection = connect(port, isolation).unwrap();
            while !stop.load(Ordering::Relaxed) {
                match look(&mut connection) {
                    Ok(found) => *tags.lock().unwrap() = found,
                    Err(error) => claimed.failed(&error),
                }
                std::thread::sleep(LOOKS_EVERY);
            }
            claimed
        }));
        for _ in 0..threads {
            let (stop, claims) = (Arc::clone(&leaf.stop), Arc::clone(&leaf.claims));
            let tags = Arc::clone(&leaf.tags);
            leaf.threads.push(std::thread::spawn(move || {
                let mut claimed = Claimed::default();
                let mut connection = connect(port, isolation).unwrap();
                let mut steps: BTreeMap<String, (u64, u64)> = BTreeMap::new();
                while !stop.load(Ordering::Relaxed) {
                    let now = tags.lock().unwrap().clone();
                    for tag in now {
                        // The step is doubled, halved or kept, because Leaf may choose any step above the table's.
                        let (count, of_table) = steps.get(&tag).copied().unwrap_or_default();
                        let step = (count >= 2).then(|| of_table << (count % 3));
                        match claim(&mut connection, &tag, step) {
                            Ok(Some((end, length))) => {
                                let of_table = if count == 0 { length } else { of_table };
                                steps.insert(tag.clone(), (count + 1, of_table));
                                claimed.ranges.push((tag, end - length, end));
                                claims.fetch_add(1, Ordering::Relaxed);
                            }
                            // Somebody has deleted the tag.
                            Ok(None) => drop(steps.remove(&tag)),
                            Err(error) => claimed.failed(&error),
                        }
                    }
                    std::thread::sleep(REST);
                }
                claimed
            }));
        }
        leaf
    }

    /// Waits until it has made this many more claims.
    #[track_caller]
    pub fn claims(&self, more: u64) {
        let before = self.claims.load(Ordering::Relaxed);
        crate::host::eventually("Leaf claims", Duration::from_secs(30), || {
            (self.claims.load(Ordering::Relaxed) >= before + more).then_some(())
        });
    }

    /// Waits until it knows a tag, or no longer knows it.
    #[track_caller]
    pub fn knows(&self, tag: &str, known: bool) {
        crate::host::eventually("Leaf looks at the table", Duration::from_secs(30), || {
            (self.tags.lock().unwrap().contains(tag) == known).then_some(())
        });
    }

    /// Stops it. Returns all ids of its claims, used or not, and its errors.
    #[track_caller]
    pub fn stop(self) -> Drawn {
        self.stop.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        let mut drawn = Drawn::default();
        for thread in self.threads {
            let claimed = thread.join().expect("a thread of Leaf's does not panic");
            let mut ids: BTreeMap<String, Vec<u64>> = BTreeMap::new();
            for (tag, first, end) in claimed.ranges {
                ids.entry(tag).or_default().extend(first..end);
            }
            ids.iter().for_each(|(tag, ids)| drawn.add_ids(tag, ids));
            for (text, count) in claimed.errors {
                *drawn.errors.entry(text).or_default() += count;
            }
        }
        drawn.seconds = begun.elapsed().as_secs_f64();
        drawn
    }
}

impl Claimed {
    fn failed(&mut self, error: &mysql::Error) {
        *self.errors.entry(error.to_string()).or_default() += 1;
        std::thread::sleep(REST);
    }
}

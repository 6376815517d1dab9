//! Leaf's snowflake ids: the node that identifies its worker, the time that it writes there, and its ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leafd_wire::Layout;
use zookeeper_client::{Acls, Client, CreateMode};

/// How soon after its start it first writes the time, and how often after that.
const FIRST_UPLOAD: Duration = Duration::from_secs(1);
const UPLOADS_EVERY: Duration = Duration::from_secs(3);

/// A Leaf that issues ids.
pub struct SnowflakeLeaf {
    /// The worker that it found or was assigned.
    pub worker: u64,
    stop: Arc<AtomicBool>,
    issued: Arc<AtomicU64>,
    thread: JoinHandle<Vec<u64>>,
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_millis().try_into().unwrap()
}

fn payload(address: &str) -> Vec<u8> {
    let (ip, port) = address.split_once(':').unwrap();
    format!(r#"{{"ip":"{ip}","port":"{port}","timestamp":{}}}"#, now_ms()).into_bytes()
}

/// Its node: the existing one for its address, or a new one with the next number. The parents are created first, as an
/// operator does, because a Leaf that creates them uses worker 0.
async fn enter(client: &Client, forever: &str, address: &str) -> (String, u64) {
    let persistent = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
    let prefix = format!("{forever}/{address}-");
    for (end, _) in forever.match_indices('/').skip(1).chain([(forever.len(), "")]) {
        let parent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        match client.create(&forever[..end], b"", &parent).await {
            Ok(_) | Err(zookeeper_client::Error::NodeExists) => {}
            Err(error) => panic!("{forever}: {error}"),
        }
    }
    for child in client.list_children(forever).await.unwrap() {
        let (of, number) = child.split_once('-').expect("only nodes that a Leaf can read");
        let number = number.parse().expect("a number, or a Leaf would not start");
        if of == address {
            let path = format!("{forever}/{child}");
            let (data, _) = client.get_data(&path).await.unwrap();
            let written = recorded(&String::from_utf8(data).unwrap());
            assert!(written <= now_ms(), "a Leaf would not start: {written} is in the future");
            return (path, number);
        }
    }
    let (_, sequence) = client.create(&prefix, &payload(address), &persistent).await.unwrap();
    (format!("{prefix}{sequence}"), sequence.into_i64().try_into().unwrap())
}

/// The time in a payload. The payload must have exactly three fields, because Leaf can't read any other.
fn recorded(payload: &str) -> u64 {
    let fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(payload).expect("a payload that a Leaf can read");
    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
    assert!(names.iter().all(|name| ["ip", "port", "timestamp"].contains(name)), "{payload}");
    fields["timestamp"].as_u64().expect("a time")
}

impl SnowflakeLeaf {
    /// Starts a Leaf of this service with this `ip:port` on an ensemble.
    pub fn start(ensemble: &str, service: &str, address: &str) -> SnowflakeLeaf {
        let (stop, issued) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let forever = format!("/snowflake/{service}/forever");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(Client::connect(ensemble)).unwrap();
        let (node, worker) = runtime.block_on(enter(&client, &forever, address));
        let (address, stopped, count) =
            (address.to_owned(), Arc::clone(&stop), Arc::clone(&issued));
        let thread = std::thread::spawn(move || {
            let mut ids = Vec::new();
            let (mut last_ms, mut sequence) = (0, 0);
            let mut upload = Instant::now() + FIRST_UPLOAD;
            while !stopped.load(Ordering::Relaxed) {
                if Instant::now() >= upload {
                    let data = payload(&address);
                    runtime.block_on(client.set_data(&node, &data, None)).unwrap();
                    upload = Instant::now() + UPLOADS_EVERY;
                }
                let now = now_ms();
                if now == last_ms {
                    sequence = (sequence + 1) % (1 << Layout::LEAF.sequence_bits);
                } else {
                    sequence = fastrand::u64(0..100);
                }
                last_ms = now;
                let since = now - Layout::LEAF.epoch_ms;
                let bits = Layout::LEAF.sequence_bits;
                let by_worker = since << (Layout::LEAF.worker_bits + bits) | worker << bits;
                ids.push(by_worker | sequence);
                count.fetch_add(1, Ordering::Relaxed);
                // The session is kept alive while this sleeps.
                runtime.block_on(async { tokio::time::sleep(Duration::from_micros(500)).await });
            }
            ids
        });
        SnowflakeLeaf { worker, stop, issued, thread }
    }

    /// How many ids it has issued.
    pub fn issued(&self) -> u64 {
        self.issued.load(Ordering::Relaxed)
    }

    /// Stops it, and returns its ids.
    pub fn stop(self) -> Vec<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a Leaf whose calls all work")
    }
}

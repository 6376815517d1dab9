//! Records in the store that this host uses its static worker number, and detects whether another host does.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock;
use crate::engine::upstream::Upstream;
use crate::registry::static_worker::StaticWorker;
use crate::store::Store;
use leafd_core::store::StartToken;

/// How often the use is recorded at first, and later. Two daemons that start together should detect each other soon.
const FIRST_NOTED_EVERY: Duration = Duration::from_secs(2);
const NOTED_EVERY: Duration = Duration::from_secs(30);

/// Records the use in the first store, until dropped. A host's own file doesn't know other hosts.
pub async fn note_use(
    worker: Rc<StaticWorker>,
    upstream: Rc<Upstream>,
    start: StartToken,
    name: Arc<str>,
) {
    if upstream.embedded {
        return;
    }
    let mut wait = FIRST_NOTED_EVERY;
    let mut first: Option<Instant> = None;
    loop {
        if let Some(under) = upstream.present() {
            let asked = Instant::now();
            let (number, start, name) = (worker.worker(), start.clone(), Arc::clone(&name));
            let note =
                move |store: &mut Store| store.note_static_worker(&under, number, &start, &name);
            match upstream.store.call(note).await {
                Ok(users) => {
                    // A user that has recorded nothing since this daemon's first record may have stopped. A former
                    // start of this host is such a user.
                    let since_ms = clock::millis(asked - *first.get_or_insert(asked));
                    let mut users = users.into_iter();
                    let now_ms = users.next().map_or(0, |own| own.at_ms);
                    let live = users.filter(|other| now_ms - other.at_ms < since_ms);
                    worker.found_others(live.map(|other| other.name).collect());
                }
                Err(error) => tracing::debug!(%error, "can't note the use of the static worker"),
            }
        }
        tokio::time::sleep(wait).await;
        wait = NOTED_EVERY.min(wait * 2);
    }
}

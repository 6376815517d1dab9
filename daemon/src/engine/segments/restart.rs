//! Handles a refusal by the journal: the tag's held ids contradict its records, so none of them is used.
//!
//! The tag starts over. Its held ids are dropped, in the journal too. Then the tag is loaded again from the journal and
//! the store, and ids are claimed above everything that this host has ever seen of it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tracing::error;

use super::{SegmentTag, Segments, TagShard};
use crate::clock;
use crate::journal::{JournalError, Write};
use crate::reply::Failure;

impl Segments {
    /// Makes the journal record changes of a tag, all or none. `effect` runs when they are durable. If the journal
    /// refuses them, the tag starts over instead. `shard` is one of the affected shards, for the log.
    pub(super) fn write_journal(
        self: &Rc<Self>,
        tag: &Rc<SegmentTag>,
        shard: &TagShard,
        writes: Vec<Write>,
        effect: impl FnOnce() + 'static,
    ) {
        let (segments, tag, store) =
            (Rc::clone(self), Rc::clone(tag), Arc::clone(&shard.upstream.url));
        self.writer.write(writes, move |outcome| match outcome {
            Ok(()) => effect(),
            Err(refused) => segments.contradicted(&tag, &store, &refused),
        });
    }

    /// Handles the journal's refusal of a change.
    fn contradicted(self: &Rc<Self>, tag: &Rc<SegmentTag>, store: &str, refused: &JournalError) {
        // Other pending changes belong to the tag as it was before.
        if tag.evicted.replace(true) {
            return;
        }
        let mut restarts = std::mem::take(&mut tag.trouble.borrow_mut().restarts);
        if !restarts.failing() {
            error!(
                tag = %tag.tag, store, %refused,
                "the journal contradicts the running daemon about this tag: its held ids are dropped, and it is loaded \
                 again. Only leafd may write to the state directory: stop any other program that does, and restart \
                 leafd"
            );
        }
        let wait = Duration::from_millis(restarts.next_ms(fastrand::u64(..)));
        self.leave(tag);
        let failure = Failure::journal(format!(
            "the journal contradicts the running daemon about tag {:?}, which is being loaded again; retry",
            tag.tag.as_str()
        ));
        self.abandon(tag, &failure);
        let shards = tag.shards.iter().map(|shard| TagShard::new(Rc::clone(&shard.upstream)));
        let successor =
            self.bring_into_use(&tag.tag, shards.collect(), tag.unconfirmed.take(), clock::boot());
        successor.trouble.borrow_mut().restarts = restarts;
        successor.waits_for(failure.message);
        for (shard, end) in (0..).zip(tag.allocator.borrow().highest_ends()) {
            successor.allocator.borrow_mut().raise_highest_end(shard, end);
        }
        for (index, shard) in tag.shards.iter().enumerate() {
            let load = Rc::clone(self).load_after(wait, Rc::clone(&successor), index);
            let load = move || drop(tokio::task::spawn_local(load));
            match shard.upstream.key() {
                // The journal can't refuse this.
                Some(store) => {
                    let forget = Write::Forget { store, tag: tag.tag.clone() };
                    self.writer.write(vec![forget], |_| load());
                }
                None => load(),
            }
        }
    }

    async fn load_after(self: Rc<Self>, wait: Duration, tag: Rc<SegmentTag>, index: usize) {
        tokio::time::sleep(wait).await;
        self.load(tag, index).await;
    }
}

//! The mark that the journal keeps above a layout's ids. It moves ahead of use, and is made exact at a stop.
//!
//! If the journal refuses a mark, it has a higher one, or another layout under this name. Then no id of the layout is
//! issued until the layout has been read again. After that, ids continue above the journal's mark.

use std::rc::Rc;
use std::time::Duration;

use tracing::error;

use super::{SnowflakeTag, Snowflakes};
use crate::clock;
use crate::journal::{JournalError, LayoutRecord, Write};
use crate::reply::Failure;
use leafd_core::UnixMs;
use leafd_core::snowflake::{Generator, Now};

/// How long a layout's mark is kept ahead after its last use, in milliseconds, so that the next id need not wait for
/// the journal.
const WARM_MS: u64 = 60_000;

impl Snowflakes {
    /// Makes the journal move the layout's mark ahead of use.
    pub(super) fn keep_mark(
        self: &Rc<Self>,
        tag: &Rc<SnowflakeTag>,
        generator: &Generator,
        now: Now,
    ) {
        let Some(mark) = generator.mark_wanted(now) else { return };
        if tag.mark_in_flight.replace(true) {
            return;
        }
        let record = LayoutRecord { name: tag.name.clone(), layout: tag.layout, mark };
        let (snowflakes, tag) = (Rc::clone(self), Rc::clone(tag));
        self.writer.write(vec![Write::LayoutMark(record)], move |outcome| {
            if let Err(refused) = outcome {
                return snowflakes.contradicted(&tag, &refused);
            }
            tag.mark_in_flight.set(false);
            tag.restarts.take();
            // A static worker's own record of the mark must also precede its use.
            if let Err(why) = snowflakes.worker.journal_reached(mark) {
                return snowflakes.give_up_worker(why);
            }
            tag.generator.borrow_mut().marked(mark);
            snowflakes.serve(&tag);
        });
    }

    /// The journal has refused a mark: it has a higher one, or another layout under this name. No id is issued until
    /// the layout has been read again.
    fn contradicted(self: &Rc<Self>, tag: &Rc<SnowflakeTag>, refused: &JournalError) {
        if !tag.restarts.borrow().failing() {
            error!(
                layout = %tag.name, %refused,
                "the journal contradicts the running daemon about this layout: its ids continue above what is \
                 recorded. Only leafd may write to the state directory: stop any other program that does, and restart \
                 leafd"
            );
        }
        self.refuse_for_now(tag, "the layout is being loaded again; retry");
        tokio::task::spawn_local(Rc::clone(self).start_over(Rc::clone(tag)));
    }

    fn refuse_for_now(&self, tag: &SnowflakeTag, next: &str) {
        let failure = Failure::journal(format!(
            "the journal's record of layout {:?} contradicts the ids that were issued: {next}",
            tag.name.as_str()
        ));
        let waiting = tag.waiting.borrow_mut().take_out(|_| true);
        for waiter in waiting {
            waiter.reply.failure(&failure);
        }
        tag.contradicted.replace(Some(failure));
    }

    /// Continues above the journal's mark.
    async fn start_over(self: Rc<Self>, tag: Rc<SnowflakeTag>) {
        loop {
            let wait_ms = tag.restarts.borrow_mut().next_ms(fastrand::u64(..));
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            // If the journal fails, this retries until it works.
            let Ok(found) = self.writer.journal().layout(&tag.name).await else { continue };
            if found.as_ref().is_some_and(|found| found.layout != tag.layout) {
                self.refuse_for_now(
                    &tag,
                    "it records a different definition; restart leafd, or rename the layout",
                );
                continue;
            }
            let mark = found.map_or(UnixMs(0), |found| found.mark);
            if let Err(why) = self.worker.journal_reached(mark) {
                self.give_up_worker(why);
            }
            tag.generator.borrow_mut().start_over(mark);
            tag.contradicted.take();
            tag.mark_in_flight.set(false);
            return;
        }
    }

    /// Keeps the marks of layouts in use ahead of the clock. Call this every second.
    pub fn keep_warm(self: &Rc<Self>) {
        let now = self.worker.believed_time(clock::now());
        for tag in &self.layouts {
            let warm = tag.used.get().0 > 0 && now.boot.0 - tag.used.get().0 < WARM_MS;
            if warm {
                self.keep_mark(tag, &tag.generator.borrow(), now);
                tag.warn_of_the_end(now);
            }
        }
    }

    /// The exact marks for a clean stop: the end of the last tick used, which may be lower than the recorded mark.
    pub fn exact_marks(&self) -> Vec<Write> {
        self.layouts
            .iter()
            .filter(|tag| tag.contradicted.borrow().is_none())
            .filter_map(|tag| {
                let mark = tag.generator.borrow().used_end()?;
                Some(Write::LayoutMark(LayoutRecord {
                    name: tag.name.clone(),
                    layout: tag.layout,
                    mark,
                }))
            })
            .collect()
    }
}

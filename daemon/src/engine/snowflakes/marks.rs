//! The bound that the journal keeps above a layout's ids: moved ahead of use, made exact at a stop.
//!
//! When the journal refuses a bound it has a higher one, or another layout under this name. Nothing is issued of the
//! layout then until the journal has told which; ids go on above what it has.

use std::rc::Rc;
use std::time::Duration;

use tracing::error;

use super::{SnowflakeTag, Snowflakes};
use crate::clock;
use crate::journal::{JournalError, LayoutRecord, Write};
use crate::reply::Failure;
use leafd_core::UnixMs;
use leafd_core::snowflake::{Generator, Now};

/// How long after a layout's last use its bound is kept ahead, so that the next id need not wait for the
/// journal, in milliseconds.
const WARM_MS: u64 = 60_000;

impl Snowflakes {
    /// Has the journal move the layout's bound, ahead of use.
    pub(super) fn keep_bound(
        self: &Rc<Self>,
        tag: &Rc<SnowflakeTag>,
        generator: &Generator,
        now: Now,
    ) {
        let Some(bound) = generator.bound_wanted(now) else { return };
        if tag.bound_in_flight.replace(true) {
            return;
        }
        let record = LayoutRecord { name: tag.name.clone(), layout: tag.layout, bound };
        let (snowflakes, tag) = (Rc::clone(self), Rc::clone(tag));
        self.writer.write(vec![Write::Bound(record)], move |outcome| {
            if let Err(refused) = outcome {
                return snowflakes.contradicted(&tag, &refused);
            }
            tag.bound_in_flight.set(false);
            tag.restarts.take();
            // What a static worker notes elsewhere comes before use as well.
            snowflakes.worker.journal_reached(bound);
            tag.generator.borrow_mut().bounded(bound);
            snowflakes.serve(&tag);
        });
    }

    /// The journal has refused a bound: it has a higher one, or another layout under this name. Nothing is issued until it
    /// has told which.
    fn contradicted(self: &Rc<Self>, tag: &Rc<SnowflakeTag>, refused: &JournalError) {
        if !tag.restarts.borrow().failing() {
            error!(
                layout = %tag.name, %refused,
                "the journal contradicts what was issued of a layout: its ids go on above what is recorded. Only leafd may \
                 write to the state directory: if something else did, stop that and restart leafd"
            );
        }
        self.refuse_for_now(tag, "is being read again; ask again");
        tokio::task::spawn_local(Rc::clone(self).start_over(Rc::clone(tag)));
    }

    fn refuse_for_now(&self, tag: &SnowflakeTag, next: &str) {
        let failure = Failure::journal_contradicts(format!(
            "what the journal has of layout {:?} contradicts what was issued, and {next}",
            tag.name.as_str()
        ));
        let waiting = tag.waiting.borrow_mut().take_out(|_| true);
        for waiter in waiting {
            waiter.reply.failure(&failure);
        }
        tag.contradicted.replace(Some(failure));
    }

    /// Goes on above what the journal has.
    async fn start_over(self: Rc<Self>, tag: Rc<SnowflakeTag>) {
        loop {
            let wait_ms = tag.restarts.borrow_mut().next_ms(fastrand::u64(..));
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            // A journal that fails is tried until it doesn't.
            let Ok(found) = self.writer.journal().layout(&tag.name).await else { continue };
            if found.as_ref().is_some_and(|found| found.layout != tag.layout) {
                self.refuse_for_now(
                    &tag,
                    "is of another definition: restart leafd, or give the layout a name of its own",
                );
                continue;
            }
            let bound = found.map_or(UnixMs(0), |found| found.bound);
            self.worker.journal_reached(bound);
            tag.generator.borrow_mut().start_over(bound);
            tag.contradicted.take();
            tag.bound_in_flight.set(false);
            return;
        }
    }

    /// Keeps the bounds of layouts in use ahead of the clock; to be called about once a second.
    pub fn keep_warm(self: &Rc<Self>) {
        let now = self.worker.hold(clock::now());
        for tag in &self.layouts {
            let warm = tag.used.get().0 > 0 && now.boot.0 - tag.used.get().0 < WARM_MS;
            if warm {
                self.keep_bound(tag, &tag.generator.borrow(), now);
                tag.warn_of_the_end(now);
            }
        }
    }

    /// The exact bounds, for a clean stop: the end of the last tick used, as low as that may be.
    #[must_use]
    pub fn exact_bounds(&self) -> Vec<Write> {
        self.layouts
            .iter()
            .filter(|tag| tag.contradicted.borrow().is_none())
            .filter_map(|tag| {
                let bound = tag.generator.borrow().used_end()?;
                Some(Write::Bound(LayoutRecord {
                    name: tag.name.clone(),
                    layout: tag.layout,
                    bound,
                }))
            })
            .collect()
    }
}

//! Counts what has been begun and must be seen to its end before the daemon stops.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;

/// What is under way.
#[derive(Debug, Default)]
pub struct UnderWay {
    count: Cell<usize>,
    ended: Notify,
}

/// One thing under way, until it is dropped.
#[derive(Debug)]
pub struct Begun(Rc<UnderWay>);

impl UnderWay {
    /// Something begins.
    #[must_use]
    pub fn begin(self: &Rc<Self>) -> Begun {
        self.count.set(self.count.get() + 1);
        Begun(Rc::clone(self))
    }

    /// Waits until nothing is under way.
    pub async fn all_ended(&self) {
        while self.count.get() > 0 {
            self.ended.notified().await;
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        self.0.ended.notify_one();
    }
}

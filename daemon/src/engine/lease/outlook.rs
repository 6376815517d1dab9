//! Whether the worker and the clock allow snowflake ids now, and for how long.

use super::{LeaseDriver, Worker};
use crate::registry::static_worker::StaticWorker;
use leafd_core::health::{Cause, Code, IdKind, Lasts};
use leafd_core::lease::{FOREVER, LeaseProblem};
use leafd_core::snowflake::Now;
use leafd_core::store::Why;

impl Worker {
    /// The problems of the worker, or of the clock of its lease. The remedies are elsewhere.
    pub fn causes(&self, now: Now) -> Vec<Cause> {
        match self {
            Worker::None => Vec::new(),
            Worker::Static(worker) => match &*worker.borrow() {
                Err(why) => {
                    vec![cause(Code::WorkerRefused, "static", Why::Other, why, Lasts::Over)]
                }
                Ok(worker) => shared(worker).into_iter().collect(),
            },
            Worker::Leased(driver) => driver.causes(now),
        }
    }
}

/// A cause if other hosts use the same number.
fn shared(worker: &StaticWorker) -> Option<Cause> {
    let (number, others) = (worker.worker(), worker.others());
    let message = format!(
        "according to the store, another host uses worker {number} too: {}; both may issue the same snowflake ids",
        others.join(", ")
    );
    (!others.is_empty())
        .then(|| cause(Code::WorkerShared, "static", Why::Other, &message, Lasts::NoEnd))
}

impl LeaseDriver {
    fn causes(&self, now: Now) -> Vec<Cause> {
        let lease = self.lease.borrow();
        let (problem, lasts) = match lease.standing(now) {
            Err(problem) => (Some(problem), Lasts::Over),
            Ok(grant) => {
                let left_ms = grant.limit.0.saturating_sub(lease.clock.believed_time(now).unix.0);
                let problem = lease.trouble.clone();
                // A renewal that is late for no known reason is reported too.
                let problem = problem.or((left_ms == 0).then_some(LeaseProblem::Starting));
                // A permanent worker's lease has no end.
                let ends = grant.limit != FOREVER;
                (problem, if ends { Lasts::of_ms(left_ms) } else { Lasts::NoEnd })
            }
        };
        let mut causes = Vec::new();
        if let Some(problem) = problem
            && let Some(code) = Code::of_lease(&problem)
        {
            let (last_success, idle) = (lease.renewed, !lease.is_used());
            let cause = cause(code, &self.subject, problem.why(), &problem.to_string(), lasts);
            causes.push(Cause { last_success, idle, ..cause });
        }
        if let Some(skew) = lease.clock.skew
            && causes.iter().all(|cause| cause.code != Code::ClockOff)
        {
            let message = skew.to_string();
            causes.push(cause(Code::ClockOff, &self.subject, Why::Other, &message, Lasts::NoEnd));
        }
        causes
    }
}

fn cause(code: Code, subject: &str, why: Why, message: &str, lasts: Lasts) -> Cause {
    Cause { kind: IdKind::Snowflake, ..Cause::new(code, subject, why, message, lasts) }
}

//! Whether the daemon can issue an id now, for load balancers and the like.

use super::Dispatcher;

/// For each kind of ids, why they can't be issued; `None` if they can.
#[derive(Clone, Debug)]
pub struct Readiness {
    pub segments: Option<String>,
    pub snowflake: Option<String>,
}

impl Dispatcher {
    /// Which kinds of ids can be issued now.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        if self.stopping.get() {
            let why = Some("the daemon is stopping".to_owned());
            return Readiness { segments: why.clone(), snowflake: why };
        }
        let snapshot = self.public_snapshot();
        let snowflake = snapshot.unready("snowflake").map(|why| match why.is_empty() {
            true => self.snowflakes.worker.unavailable_reason().message,
            false => why,
        });
        Readiness { segments: snapshot.unready("segments"), snowflake }
    }
}

//! Whether the daemon can issue an id now, for load balancers and the like.

use super::Dispatcher;
use leafd_core::health::Kind;

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
        let neither = if self.stopping.get() {
            Some("the daemon is stopping".to_owned())
        } else {
            self.writer.trouble().map(|failure| failure.message)
        };
        if let Some(why) = neither {
            return Readiness { segments: Some(why.clone()), snowflake: Some(why) };
        }
        self.health.with(|health, now| {
            let why = |kind: Kind| {
                let conditions = health.conditions(now);
                let causes = conditions.iter().map(|condition| condition.cause);
                let these = causes.filter(|cause| [Kind::All, kind].contains(&cause.kind));
                let messages: Vec<&str> = these.map(|cause| &*cause.message).collect();
                messages.join("; ")
            };
            Readiness {
                segments: (!health.segments_ready()).then(|| why(Kind::Segments)),
                snowflake: (!health.snowflake_ready()).then(|| match why(Kind::Snowflake) {
                    why if why.is_empty() => self.snowflakes.worker.unavailable_reason().message,
                    why => why,
                }),
            }
        })
    }
}

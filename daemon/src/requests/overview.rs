//! The content of the web page at one moment: the state for administrators and for others, and the busiest tags that
//! match the reader's search.

use std::rc::Rc;

use leafd_checkup::snapshot::{PageSnapshot, Snapshot};

use super::Dispatcher;
use super::busiest::Busiest;

/// The page's content at one moment.
#[derive(Debug)]
pub struct Overview {
    pub all: Snapshot,
    /// For all other users who can connect: the same as in the metrics and the status.
    pub public: PageSnapshot,
    /// How many of the busiest tags other users see: as many as the metrics list individually.
    pub public_tags: usize,
    /// The tags in use whose names contain the text.
    pub tags: Busiest,
}

/// How many tags are shown individually.
const TAGS_SHOWN: usize = 50;

/// How many problems are shown.
const CONDITIONS_SHOWN: usize = 20;

impl Dispatcher {
    /// Collects the page's content for a search for this text. An empty text finds all tags.
    pub async fn overview(self: &Rc<Self>, text: &str) -> Overview {
        let tags = Busiest::of(&self.segments, TAGS_SHOWN, |name| contains(name, text)).await;
        let all = self.snapshot(CONDITIONS_SHOWN);
        tokio::task::yield_now().await;
        let public = self.page_snapshot(CONDITIONS_SHOWN);
        Overview { all, public, public_tags: self.about.metrics_tags, tags }
    }
}

/// Whether a name contains a text, ignoring the case of ASCII letters.
fn contains(name: &str, text: &str) -> bool {
    let (name, text) = (name.as_bytes(), text.as_bytes());
    text.is_empty() || name.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_anywhere_in_a_name() {
        for (name, text) in [("orders", ""), ("orders", "RDE"), ("é", "é"), ("", "")] {
            assert!(contains(name, text), "{name} {text}");
        }
        for (name, text) in [("orders", "orders2"), ("", "a"), ("é", "É")] {
            assert!(!contains(name, text), "{name} {text}");
        }
    }
}

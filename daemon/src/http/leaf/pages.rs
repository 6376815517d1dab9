//! Leaf's pages. One page of each kind is generated at a time, and requests soon after that get the same one.

use std::cell::RefCell;
use std::rc::Rc;

use hyper::body::Bytes;
use leafd_core::shares::{Claimant, ShareSlot, Shares};
use leafd_wire::opcode;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};

use super::super::answer::Text;
use super::super::inquiries::{Inquiry, asked};
use super::super::listener::Party;
use super::answers;
use crate::clock;
use crate::reply::Failure;
use crate::requests::Dispatcher;
use leafd_core::BootMs;

/// How long a page is used before it is generated again, in milliseconds.
const SHOWN_MS: u64 = 1_000;

/// The maximum number of rows on `/db`.
const ROWS_MAX: usize = 10_000;

/// How many pages may be in transmission at once, divided between the parties. Each can be a different page of a
/// megabyte.
const PAGES_SENT_MAX: u64 = 8;

/// A shorter page may always be sent.
const SHORT_BYTES: usize = 16 * 1024;

/// The rows that are requested at once.
const ROWS_AT_ONCE: usize = 1_000;

#[derive(Clone, Copy)]
pub(super) enum LeafPage {
    Cache,
    Rows,
}

/// Generates the pages.
pub(super) struct Pages {
    ask: mpsc::Sender<Inquiry>,
    /// Whether masked tags are shown, because masking is meant to hide their positions.
    shows_masked: bool,
    /// The last page of each kind, and when it was generated.
    made: [Mutex<Option<(BootMs, Bytes)>>; 2],
    /// The parties' shares of the pages in transmission.
    sent: Rc<RefCell<Shares<Party>>>,
}

impl Pages {
    pub(super) fn new(ask: mpsc::Sender<Inquiry>, shows_masked: bool) -> Pages {
        let sent = Rc::new(RefCell::new(Shares::new(PAGES_SENT_MAX)));
        Pages { ask, shows_masked, made: Default::default(), sent }
    }

    /// The page's text; `None` if too many pages are still being sent to the caller.
    pub(super) async fn page(&self, party: Party, page: LeafPage) -> Result<Option<Text>, Failure> {
        let text = self.text(page).await?;
        let claimant = Claimant { uid: party, trusted: false };
        let place = ShareSlot::take(&self.sent, claimant);
        let is_sent = place.is_some() || text.len() <= SHORT_BYTES;
        Ok(is_sent.then(|| Text::in_place(text, place)))
    }

    async fn text(&self, page: LeafPage) -> Result<Bytes, Failure> {
        let mut made = self.made[page as usize].lock().await;
        if let Some((at, text)) = &*made
            && clock::boot().0 < at.0 + SHOWN_MS
        {
            return Ok(text.clone());
        }
        let text = match page {
            LeafPage::Cache => self.cache().await?,
            LeafPage::Rows => self.rows().await?,
        };
        let text = Bytes::from(text);
        *made = Some((clock::boot(), text.clone()));
        Ok(text)
    }

    async fn cache(&self) -> Result<String, Failure> {
        let read = async |requests: Rc<Dispatcher>| requests.snapshot_with_tags();
        let status = asked(&self.ask, read).await.ok_or_else(Failure::stopping)?;
        let tags = status.segments.tags.iter();
        Ok(answers::cache(tags.filter(|tag| self.shows_masked || !tag.masked)))
    }

    async fn rows(&self) -> Result<String, Failure> {
        let mut rows = Vec::new();
        let mut page = json!({"limit": ROWS_AT_ONCE});
        while rows.len() < ROWS_MAX {
            let mut found = self.read(opcode::TAG_LIST, page.to_string().into_bytes()).await?;
            if let Value::Array(tags) = found["tags"].take() {
                rows.extend(tags.into_iter().filter(|tag| self.shows(tag)));
            }
            match (found["next"].take(), found["next_store"].take()) {
                (next @ Value::String(_), _) => page["after"] = next,
                (_, store @ Value::String(_)) => {
                    page = json!({"limit": ROWS_AT_ONCE, "store": store});
                }
                _ => break,
            }
        }
        Ok(answers::rows(&rows))
    }

    async fn read(&self, opcode: u8, body: Vec<u8>) -> Result<Value, Failure> {
        let read =
            async move |requests: Rc<Dispatcher>| requests.read_for_http(opcode, &body).await;
        let body = asked(&self.ask, read).await.unwrap_or_else(|| Err(Failure::stopping()))?;
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }

    fn shows(&self, tag: &Value) -> bool {
        self.shows_masked || matches!(tag.get("masked"), Some(Value::Null))
    }
}

//! Leaf's pages. One is made at a time, and requests soon after that get the same one.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;
use leafd_wire::{Header, Status, opcode};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::answers;
use super::link::{Link, Refused};
use crate::clock;
use leafd_core::BootMs;

/// How long a page is used before it is made again, in milliseconds.
const SHOWN_MS: u64 = 1_000;

/// Most rows on `/db`.
const ROWS_MAX: usize = 10_000;

#[derive(Clone, Copy)]
pub(super) enum Page {
    Cache,
    Rows,
}

/// A page, and when it was made.
type Made = (BootMs, Response<Bytes>);

/// Makes the pages.
pub(super) struct Pages {
    link: Link,
    /// Whether masked tags are shown too: their positions are what masking hides.
    tells_masked: bool,
    shown: [Arc<Mutex<Option<Made>>>; 2],
}

impl Pages {
    pub(super) fn new(link: Link, tells_masked: bool) -> Rc<Pages> {
        Rc::new(Pages { link, tells_masked, shown: Default::default() })
    }

    /// The page. All requests share its bytes. A client that is gone stops waiting for it.
    pub(super) async fn page(self: &Rc<Self>, page: Page) -> Response<Bytes> {
        let mut shown = Arc::clone(&self.shown[page as usize]).lock_owned().await;
        if let Some((made, answer)) = &*shown
            && clock::boot().0 < made.0 + SHOWN_MS
        {
            return answer.clone();
        }
        let pages = Rc::clone(self);
        // A page that was begun is finished even if nobody waits for it. So at most one of each kind is made at a
        // time.
        let made = tokio::task::spawn_local(async move {
            let answer = pages.make(page).await;
            shown.insert((clock::boot(), answer)).1.clone()
        });
        made.await.unwrap_or_else(|_| {
            let refused = Refused { status: Status::Internal, message: String::new() };
            answers::no_id(path(page), &refused)
        })
    }

    async fn make(&self, page: Page) -> Response<Bytes> {
        let made = match page {
            Page::Cache => self.cache().await,
            Page::Rows => self.rows().await,
        };
        made.unwrap_or_else(|refused| answers::no_id(path(page), &refused))
    }

    async fn ask(&self, opcode: u8, body: &[u8]) -> Result<Bytes, Refused> {
        self.link.ask(|id, frame| Header::request(opcode, 0, id).put_frame(body, frame)).await
    }

    fn tells(&self, tag: &Value) -> bool {
        self.tells_masked || matches!(tag.get("masked"), Some(Value::Null | Value::Bool(false)))
    }

    async fn cache(&self) -> Result<Response<Bytes>, Refused> {
        let body = self.ask(opcode::STATUS, b"").await?;
        let status: Value = serde_json::from_slice(&body).unwrap_or_default();
        let tags = status["segments"]["tags"].as_array().into_iter().flatten();
        Ok(answers::cache(tags.filter(|tag| self.tells(tag))))
    }

    async fn rows(&self) -> Result<Response<Bytes>, Refused> {
        let mut rows = Vec::new();
        let mut page = json!({"limit": 1_000});
        while rows.len() < ROWS_MAX {
            let body = self.ask(opcode::TAG_LIST, page.to_string().as_bytes()).await?;
            let found: Value = serde_json::from_slice(&body).unwrap_or_default();
            let tags = found["tags"].as_array().into_iter().flatten();
            rows.extend(tags.filter(|tag| self.tells(tag)).cloned());
            page = match (&found["next"], &found["next_store"]) {
                (Value::String(next), _) => {
                    let store = page["store"].clone();
                    let mut page = json!({"limit": 1_000, "after": next});
                    if store.is_string() {
                        page["store"] = store;
                    }
                    page
                }
                (_, Value::String(store)) => json!({"limit": 1_000, "store": store}),
                _ => break,
            };
        }
        Ok(answers::rows(&rows))
    }
}

fn path(page: Page) -> &'static str {
    match page {
        Page::Cache => "/cache",
        Page::Rows => "/db",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The daemon answers slowly, and the clients are gone by then.
    #[test]
    fn those_who_are_gone_leave_nothing_behind() {
        let dir = tempfile::tempdir().expect("a folder");
        let socket = dir.path().join("leafd.sock");
        let daemon = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(tokio::runtime::LocalOptions::default());
        let work = async {
            let pages = Pages::new(Link::new(socket), false);
            for _ in 0..100 {
                let asked = pages.page(Page::Rows);
                let _ = tokio::time::timeout(Duration::from_millis(1), asked).await;
            }
            assert_eq!(Rc::strong_count(&pages), 2, "one of them is made");
        };
        runtime.expect("a runtime").block_on(work);
        drop(daemon);
    }
}

//! Leaf's pages, one made at a time: whoever asks for one soon after gets the same.

use std::rc::Rc;

use bytes::Bytes;
use hyper::Response;
use leafd_wire::{Header, Status, opcode};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::answers;
use super::link::{Link, Refused};
use crate::clock;
use leafd_core::BootMs;

/// How long a page is shown before it is made anew, in milliseconds.
const SHOWN_MS: u64 = 1_000;

/// Most rows that `/db` shows.
const ROWS_MAX: usize = 10_000;

#[derive(Clone, Copy)]
pub(super) enum Page {
    Cache,
    Rows,
}

/// A page, and when it was made.
type Made = (BootMs, Response<String>);

/// Makes pages.
pub(super) struct Pages {
    link: Link,
    shown: Mutex<[Option<Made>; 2]>,
}

impl Pages {
    pub(super) fn new(link: Link) -> Rc<Pages> {
        Rc::new(Pages { link, shown: Mutex::default() })
    }

    pub(super) async fn page(self: &Rc<Self>, page: Page) -> Response<String> {
        let pages = Rc::clone(self);
        // A page is finished also when nobody waits for it any more: the next one waits for that.
        let made = tokio::task::spawn_local(async move {
            let mut shown = pages.shown.lock().await;
            let shown = &mut shown[page as usize];
            if let Some((made, answer)) = shown
                && clock::boot().0 < made.0 + SHOWN_MS
            {
                return answer.clone();
            }
            let answer = pages.make(page).await;
            shown.insert((clock::boot(), answer)).1.clone()
        });
        made.await.unwrap_or_else(|_| {
            let refused = Refused { status: Status::Internal, message: String::new() };
            answers::no_id(path(page), &refused)
        })
    }

    async fn make(&self, page: Page) -> Response<String> {
        let made = match page {
            Page::Cache => self.cache().await,
            Page::Rows => self.rows().await,
        };
        made.unwrap_or_else(|refused| answers::no_id(path(page), &refused))
    }

    async fn ask(&self, opcode: u8, body: &[u8]) -> Result<Bytes, Refused> {
        self.link.ask(|id, frame| Header::request(opcode, 0, id).put_frame(body, frame)).await
    }

    async fn cache(&self) -> Result<Response<String>, Refused> {
        let body = self.ask(opcode::STATUS, b"").await?;
        Ok(answers::cache(&serde_json::from_slice(&body).unwrap_or_default()))
    }

    async fn rows(&self) -> Result<Response<String>, Refused> {
        let mut rows = Vec::new();
        let mut page = json!({"limit": 1_000});
        while rows.len() < ROWS_MAX {
            let body = self.ask(opcode::TAG_LIST, page.to_string().as_bytes()).await?;
            let found: Value = serde_json::from_slice(&body).unwrap_or_default();
            rows.extend(found["tags"].as_array().cloned().unwrap_or_default());
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

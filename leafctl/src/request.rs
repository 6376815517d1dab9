//! Requests to the daemon whose answers are JSON.

use std::collections::HashSet;

use leafd_checkup::parse;
use leafd_checkup::snapshot::Snapshot;
use leafd_client::{Client, opcode};
use serde_json::{Value, json};

use crate::failure::CommandError;

/// Makes an administrative request.
pub fn ask(client: &Client, opcode: u8, body: &Value) -> Result<Value, CommandError> {
    Ok(parse(&client.admin(opcode, &body.to_string())?)?)
}

/// A tag's row.
pub fn show_tag(client: &Client, tag: &str) -> Result<Value, CommandError> {
    ask(client, opcode::TAG_SHOW, &json!({ "tag": tag }))
}

/// The daemon's status.
pub fn status(client: &Client) -> Result<Snapshot, CommandError> {
    Ok(parse(&client.status_json()?)?)
}

/// How many pages a list may have. A server that is not leafd could send pages forever.
const PAGES_MAX: usize = 100_000;

/// Where the pages of a list begin.
#[derive(Default)]
pub struct Pages(HashSet<String>);

impl Pages {
    /// Records where the next page begins.
    ///
    /// # Errors
    /// A page began there before, or there are too many.
    pub fn follow(&mut self, next: &Value) -> anyhow::Result<()> {
        if self.0.len() < PAGES_MAX && self.0.insert(next.to_string()) {
            return Ok(());
        }
        anyhow::bail!(
            "the list has no end, so the server at this socket is not leafd; check --socket and LEAFD_SOCKET"
        )
    }
}

/// Calls `see` with each page. `body` requests the first page; each following request has the last page's `next` as its
/// member `place`.
pub fn each_page(
    client: &Client,
    opcode: u8,
    mut body: Value,
    place: &str,
    mut see: impl FnMut(&Value) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let mut pages = Pages::default();
    loop {
        let page = ask(client, opcode, &body)?;
        see(&page)?;
        let next = &page["next"];
        if next.is_null() {
            return Ok(());
        }
        pages.follow(next)?;
        body[place] = next.clone();
    }
}

/// The items of a list; none if it is missing.
pub fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// A text; empty if there is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_whatever_its_pages_say() {
        let mut pages = Pages::default();
        assert!(pages.follow(&json!("a")).is_ok() && pages.follow(&json!("b")).is_ok());
        assert!(pages.follow(&json!("a")).is_err(), "a circle");
        assert!((2..PAGES_MAX).all(|page| pages.follow(&json!(page)).is_ok()));
        assert!(pages.follow(&json!("more")).is_err(), "too many");
    }
}

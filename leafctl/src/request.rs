//! Requests to the daemon whose answers are JSON.

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

/// Calls `see` with each page. `body` requests the first page; each following request has the last page's `next` as its
/// member `place`.
pub fn each_page(
    client: &Client,
    opcode: u8,
    mut body: Value,
    place: &str,
    mut see: impl FnMut(&Value) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    loop {
        let page = ask(client, opcode, &body)?;
        see(&page)?;
        let next = &page["next"];
        // A daemon that makes no progress would be queried forever.
        if next.is_null() || *next == body[place] {
            return Ok(());
        }
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

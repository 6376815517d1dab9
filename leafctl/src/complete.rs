//! Shell completions: the fixed words, and the tags that the daemon knows.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::{CompleteEnv, Shells};
use leafd_client::{Client, opcode};
use serde_json::json;

use crate::failure::CommandError;
use crate::request::{self, text};

/// Set by a shell that requests completions.
const VARIABLE: &str = "LEAFCTL_COMPLETE";

/// The time limit is short, because a person is waiting for the completion.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// The maximum number of tags to offer; longer lists are useless.
const TAGS_MAX: usize = 200;

/// The minimum similarity of two names for one to count as a typing error of the other: strsim's measure, from 0 to 1.
const LIKE: f64 = 0.8;

/// The maximum number of stores to query, one after another.
const STORES_MAX: usize = 8;

/// Answers a shell that requests completions, and exits.
pub fn answer(command: fn() -> clap::Command) {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// A shell's script, which calls this program at each completion.
pub fn script(shell: &str) -> Result<Vec<u8>, CommandError> {
    let shells = Shells::builtins();
    let shell = shells.completer(shell).ok_or_else(|| anyhow!("no completions for {shell}"))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "leafctl", "leafctl", "leafctl", &mut script)?;
    Ok(script)
}

/// The tags that begin with `begun`. A user who may not list them, or has no daemon, gets none.
pub fn tags(begun: &OsStr) -> Vec<CompletionCandidate> {
    offered(begun, |client, begun| {
        let mut found = Vec::new();
        for store in names_of_stores(client)?.iter().take(STORES_MAX) {
            found.extend(tags_of(client, store, begun)?);
        }
        Ok(found)
    })
}

/// The existing tag with the most similar name, for a caller who may list tags.
pub fn similar(socket: &Path, tag: &str) -> Option<String> {
    let client = Client::builder().socket(socket).deadline(ANSWER_WITHIN).build().ok()?;
    // Only names with the same first letter are listed, because a list of all names would be cut short.
    let begun: String = tag.chars().take(1).collect();
    let stores = names_of_stores(&client).ok()?;
    let tags = stores
        .iter()
        .take(STORES_MAX)
        .flat_map(|store| tags_of(&client, store, &begun).unwrap_or_default());
    let likeness = tags.map(|known| (strsim::jaro_winkler(&known, tag), known));
    let best = likeness.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (best.0 > LIKE).then_some(best.1)
}

/// The stores that begin with `begun`.
pub fn stores(begun: &OsStr) -> Vec<CompletionCandidate> {
    offered(begun, |client, _| names_of_stores(client))
}

/// The names that can be offered.
fn offered(
    begun: &OsStr,
    ask: impl FnOnce(&Client, &str) -> Result<Vec<String>, CommandError>,
) -> Vec<CompletionCandidate> {
    let Some(begun) = begun.to_str() else { return Vec::new() };
    let socket = leafd_client::default_socket_path();
    let client = Client::builder().socket(socket).deadline(ANSWER_WITHIN).build();
    let names = client.map_err(CommandError::from).and_then(|client| ask(&client, begun));
    let mut names = names.unwrap_or_default();
    names.retain(|name| !name.is_empty() && name.starts_with(begun) && is_plain(name));
    names.truncate(TAGS_MAX);
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// The names of the stores. A single store has no name.
fn names_of_stores(client: &Client) -> Result<Vec<String>, CommandError> {
    let status = request::status(client)?;
    Ok(status.segments.stores.into_iter().map(|store| store.numbers.name).collect())
}

/// Names are sorted, so those that begin with `begun` follow it directly.
fn tags_of(client: &Client, store: &str, begun: &str) -> Result<Vec<String>, CommandError> {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let place = json!({ "limit": TAGS_MAX, "store": given(store), "after": given(begun) });
    let page = request::ask(client, opcode::TAG_LIST, &place)?;
    Ok(request::items(&page["tags"]).iter().map(|row| text(&row["tag"]).to_owned()).collect())
}

/// Whether a shell takes a name literally. It could run parts of any other name as a command.
fn is_plain(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_alphanumeric() || "._-/:@%+".contains(letter);
    name.chars().all(is_plain) && !name.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_shell_would_run_are_not_offered() {
        for plain in ["orders", "eu/orders.2", "größe", "a-b_c:d"] {
            assert!(is_plain(plain), "{plain}");
        }
        for odd in ["a b", "$(reboot)", "a;b", "`x`", "-n", "a'b", "a\"b", "a&b", "a|b", "*", "~/x"]
        {
            assert!(!is_plain(odd), "{odd}");
        }
    }
}

//! `leafctl top`: the daemon's state in a terminal, live.
//!
//! - `screen`: takes over the terminal while this runs, and restores it.
//! - `draw`: a status as lines.
//! - `line`: a line for a terminal of any width.

mod draw;
mod line;
mod screen;

use std::path::Path;
use std::time::{Duration, Instant};

use leafd_checkup::snapshot::Snapshot;
use leafd_client::Client;

use crate::failure::Failure;
use draw::View;
use screen::{Key, Screen};

/// How often to ask.
#[derive(Debug, clap::Args)]
#[command(after_help = "Keys: q quits; the arrow and page keys move through the tags.\n\
                        Administrators see tags, stores, users and events. Others see whether the daemon can issue ids.")]
pub struct TopArgs {
    /// Ask the daemon this often, in milliseconds
    #[arg(long, default_value_t = 1_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=60_000))]
    every_ms: u64,
}

/// How long an answer may take before the daemon counts as away.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// How often to check the terminal's size.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Shows the state until a key ends it.
pub fn run(socket: &Path, args: &TopArgs) -> Result<(), Failure> {
    let mut screen = Screen::open()?;
    let mut view = View::default();
    let mut due = Instant::now();
    let mut drawn = None;
    loop {
        let mut changed = false;
        if Instant::now() >= due {
            match ask(socket) {
                Ok(status) => (view.status, view.away) = (Some(status), None),
                Err(failure) => view.away = Some(failure.to_string()),
            }
            due = Instant::now() + Duration::from_millis(args.every_ms);
            changed = true;
        }
        let size = screen.size();
        if changed || drawn != Some((size, view.scrolled)) {
            screen.show(&view.lines(size), size)?;
            drawn = Some((size, view.scrolled));
        }
        let wait = due.saturating_duration_since(Instant::now()).min(LOOK_EVERY);
        let page = usize::from(size.lines) / 2;
        match screen.key(wait)? {
            Some(Key::Quit) => return Ok(()),
            Some(Key::Up) => view.scrolled = view.scrolled.saturating_sub(1),
            Some(Key::Down) => view.scroll_down(1),
            Some(Key::PageUp) => view.scrolled = view.scrolled.saturating_sub(page),
            Some(Key::PageDown) => view.scroll_down(page),
            Some(Key::Other) | None => {}
        }
    }
}

/// Uses a new client each time: a client that waits for a missing daemon would show its return late.
fn ask(socket: &Path) -> Result<Snapshot, Failure> {
    let client = Client::builder().socket(socket).deadline(ANSWERS_WITHIN).build()?;
    Ok(serde_json::from_str(&client.status_json()?)?)
}

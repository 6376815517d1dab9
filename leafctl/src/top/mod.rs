//! `leafctl top`: the daemon's state in a terminal, live.
//!
//! - `terminal`: takes over the terminal while this runs, and restores it.

mod terminal;

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use leafd_checkup::snapshot::Snapshot;
use leafd_client::Client;

use crate::failure::CommandError;
use crate::request;
use crate::status;
use terminal::{Key, Screen};

/// Arguments of `leafctl top`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Keys: q quits; the arrow and page keys scroll.
Administrators see tags, stores, users and events. Others see only whether the daemon can issue
ids.")]
pub struct TopArgs {
    /// Update interval in milliseconds, from 100 to 60000
    #[arg(long, default_value_t = 1_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=60_000))]
    every_ms: u64,
}

/// How long an answer may take before the daemon counts as unavailable.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// How often to check the terminal's size.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Shows the state until the user quits.
pub fn run(socket: &Path, args: &TopArgs) -> Result<(), CommandError> {
    let mut screen = Screen::open()?;
    let mut lines: Vec<String> = Vec::new();
    let mut title = String::new();
    let mut due = Instant::now();
    let mut scrolled: usize = 0;
    let mut drawn = None;
    loop {
        let mut changed = false;
        if Instant::now() >= due {
            match ask(socket) {
                Ok(status) => (title, lines) = rendered(&status)?,
                Err(failure) => {
                    title = format!(
                        "the daemon doesn't answer; the values below are out of date: {failure}"
                    );
                }
            }
            due = Instant::now() + Duration::from_millis(args.every_ms);
            changed = true;
        }
        let size = screen.size();
        scrolled = scrolled.min(lines.len().saturating_sub(1));
        if changed || drawn != Some((size, scrolled)) {
            screen.show(&title, &lines[scrolled..], size)?;
            drawn = Some((size, scrolled));
        }
        let wait = due.saturating_duration_since(Instant::now()).min(LOOK_EVERY);
        let page = usize::from(size.lines) / 2;
        match screen.key(wait)? {
            Some(Key::Quit) => return Ok(()),
            Some(Key::Up) => scrolled = scrolled.saturating_sub(1),
            Some(Key::Down) => scrolled += 1,
            Some(Key::PageUp) => scrolled = scrolled.saturating_sub(page),
            Some(Key::PageDown) => scrolled += page,
            Some(Key::Other) | None => {}
        }
    }
}

/// The state as `leafctl status` prints it: the summary, and the lines below it.
fn rendered(status: &Snapshot) -> Result<(String, Vec<String>), CommandError> {
    let mut text = Vec::new();
    status::health(&mut text, &status.health)?;
    if let Some(held) = &status.snowflake.lease {
        writeln!(text)?;
        status::some(&mut text, "worker", status.snowflake.state.worker)?;
        status::lease(&mut text, &held.numbers)?;
    }
    status::body(&mut text, status)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut lines = text.lines().map(str::to_owned);
    Ok((lines.next().unwrap_or_default(), lines.collect()))
}

/// Uses a new client each time, because a client that waits for a missing daemon would notice its return late.
fn ask(socket: &Path) -> Result<Snapshot, CommandError> {
    let client = Client::builder().socket(socket).deadline(ANSWERS_WITHIN).build()?;
    request::status(&client)
}

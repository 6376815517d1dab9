//! `leafctl ping`: reports in the exit status whether the daemon answers.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap_complete::engine::ArgValueCompleter;
use leafd_client::{Client, Status};

use crate::complete;
use crate::failure::CommandError;
use crate::request;

/// Arguments of `leafctl ping`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status: 0 the daemon answers, and is ready for each --ready; 3 it doesn't answer; 4 it isn't
ready.

Examples:
  leafctl ping
  leafctl ping --ready segments --ready snowflake
  leafctl ping --ready orders                        for administrators only")]
pub struct PingArgs {
    /// Also require that these ids are available now: `segments`, `snowflake`, or the ids of a tag
    #[arg(long, value_name = "WHAT", add = ArgValueCompleter::new(complete::tags))]
    ready: Vec<String>,
    /// The maximum wait for an answer, in milliseconds, capped at 60000
    #[arg(long, default_value_t = 1_000, value_name = "MS")]
    within_ms: u64,
}

/// Queries the daemon and prints its answer.
pub fn run(socket: &Path, args: &PingArgs) -> Result<(), CommandError> {
    let limit = Duration::from_millis(args.within_ms);
    let client = Client::builder().socket(socket).deadline(limit).build()?;
    let begun = Instant::now();
    let info = client.info()?;
    let took_us = begun.elapsed().as_micros();
    writeln!(
        io::stdout(),
        "leafd {} (pid {}) answered in {took_us} us; segments {}, snowflake {}",
        info.release,
        info.pid,
        words(info.segments_ready),
        words(info.snowflake_ready),
    )?;
    for what in &args.ready {
        let ready = match what.as_str() {
            "segments" => info.segments_ready,
            "snowflake" => info.snowflake_ready,
            _ => false,
        };
        if !ready && let Some(why) = unready(&client, what)? {
            let words = format!("{what} not ready: {why}; run leafctl status for details");
            return Err(CommandError::NotReady(words));
        }
    }
    Ok(())
}

/// Why ids of a kind, or of a tag, are unavailable; `None` if they are available.
fn unready(client: &Client, what: &str) -> Result<Option<String>, CommandError> {
    let status = request::status(client)?;
    match what {
        "segments" | "snowflake" => Ok(status.unready(what)),
        _ if status.host.host.is_empty() => {
            Err(anyhow!("only administrators can check a tag; other users can check segments")
                .into())
        }
        tag => {
            let is_in_use = status.segments.tags.iter().any(|one| one.numbers.tag == tag);
            let why = status.tag_unready(tag);
            Ok(if why.is_some() || is_in_use { why } else { unknown(client, tag) })
        }
    }
}

/// Whether a tag that the daemon doesn't use is missing from the store. If the store doesn't answer, that is unknown.
fn unknown(client: &Client, tag: &str) -> Option<String> {
    let CommandError::Client(error) = request::show_tag(client, tag).err()? else { return None };
    let is_unknown = matches!(error.status(), Some(Status::TagUnknown | Status::TagInvalid));
    is_unknown.then(|| error.to_string())
}

fn words(ready: bool) -> &'static str {
    if ready { "ready" } else { "not ready" }
}

//! `leafctl ping`: the answer is the exit status.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use leafd_checkup::snapshot::PublicSnapshot;
use leafd_client::Client;
use serde_json::json;

use crate::failure::Failure;

/// What to ask.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 the daemon answers (and is ready for what --ready names), 3 it doesn't answer, \
    4 it is not ready.

Examples:
  leafctl ping
  leafctl ping --ready segments --ready snowflake"
)]
pub struct PingArgs {
    /// Also require that the daemon can issue ids of this kind now
    #[arg(long, value_enum, value_name = "KIND")]
    ready: Vec<Kind>,
    /// How long to wait for the answer, in milliseconds
    #[arg(long, default_value_t = 1_000, value_name = "MS")]
    within_ms: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A kind of ids.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    /// Of segment tags
    Segments,
    /// Of snowflake layouts
    Snowflake,
}

/// Asks.
pub fn run(socket: &Path, args: &PingArgs) -> Result<(), Failure> {
    let limit = Duration::from_millis(args.within_ms);
    let client = Client::builder().socket(socket).deadline(limit).build()?;
    let begun = Instant::now();
    let info = client.info()?;
    let took_us = begun.elapsed().as_micros();
    let mut out = io::stdout().lock();
    if args.json {
        let answer = json!({
            "release": info.release,
            "pid": info.pid,
            "us": u64::try_from(took_us).unwrap_or(u64::MAX),
            "segments_ready": info.segments_ready,
            "snowflake_ready": info.snowflake_ready,
        });
        writeln!(out, "{answer}")?;
    } else {
        writeln!(
            out,
            "leafd {} (pid {}) answered in {took_us} us; segments {}, snowflake {}",
            info.release,
            info.pid,
            words(info.segments_ready),
            words(info.snowflake_ready),
        )?;
    }
    for kind in &args.ready {
        let (name, ready) = match kind {
            Kind::Segments => ("segments", info.segments_ready),
            Kind::Snowflake => ("snowflake", info.snowflake_ready),
        };
        if !ready {
            return Err(Failure::NotReady(not_ready(&client, name)));
        }
    }
    Ok(())
}

/// The reason, from the daemon's status; `leafctl status` shows more.
fn not_ready(client: &Client, kind: &str) -> String {
    let status = client.status_json().ok();
    let status = status.and_then(|text| serde_json::from_str::<PublicSnapshot>(&text).ok());
    match status.and_then(|status| status.unready(kind)).filter(|why| !why.is_empty()) {
        Some(why) => format!("{kind} not ready: {why} (leafctl status says more)"),
        None => format!("{kind} not ready; leafctl status says why"),
    }
}

fn words(ready: bool) -> &'static str {
    if ready { "ready" } else { "not ready" }
}

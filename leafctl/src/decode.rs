//! `leafctl decode`: splits a snowflake id into its time, worker and sequence number.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, anyhow};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use leafd_client::{Client, Error, Layout};
use serde_json::json;

use crate::failure::CommandError;

/// Arguments of `leafctl decode`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Without a daemon, only Leaf's own layout, `snowflake`, is available.

Examples:
  leafctl decode 2124082651684941858
  leafctl decode 8123456789 --layout js53 --json")]
pub struct DecodeArgs {
    /// The id
    id: u64,
    /// The layout's name
    #[arg(long, default_value = "snowflake", value_name = "NAME")]
    layout: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Splits the id and prints its parts.
pub fn run(socket: &Path, args: &DecodeArgs) -> Result<(), CommandError> {
    let layout = layout(socket, &args.layout)?;
    let parts = layout.decompose(args.id).map_err(|error| {
        anyhow!("{} can't be an id of layout {:?}: {error}", args.id, args.layout)
    })?;
    let unix_ms = layout.tick_start_ms(parts.tick);
    let time = i64::try_from(unix_ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .with_context(|| format!("the time of {} is out of range", args.id))?;
    // As Leaf's own page shows it, plus the offset from UTC.
    let local = time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S%.3f %:z").to_string();
    let mut out = io::stdout().lock();
    if args.json {
        let decoded = json!({
            "id": args.id,
            "layout": args.layout,
            "unix_ms": unix_ms,
            "time": time.to_string(),
            "local": local,
            "worker": parts.worker,
            "sequence": parts.sequence,
        });
        writeln!(out, "{decoded}")?;
    } else {
        writeln!(out, "id        {}", args.id)?;
        writeln!(out, "layout    {}", args.layout)?;
        writeln!(out, "time      {time} ({unix_ms})")?;
        writeln!(out, "local     {local}")?;
        writeln!(out, "worker    {}", parts.worker)?;
        writeln!(out, "sequence  {}", parts.sequence)?;
    }
    Ok(())
}

fn layout(socket: &Path, name: &str) -> Result<Layout, CommandError> {
    match Client::builder().socket(socket).build()?.layout(name) {
        // Without a daemon, this name means Leaf's layout.
        Err(Error::Connect { .. }) if name == "snowflake" => {
            eprintln!(
                "leafctl: no daemon answers on {}; using Leaf's own layout",
                socket.display()
            );
            Ok(Layout::LEAF)
        }
        outcome => Ok(outcome?),
    }
}

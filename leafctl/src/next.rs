//! `leafctl next`: prints ids, one per line, millions per second.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use clap_complete::engine::ArgValueCompleter;
use leafd_client::Client;

use crate::complete;
use crate::failure::CommandError;

/// Arguments of `leafctl next`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  leafctl next orders
  leafctl next snowflake -n 10
  leafctl next orders -n 10000000 > ids        in batches; takes seconds
  leafctl next orders -n 100 --direct          one request per id; strictly increasing on this host")]
pub struct NextArgs {
    /// A segment tag, or a snowflake layout's name
    #[arg(add = ArgValueCompleter::new(complete::tags))]
    pub tag: String,
    /// Number of ids, at most 100,000,000
    #[arg(short = 'n', long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: u64,
    /// Draw each id directly, with a separate request, as a program without held runs does
    #[arg(long)]
    direct: bool,
    /// The deadline of each request, in milliseconds, capped at 60000
    #[arg(long, default_value_t = 2_000, value_name = "MS")]
    deadline_ms: u64,
}

/// The maximum number of ids, so that a mistyped number doesn't fill a disk or exhaust a tag.
const COUNT_MAX: u64 = 100_000_000;

/// How many ids one request draws: enough to make requests cheap, few enough to make each one
/// short.
const BATCH: u64 = 10_000;

/// Size of the output buffer, in bytes.
const OUTPUT_BYTES: usize = 1 << 18;

/// Draws and prints.
pub fn run(socket: &Path, args: &NextArgs) -> Result<(), CommandError> {
    let limit = Duration::from_millis(args.deadline_ms);
    let client = Client::builder().socket(socket).deadline(limit).direct(true).build()?;
    let tag = client.tag(&args.tag)?;
    let mut out = BufWriter::with_capacity(OUTPUT_BYTES, io::stdout());
    let mut left = args.count;
    while left > 0 {
        let count = if args.direct { 1 } else { left.min(BATCH) };
        for id in tag.next_batch(count)? {
            writeln!(out, "{id}")?;
        }
        left -= count;
    }
    Ok(out.flush()?)
}

//! `leafctl fleet`: the hosts that use this daemon's stores.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use leafd_checkup::duration;
use leafd_client::{Client, opcode};
use serde_json::{Value, json};

use crate::failure::CommandError;
use crate::request::{each_page, items, text};

/// Arguments of `leafctl fleet`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
STATE is
  active   the host has renewed its lease in the last minute, or has no lease and claimed ids in the
           last 20 minutes
  stopped  its daemon has stopped, and may return with the same worker until the lease ends
  GONE     it has stopped renewing its lease
  quiet    it has neither a lease nor a recent claim: idle, or gone
CLOCK is the difference from the registry's clock in seconds. The store records neither versions nor
reserves; the metrics leafd_build_info and leafd_tag_runway_seconds report them for each host.

If a store or the worker registry is unavailable, the command lists the hosts known to the other
sources, and exits with status 1.")]
pub struct FleetArgs {
    /// Also list quiet hosts
    #[arg(long)]
    all: bool,
    /// Print JSON, one host per line, and one line with the error of each unavailable source
    #[arg(long)]
    json: bool,
}

/// A lease is renewed at least every 10 s; a host that has not renewed it for this long is gone.
const GONE_AFTER_MS: u64 = 60_000;

/// The time limit is long, because a request to an unresponsive store takes several of the store's timeouts.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// Requests the list page by page, and prints it.
pub fn run(socket: &Path, args: &FleetArgs) -> Result<(), CommandError> {
    let client = Client::builder().socket(socket).deadline(ANSWERS_WITHIN).build()?;
    let mut out = io::stdout().lock();
    let mut header_due = !args.json;
    let mut left_out = 0;
    let mut away = BTreeMap::new();
    each_page(&client, opcode::FLEET, json!({}), "after", |page| {
        for (store, error) in page["stores_away"].as_object().into_iter().flatten() {
            away.insert(format!("store {store}"), error.clone());
        }
        if !page["registry_error"].is_null() {
            away.insert("worker registry".to_owned(), page["registry_error"].clone());
        }
        if header_due {
            writeln!(
                out,
                "{:<8} {:>6} {:>18} {:>18} {:>9}  {:<24} HOST",
                "STATE", "WORKER", "RENEWED AGO", "CLAIMED AGO", "CLOCK", "NAME"
            )?;
            header_due = false;
        }
        for host in items(&page["hosts"]) {
            let state = state(host);
            if state == "quiet" && !args.all {
                left_out += 1;
                continue;
            }
            if args.json {
                let mut host = host.clone();
                host["state"] = json!(state.to_lowercase());
                writeln!(out, "{host}")?;
                continue;
            }
            let lease = &host["lease"];
            let ago = |ms: &Value| ms.as_u64().map(duration).unwrap_or_default();
            let clock = lease["clock_offset_ms"].as_i64();
            writeln!(
                out,
                "{state:<8} {:>6} {:>18} {:>18} {:>9}  {:<24} {}{}",
                lease["worker"].as_u64().map(|worker| worker.to_string()).unwrap_or_default(),
                ago(&lease["written_ms_ago"]),
                ago(&host["claimed_ms_ago"]),
                clock.map(|ms| format!("{:+.3}", ms as f64 / 1_000.0)).unwrap_or_default(),
                text(&host["name"]),
                text(&host["host"]),
                if host["own"] == true { " (this host)" } else { "" },
            )?;
        }
        Ok(())
    })?;
    for (source, error) in away.iter().filter(|_| args.json) {
        writeln!(out, "{}", json!({ "state": "away", "source": source, "error": error }))?;
    }
    out.flush()?;
    if left_out > 0 {
        eprintln!("leafctl: {left_out} quiet hosts are omitted; --all lists them");
    }
    for (source, error) in &away {
        eprintln!("leafctl: the {source} is missing from this list: {}", text(error));
    }
    if away.is_empty() { Ok(()) } else { Err(CommandError::Reported(1)) }
}

fn state(host: &Value) -> &'static str {
    let lease = &host["lease"];
    let is_live = lease["left_ms"].as_u64() > Some(0);
    match lease["written_ms_ago"].as_u64() {
        Some(_) if is_live && lease["stopped"] == true => "stopped",
        Some(ago) if is_live && ago < GONE_AFTER_MS => "active",
        Some(_) => "GONE",
        None if !host["claimed_ms_ago"].is_null() => "active",
        None => "quiet",
    }
}

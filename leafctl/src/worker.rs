//! `leafctl worker`: the snowflake workers of the registry.

use std::io::{self, Write};
use std::path::Path;

use leafd_checkup::duration;
use leafd_client::{Client, opcode};
use serde_json::{Value, json};

use crate::failure::CommandError;
use crate::request::{ask, each_page, items};

/// The subcommands of `leafctl worker`.
#[derive(Debug, clap::Subcommand)]
pub enum WorkerCommand {
    /// List the workers that have ever had a holder
    List {
        /// Print JSON, one worker per line
        #[arg(long)]
        json: bool,
    },
    /// Release a lease: this daemon's own, or another host's
    ///
    /// This daemon's own worker is released at once; the next request for a snowflake id leases a worker again. During
    /// a registry outage the daemon keeps its worker, and the command fails. Another host loses its worker at the next
    /// renewal and leases a different one; the number becomes free when the old lease expires.
    Release {
        /// The worker's number [default: this daemon's own]
        #[arg(long, value_name = "N")]
        worker: Option<u64>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the subcommand.
pub fn run(socket: &Path, command: &WorkerCommand) -> Result<(), CommandError> {
    let client = Client::builder().socket(socket).build()?;
    match command {
        WorkerCommand::List { json } => list(&client, *json),
        WorkerCommand::Release { worker, json } => release(&client, *worker, *json),
    }
}

fn list(client: &Client, json: bool) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    let mut header_due = !json;
    each_page(client, opcode::WORKER_LIST, json!({}), "first", |page| {
        if header_due {
            writeln!(
                out,
                "{:>6} {:<10} {:>14} {:>14}  NAME",
                "WORKER", "STATE", "LEFT", "WRITTEN AGO"
            )?;
            header_due = false;
        }
        for row in items(&page["workers"]) {
            if json {
                writeln!(out, "{row}")?;
                continue;
            }
            let ms = |member: &str| duration(row[member].as_u64().unwrap_or(0));
            writeln!(
                out,
                "{:>6} {:<10} {:>14} {:>14}  {}",
                row["worker"].to_string(),
                state(row),
                ms("left_ms"),
                ms("written_ms_ago"),
                row["name"].as_str().unwrap_or("-")
            )?;
        }
        Ok(())
    })
}

fn state(row: &Value) -> &'static str {
    match (row["left_ms"].as_u64(), row["holder"].is_null(), row["stopped"].as_bool()) {
        (None | Some(0), ..) => "free",
        (_, true, _) => "released",
        (_, _, Some(true)) => "stopped",
        _ => "held",
    }
}

fn release(client: &Client, worker: Option<u64>, json: bool) -> Result<(), CommandError> {
    let body = worker.map_or(json!({}), |worker| json!({ "worker": worker }));
    let answer = ask(client, opcode::WORKER_RELEASE, &body)?;
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{answer}")?;
    } else if answer["own"] == true {
        writeln!(
            out,
            "released worker {}; the next request for a snowflake id leases one again",
            answer["worker"]
        )?;
    } else {
        let worker = &answer["worker"];
        writeln!(out, "released worker {worker}; it becomes free when its host's lease expires")?;
    }
    Ok(())
}

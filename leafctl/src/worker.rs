//! `leafctl worker`: the snowflake workers of the registry.

use std::io::{self, Write};
use std::path::Path;

use leafd_checkup::duration;
use leafd_checkup::snapshot::{Snapshot, Snowflake};
use leafd_client::{Client, opcode};
use serde_json::{Value, json};

use crate::failure::CommandError;
use crate::request::{ask, each_page};
use crate::status::{lease, line, some};

/// What to do about workers.
#[derive(Debug, clap::Subcommand)]
pub enum WorkerCommand {
    /// List the workers that have ever had a holder
    List {
        /// Print JSON, one worker per line
        #[arg(long)]
        json: bool,
    },
    /// Show this daemon's worker, its lease and its clock
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Release a lease: this daemon's own, or another host's
    ///
    /// This daemon's own worker is released at once; the next request for a snowflake id leases one again. During a
    /// registry outage the daemon keeps its worker, and the command fails. Another host loses its worker at the next
    /// renewal and leases a different one; the number is free when the old lease expires.
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
        WorkerCommand::Show { json } => show(&client, *json),
        WorkerCommand::Release { worker, json } => release(&client, *worker, *json),
    }
}

fn list(client: &Client, json: bool) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    let mut header_due = !json;
    each_page(client, opcode::WORKER_LIST, json!({}), ("workers", "first"), |workers| {
        if header_due {
            writeln!(
                out,
                "{:>6} {:<10} {:>14} {:>14}  NAME",
                "WORKER", "STATE", "LEFT", "WRITTEN AGO"
            )?;
            header_due = false;
        }
        for row in workers {
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

fn show(client: &Client, json: bool) -> Result<(), CommandError> {
    let answer = client.status_json()?;
    let mut out = io::stdout().lock();
    if json {
        let snowflake = &serde_json::from_str::<Value>(&answer)?["snowflake"];
        let members = ["registry", "worker", "worker_error", "lease"];
        let shown = members.map(|member| (member.to_owned(), snowflake[member].clone()));
        writeln!(out, "{}", Value::Object(shown.into_iter().collect()))?;
        return Ok(());
    }
    let status: Snapshot = serde_json::from_str(&answer)?;
    let Snowflake { state, worker_error, registry, lease: held, .. } = &status.snowflake;
    line(&mut out, "snowflake ready", state.ready)?;
    some(&mut out, "registry", Some(registry).filter(|registry| !registry.is_empty()))?;
    some(&mut out, "worker", state.worker)?;
    some(&mut out, "worker_error", worker_error.as_ref())?;
    let Some(held) = held else { return Ok(()) };
    if state.worker.is_none() && worker_error.is_none() {
        line(&mut out, "worker", "none; the next snowflake id leases one")?;
    }
    line(&mut out, "place", &held.place)?;
    line(&mut out, "holder", &held.holder)?;
    line(&mut out, "name", &held.name)?;
    Ok(lease(&mut out, &held.numbers)?)
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
            "released worker {}; the next snowflake id leases one again",
            answer["worker"]
        )?;
    } else {
        let worker = &answer["worker"];
        writeln!(out, "released worker {worker}; it is free when its host's lease expires")?;
    }
    Ok(())
}

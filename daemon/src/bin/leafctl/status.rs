//! `leafctl status`: what the daemon says of itself.

use std::path::Path;

use leafd_client::Client;
use serde_json::Value;

use crate::failure::Failure;

/// How to show it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Administrators see tags, rates and counters; others whether ids can be had."
)]
pub struct StatusArgs {
    /// Print the daemon's JSON as it is
    #[arg(long)]
    json: bool,
}

/// Asks and prints.
pub fn run(socket: &Path, args: &StatusArgs) -> Result<(), Failure> {
    let client = Client::builder().socket(socket).build()?;
    let answer = client.status_json()?;
    if args.json {
        println!("{answer}");
        return Ok(());
    }
    let status: Value = serde_json::from_str(&answer)?;
    let line = |name: &str, value: &Value| {
        if !value.is_null() {
            println!(
                "{name:<22} {}",
                value.as_str().map_or_else(|| value.to_string(), str::to_owned)
            );
        }
    };
    line("release", &status["release"]);
    line("pid", &status["pid"]);
    println!("{:<22} {}", "up", duration(status["uptime_ms"].as_u64().unwrap_or(0)));
    for name in ["host", "socket", "state_dir", "journal_set_aside", "journal_error"] {
        line(name, &status[name]);
    }
    let segments = &status["segments"];
    line("segments ready", &segments["ready"]);
    for name in ["store", "store_id", "store_error", "claims", "tags_in_use"] {
        line(name, &segments[name]);
    }
    let snowflake = &status["snowflake"];
    line("snowflake ready", &snowflake["ready"]);
    for name in ["registry", "worker"] {
        line(name, &snowflake[name]);
    }
    for name in ["connections", "requests", "requests_refused", "journal_commits"] {
        line(name, &status[name]);
    }
    table(&segments["tags"], "TAG", &["tag", "ids_per_second", "issued", "held", "waiting"]);
    table(&snowflake["layouts"], "LAYOUT", &["name", "issued", "clock_ahead_ms", "bound_ms"]);
    Ok(())
}

fn table(rows: &Value, title: &str, members: &[&str]) {
    let Some(rows) = rows.as_array().filter(|rows| !rows.is_empty()) else { return };
    print!("\n{title:<32}");
    members[1..].iter().for_each(|member| print!(" {:>16}", member.to_uppercase()));
    println!();
    for row in rows {
        print!("{:<32}", row[members[0]].as_str().unwrap_or_default());
        members[1..].iter().for_each(|member| print!(" {:>16}", row[*member].to_string()));
        println!();
    }
}

fn duration(ms: u64) -> String {
    let seconds = ms / 1_000;
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, _, _) => format!("{d} d {h} h"),
    }
}

//! `leafctl gaps`: why numbers of a tag are missing.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use clap::ValueEnum;
use clap_complete::engine::ArgValueCompleter;
use leafd_client::{Client, opcode};
use serde_json::{Value, json};

use crate::complete;
use crate::failure::CommandError;
use crate::request::{each_page, items, text};
use crate::tag::shown;
use crate::whose::{host, instant};

/// Arguments of `leafctl gaps`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A host knows what happened to each id only within its own claims. For another host's claims, run
this command on that host.

Examples:
  leafctl gaps orders 1..200000
  leafctl gaps orders 120000..129999 --json")]
pub struct GapsArgs {
    /// A segment tag
    #[arg(add = ArgValueCompleter::new(complete::tags))]
    pub tag: String,
    /// The first and the last number
    #[arg(value_name = "FIRST..LAST", value_parser = range)]
    range: (u64, u64),
    /// Print JSON, one range per line
    #[arg(long)]
    json: bool,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| text.parse::<u64>().ok();
    let ends = text.split_once("..").and_then(|(a, b)| Some((number(a)?, number(b)?)));
    ends.ok_or_else(|| "it must be two numbers, such as 1..200000".to_owned())
}

/// The output format of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Text,
    Csv,
    /// One range per line
    Json,
}

/// The columns of a CSV file.
const CELLS: [&str; 9] =
    ["first", "last", "first_text", "last_text", "why", "cause", "host", "name", "at_ms"];

/// Runs the command.
pub fn run(socket: &Path, args: &GapsArgs) -> Result<(), CommandError> {
    let client = Client::builder().socket(socket).build()?;
    let (first, last) = args.range;
    let output = if args.json { Output::Json } else { Output::Text };
    account(&client, json!({ "tag": args.tag, "first": first, "last": last }), output)
}

/// Requests the account page by page, and prints it. Numbers of a series are merged into as few ranges as possible.
pub fn account(client: &Client, body: Value, output: Output) -> Result<(), CommandError> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut last = Value::Null;
    each_page(client, opcode::GAPS, body, "first", |page| {
        if output == Output::Csv && last.is_null() {
            writeln!(out, "{}", CELLS.join(","))?;
        }
        for part in items(&page["parts"]) {
            if continues(&last, part) {
                for end in ["last", "last_text"] {
                    last[end] = part[end].clone();
                }
            } else {
                write_part(&mut out, &std::mem::replace(&mut last, part.clone()), output)?;
            }
        }
        Ok(())
    })?;
    write_part(&mut out, &last, output)?;
    Ok(out.flush()?)
}

/// Whether a part directly follows the one before and had the same fate. A dense series has a separate claim for every
/// few numbers.
fn continues(before: &Value, part: &Value) -> bool {
    let same = ["host", "why", "cause", "at_ms", "stride"].iter().all(|it| before[it] == part[it]);
    let next = before["last"].as_u64().map(|last| last + 1);
    same && part["stride"] == 1 && next == part["first"].as_u64() && part["first_text"].is_string()
}

fn write_part(out: &mut impl Write, part: &Value, output: Output) -> io::Result<()> {
    match output {
        _ if part.is_null() => Ok(()),
        Output::Json => writeln!(out, "{part}"),
        Output::Csv => {
            let cells = CELLS.map(|cell| shown(&part[cell]).replace('"', "\"\""));
            writeln!(out, "\"{}\"", cells.join("\",\""))
        }
        Output::Text => {
            // Each of several primaries issues one residue class of numbers.
            let steps = match part["stride"].as_u64() {
                Some(stride) if stride > 1 => format!(" in steps of {stride}"),
                _ => String::new(),
            };
            let mut numbers = format!("{}..{}{steps}", part["first"], part["last"]);
            if let (Some(first), Some(last)) =
                (part["first_text"].as_str(), part["last_text"].as_str())
            {
                numbers = format!("{first} to {last} ({numbers})");
            }
            writeln!(out, "{numbers}  {}", why(part))
        }
    }
}

/// Describes what happened to a range.
pub fn why(part: &Value) -> String {
    let at = instant(&part["at_ms"]).unwrap_or_default();
    let claimed = || {
        let at = instant(&part["claimed_ms"]).unwrap_or_default();
        let former = match part["earlier_tag"] == true {
            true => ", for a deleted tag of the same name",
            false => "",
        };
        format!("claimed by {} at {at}{former}", host(part, "host"))
    };
    match text(&part["why"]) {
        "not_claimed" => "not claimed yet".to_owned(),
        "primary_away" => {
            format!("unknown while primary {} is unavailable: ask again when it is back", text(&part["store"]))
        }
        "not_remembered" => "claimed before the oldest recorded claim, or below the tag's start".to_owned(),
        "by_none_of_leafds_hosts" => {
            "not claimed by a leafd host, but by Java Leaf, `leafctl tag raise`, or a host that records no claims"
                .to_owned()
        }
        "unused" => format!("never issued, because the period has ended; {}", claimed()),
        "held" if part["own"] == true => format!("held, not issued yet; {}", claimed()),
        "held" => format!("issued, held or skipped: ask that host; {}", claimed()),
        "issued" if part["own"] == true => {
            format!("issued; missing ids were drawn but not used; {}", claimed())
        }
        "issued" => format!("issued or skipped by {at}: ask that host; {}", claimed()),
        "issued_until_crash" => format!(
            "issued; missing ids at the end were skipped by the crash before {at}; {}",
            claimed()
        ),
        "lost" => format!("skipped: the host never got the store's answer to this claim; {}", claimed()),
        "dropped" => format!("skipped at {at}: {}; {}", cause(part), claimed()),
        other => format!("{other}; {}", claimed()),
    }
}

fn cause(part: &Value) -> &str {
    match text(&part["cause"]) {
        "ceiling" => "above a lowered ceiling",
        "removed" => "the tag was deleted, or the journal contradicted itself",
        "store" => {
            "the store failed over or was a different one, so other hosts may have claimed them"
        }
        "journal" => "the journal's state was uncertain at a start",
        "period" => "their period had ended when they arrived",
        "mask_key" => "the host lacked the tag's mask key",
        other => other,
    }
}

//! `leafctl whose`: which host issued an id, and when.

use std::io::{self, Write};
use std::path::Path;

use anyhow::anyhow;
use clap_complete::engine::ArgValueCompleter;
use jiff::Timestamp;
use leafd_client::{Client, opcode};
use serde_json::{Value, json};

use crate::complete;
use crate::failure::CommandError;
use crate::request::{ask, items, text};

/// Arguments of `leafctl whose`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The store keeps records of claims for as long as the setting claims_kept says, and records of worker
holders forever.

Examples:
  leafctl whose 2124082651684941858                 a snowflake id
  leafctl whose 123456 --tag orders
  leafctl whose ord_16dsky4r4xzza8d --tag orders    a public id")]
pub struct WhoseArgs {
    /// The id, or its public form
    id: String,
    /// A segment tag or a layout
    #[arg(long, default_value = "snowflake", value_name = "TAG", add = ArgValueCompleter::new(complete::tags))]
    tag: String,
    /// Size in bits of a public id in text form, from 20 to 63
    #[arg(long, default_value_t = 63, value_name = "N")]
    bits: u8,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Queries the daemon and prints the answer.
pub fn run(socket: &Path, args: &WhoseArgs) -> Result<(), CommandError> {
    let client = Client::builder().socket(socket).build()?;
    let id = number(&client, args)?;
    let body = json!({ "tag": args.tag, "id": id });
    let answer = ask(&client, opcode::WHOSE, &body)?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{answer}")?;
    } else if answer["claims"].is_array() {
        write_claims(&mut out, &answer)?;
    } else {
        writeln!(out, "{}", holder(&answer))?;
        write_processes(&mut out, &answer)?;
    }
    Ok(())
}

fn number(client: &Client, args: &WhoseArgs) -> Result<u64, CommandError> {
    if let Ok(number) = args.id.parse() {
        return Ok(number);
    }
    if args.tag == "snowflake" {
        return Err(anyhow!(
            "{:?} is not a number; for a public id, name its tag with --tag",
            args.id
        )
        .into());
    }
    let prefix = args.id.rsplit_once('_').map_or("", |(prefix, _)| prefix);
    let public = client.public_ids(&args.tag).prefix(prefix).bits(args.bits);
    let ids = public.unmask_text(std::slice::from_ref(&args.id))?;
    ids.first().copied().ok_or_else(|| anyhow!("the daemon returned no unmasked id").into())
}

fn write_claims(out: &mut impl Write, answer: &Value) -> io::Result<()> {
    let (tag, id, number) = (text(&answer["tag"]), &answer["id"], &answer["number"]);
    let subject = match id == number {
        true => format!("{tag} {id}"),
        false => format!("{tag} {id}, number {number},"),
    };
    let claims = items(&answer["claims"]);
    let since = instant(&answer["remembered_since_ms"]).map_or_else(
        || "no claims are recorded".to_owned(),
        |at| format!("claims are recorded since {at}"),
    );
    let nobody = match text(&answer["verdict"]) {
        "claimed" => "",
        "claimed_twice" => {
            writeln!(out, "{subject} was claimed {} times", claims.len())?;
            ""
        }
        "not_claimed" => "has not been claimed yet, so no leafd host can have issued it",
        "strict" => "belongs to a strict tag, whose claims are not recorded",
        "primary_away" => {
            let away: Vec<&str> = items(&answer["away"]).iter().map(text).collect();
            return writeln!(
                out,
                "{subject} may have been claimed in primary {}, which is unavailable; ask again when it is back",
                away.join(" and ")
            );
        }
        "by_none_of_leafds_hosts" => {
            "was not claimed by a leafd host, but by Java Leaf, `leafctl tag raise`, a higher start of the tag, or a host with \
             claims_kept = \"0s\""
        }
        _ => {
            return writeln!(
                out,
                "{subject} was claimed before the oldest recorded claim ({since}), or not by a leafd host"
            );
        }
    };
    if !nobody.is_empty() {
        return writeln!(out, "{subject} {nobody}");
    }
    claims.iter().try_for_each(|claim| writeln!(out, "{subject} {}", claimed(claim)))?;
    write_processes(out, answer)
}

/// Which processes of this host drew it.
fn write_processes(out: &mut impl Write, answer: &Value) -> io::Result<()> {
    items(&answer["processes"]).iter().try_for_each(|process| {
        let at = instant(&process["at_ms"]).unwrap_or_default();
        writeln!(out, "  issued to uid {}, pid {} at {at}", process["uid"], process["pid"])
    })
}

/// Describes one claim.
fn claimed(claim: &Value) -> String {
    let at = instant(&claim["claimed_ms"]).unwrap_or_default();
    let mut words = format!(
        "was claimed by {} at {at} as {} to {}",
        host(claim, "host"),
        claim["first"],
        claim["last"]
    );
    if claim["stride"] != 1 {
        words += &format!(" in steps of {}", claim["stride"]);
    }
    if claim["earlier_tag"] == true {
        words += ", for a deleted tag of the same name";
    }
    match instant(&claim["given_by_ms"]) {
        Some(by) => words += &format!("; issued or skipped by {by}"),
        None => words += "; that host may still hold it",
    }
    words
}

/// Describes who held a worker.
fn holder(answer: &Value) -> String {
    let (tag, id, worker) = (text(&answer["tag"]), &answer["id"], &answer["worker"]);
    let at = instant(&answer["at_ms"]).unwrap_or_default();
    let who = host(answer, "holder");
    let taken = instant(&answer["taken_ms"]).map_or(String::new(), |at| format!(", since {at}"));
    let until = instant(&answer["until_ms"]).map_or(String::new(), |at| format!(", until {at}"));
    let what = match text(&answer["verdict"]) {
        "held" => format!("was issued by {who}, which had worker {worker}{taken}{until}"),
        "not_held" => {
            format!("was issued while no host had worker {worker}; {who} had it{taken}{until}")
        }
        "no_history" if answer["name"].is_null() => {
            format!(
                "has worker {worker}, which no host holds now; ZooKeeper doesn't record former holders"
            )
        }
        "no_history" => format!(
            "has worker {worker}, which {who} holds now{until}; ZooKeeper doesn't record former holders"
        ),
        "never_held" => format!("has worker {worker}, which no host has ever held"),
        "in_the_future" => "has not been issued yet: its time is in the future".to_owned(),
        "no_registry" => format!(
            "has worker {worker}; this daemon leases no worker and can't tell which host had it: ask a daemon that does, or \
             check the setting worker on your hosts"
        ),
        _ => format!("has worker {worker}, whose holder at that time is not recorded"),
    };
    format!("{tag} {id} ({at}) {what}")
}

/// A host, by its name and by its id in the member `id`.
pub fn host(value: &Value, id: &str) -> String {
    let this = if value["own"] == true { ", this host" } else { "" };
    format!("{} (host {}{this})", text(&value["name"]), text(&value[id]))
}

/// Formats an instant.
pub fn instant(ms: &Value) -> Option<String> {
    let ms = i64::try_from(ms.as_u64()?).ok()?;
    Timestamp::from_millisecond(ms).ok().map(|at| at.to_string())
}

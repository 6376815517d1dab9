//! `leafctl tag`: create, list, show, change, raise and delete tags.

use std::io::{self, Write};
use std::path::Path;

use clap_complete::engine::ArgValueCompleter;
use leafd_checkup::percent_used;
use leafd_client::{Client, Status, opcode};
use serde_json::{Map, Value, json};

use crate::complete;
use crate::failure::CommandError;
use crate::status::{text, used};

/// What to do with tags.
#[derive(Debug, clap::Subcommand)]
pub enum TagCommand {
    /// Create a tag
    #[command(after_help = "\
Examples:
  leafctl tag create orders
  leafctl tag create invoices --start 500000 --step 100 --description 'invoice numbers'
  leafctl tag create legacy --ceiling 2147483647       for a 32-bit column
  leafctl tag create ledger --strict                   increasing across all hosts
  leafctl tag create tickets --masked 53               ids that reveal neither count nor order")]
    Create {
        /// The tag's name: 1 to 128 characters
        tag: String,
        /// The first id to issue, from 1 to 9223372036854775806; for a reused name, above all ids claimed before [default: 1]
        #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
        start: Option<u64>,
        /// The minimum number of ids in a claim [default: 1000]
        #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
        step: Option<u64>,
        /// The largest id that may ever be issued [default: 2^63 - 1]
        #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
        ceiling: Option<u64>,
        /// Make ids increase strictly across all hosts. They are never claimed ahead, so each one needs the store
        #[arg(long)]
        strict: bool,
        /// Issue ids of this many bits, from 20 to 63, that reveal neither count nor order
        #[arg(long, value_name = "BITS", conflicts_with = "strict", value_parser = clap::value_parser!(u8).range(20..=63))]
        masked: Option<u8>,
        /// The tag's purpose
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// Succeed without changes if the tag exists with the same --strict and --masked
        #[arg(long)]
        if_not_exists: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List tags, store by store, sorted by name within each store
    List {
        /// List only tags after this one
        #[arg(long, value_name = "TAG", add = ArgValueCompleter::new(complete::tags))]
        after: Option<String>,
        /// List only tags of this store
        #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(complete::stores))]
        store: Option<String>,
        /// List at most this many tags [default: all]
        #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
        limit: Option<u64>,
        /// Print JSON, one tag per line
        #[arg(long)]
        json: bool,
    },
    /// Show one tag
    Show {
        /// The tag's name
        #[arg(add = ArgValueCompleter::new(complete::tags))]
        tag: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change a tag's step, ceiling or description
    Set {
        /// The tag's name
        #[arg(add = ArgValueCompleter::new(complete::tags))]
        tag: String,
        /// The minimum number of ids in a claim from now on
        #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
        step: Option<u64>,
        /// The largest id that may ever be issued
        #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
        ceiling: Option<u64>,
        /// The tag's purpose; an empty text removes the description
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Raise a tag's next id, for example after restoring a backup
    ///
    /// This never lowers a tag. Hosts keep issuing the ids that they have already claimed.
    Raise {
        /// The tag's name
        #[arg(add = ArgValueCompleter::new(complete::tags))]
        tag: String,
        /// The lowest id that may be claimed from now on
        #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
        to: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what deleting a tag would lose, and delete it if --yes-delete repeats the name
    Delete {
        /// The tag's name
        #[arg(add = ArgValueCompleter::new(complete::tags))]
        tag: String,
        /// The tag's name again, to confirm the deletion
        #[arg(long, value_name = "TAG", add = ArgValueCompleter::new(complete::tags))]
        yes_delete: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl TagCommand {
    /// The tag that it is about, if it must exist.
    pub fn tag(&self) -> Option<&str> {
        match self {
            TagCommand::Show { tag, .. }
            | TagCommand::Set { tag, .. }
            | TagCommand::Raise { tag, .. }
            | TagCommand::Delete { tag, .. } => Some(tag),
            TagCommand::Create { .. } | TagCommand::List { .. } => None,
        }
    }
}

/// What a deletion does.
const DELETION: &str = "After the deletion, no host claims ids of the tag. This host stops issuing them at once, other hosts
within removed_tag_check (30 s); processes may use their held runs for up to 60 s. Claimed ids that have not been
issued are lost. The name can be reused only for ids above those claimed.";

/// The largest id.
const ID_MAX: u64 = i64::MAX as u64;

/// Masked ids with fewer bits can be found by trying many.
const FEW_BITS: u8 = 48;

/// How many tags one request lists.
const PAGE: u64 = 1_000;

/// Runs the subcommand.
pub fn run(socket: &Path, command: &TagCommand) -> Result<(), CommandError> {
    let client = Client::builder().socket(socket).build()?;
    match command {
        TagCommand::Create {
            tag,
            start,
            step,
            ceiling,
            strict,
            masked,
            description,
            if_not_exists,
            json,
        } => {
            let body = object(&[
                ("tag", Some(json!(tag))),
                ("start", start.map(Value::from)),
                ("step", step.map(Value::from)),
                ("ceiling", ceiling.map(Value::from)),
                ("strict", strict.then(|| json!(true))),
                ("masked", masked.map(Value::from)),
                ("description", description.clone().map(Value::from)),
            ]);
            match one(&client, opcode::TAG_CREATE, &body, *json) {
                Err(CommandError::Client(error))
                    if *if_not_exists && error.status() == Some(Status::TagExists) =>
                {
                    return existing(&client, tag, *strict, *masked, *json);
                }
                created => created?,
            }
            if let Some(bits) = masked.filter(|bits| *bits < FEW_BITS) {
                eprintln!(
                    "leafctl: ids of {bits} bits can be guessed: if a million are issued, one guess in {} hits one of them",
                    (1_u64 << bits) / 1_000_000
                );
            }
            Ok(())
        }
        TagCommand::Show { tag, json } => {
            one(&client, opcode::TAG_SHOW, &object(&[("tag", Some(json!(tag)))]), *json)
        }
        TagCommand::Set { tag, step, ceiling, description, json } => {
            let body = object(&[
                ("tag", Some(json!(tag))),
                ("step", step.map(Value::from)),
                ("ceiling", ceiling.map(Value::from)),
                ("description", description.clone().map(Value::from)),
            ]);
            one(&client, opcode::TAG_SET, &body, *json)
        }
        TagCommand::Raise { tag, to, json } => {
            one(&client, opcode::TAG_RAISE, &json!({"tag": tag, "to": to}), *json)
        }
        TagCommand::Delete { tag, yes_delete, json } => {
            delete(&client, tag, yes_delete.as_deref(), *json)
        }
        TagCommand::List { after, store, limit, json } => {
            list(&client, after.clone(), store.as_deref(), limit.unwrap_or(u64::MAX), *json)
        }
    }
}

/// Shows a tag that was to be created, if it is of the requested kind.
fn existing(
    client: &Client,
    tag: &str,
    strict: bool,
    masked: Option<u8>,
    json: bool,
) -> Result<(), CommandError> {
    let row: Value =
        serde_json::from_str(&client.admin(opcode::TAG_SHOW, &json!({"tag": tag}).to_string())?)?;
    if row["strict"] != json!(strict) || row["masked"] != json!(masked) {
        return Err(CommandError::Other(anyhow::anyhow!(
            "tag {tag:?} exists, but its kind (strict, masked) differs from the requested one and can't be changed; use \
             another name"
        )));
    }
    one(client, opcode::TAG_SHOW, &json!({"tag": tag}), json)
}

fn one(client: &Client, opcode: u8, body: &Value, json: bool) -> Result<(), CommandError> {
    let answer = client.admin(opcode, &body.to_string())?;
    let row: Value = serde_json::from_str(&answer)?;
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{answer}")?;
    } else {
        show(&mut out, &row)?;
    }
    out.flush()?;
    tell_of_primaries(&row);
    Ok(())
}

/// Reports which independent primaries the answer is missing something from.
fn tell_of_primaries(answer: &Value) {
    let names = |member: &str| {
        let names = answer[member].as_array().into_iter().flatten().map(text);
        names.collect::<Vec<_>>().join(", ")
    };
    let (away, without) = (names("primaries_away"), names("primaries_without"));
    if !away.is_empty() {
        eprintln!("leafctl: no answer from primary {away}; max_id there may be higher than shown");
    }
    if !without.is_empty() {
        eprintln!(
            "leafctl: primary {without} issues no ids of the tag, because its creation or deletion was interrupted; run the same command again"
        );
    }
}

fn show(out: &mut impl Write, row: &Value) -> Result<(), CommandError> {
    let members = [
        "tag",
        "max_id",
        "step",
        "ceiling",
        "strict",
        "masked",
        "generation",
        "description",
        "updated",
    ];
    for member in members {
        let value = text(&row[member]);
        if !value.is_empty() {
            writeln!(out, "{member:<12} {value}")?;
        }
    }
    Ok(())
}

/// Shows what will be lost. Deletes exactly that if the name is repeated.
fn delete(
    client: &Client,
    tag: &str,
    confirmed: Option<&str>,
    json: bool,
) -> Result<(), CommandError> {
    let answer = client.admin(opcode::TAG_SHOW, &json!({"tag": tag}).to_string())?;
    let row: Value = serde_json::from_str(&answer)?;
    if confirmed != Some(tag) {
        show(&mut io::stdout().lock(), &row)?;
        return Err(CommandError::Other(anyhow::anyhow!(
            "nothing was deleted. {DELETION}\nTo delete it: leafctl tag delete {tag:?} --yes-delete {tag:?}"
        )));
    }
    let body = json!({"tag": tag, "generation": row["generation"]});
    one(client, opcode::TAG_DELETE, &body, json)
}

fn list(
    client: &Client,
    mut after: Option<String>,
    only: Option<&str>,
    mut left: u64,
    json: bool,
) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    // Only once the first page is there: above an error, the header would look like an empty list.
    let mut header_due = !json;
    let mut store = only.map(str::to_owned);
    while left > 0 {
        let body = object(&[
            ("after", after.take().map(Value::from)),
            ("limit", Some(json!(left.min(PAGE)))),
            ("store", store.clone().map(Value::from)),
        ]);
        let page: Value =
            serde_json::from_str(&client.admin(opcode::TAG_LIST, &body.to_string())?)?;
        let rows = page["tags"].as_array().map_or(&[][..], Vec::as_slice);
        if header_due {
            writeln!(
                out,
                "{:<32} {:>20} {:>12} {:<6} {:>20} {:<22}  DESCRIPTION",
                "TAG", "MAX_ID", "STEP", "STRICT", "CEILING", "USED"
            )?;
            header_due = false;
        }
        for row in rows {
            // The largest id limits every tag, so it is not shown as a ceiling.
            let ceiling = row["ceiling"].as_u64().filter(|ceiling| *ceiling < ID_MAX);
            if json {
                writeln!(out, "{row}")?;
            } else {
                writeln!(
                    out,
                    "{:<32} {:>20} {:>12} {:<6} {:>20} {:<22}  {}",
                    text(&row["tag"]),
                    text(&row["max_id"]),
                    text(&row["step"]),
                    match (&row["strict"], &row["masked"]) {
                        (Value::Bool(true), _) => "strict",
                        (_, Value::Number(_)) => "masked",
                        _ => "",
                    },
                    ceiling.map(|ceiling| ceiling.to_string()).unwrap_or_default(),
                    used(ceiling.map(|ceiling| percent_used(
                        row["max_id"].as_u64().unwrap_or(0).saturating_sub(1),
                        ceiling
                    ))),
                    text(&row["description"]),
                )?;
            }
        }
        left -= left.min(rows.len() as u64);
        out.flush()?;
        tell_of_primaries(&page);
        let more = !page["next"].is_null() || only.is_none() && !page["next_store"].is_null();
        if left == 0 && more {
            out.flush()?;
            eprintln!(
                "leafctl: there are more tags; list them with a larger --limit, or with --after"
            );
        }
        match (page["next"].as_str(), page["next_store"].as_str()) {
            (Some(next), _) => after = Some(next.to_owned()),
            (None, Some(next)) if only.is_none() => store = Some(next.to_owned()),
            _ => break,
        }
    }
    Ok(())
}

/// A number as it was typed. Which ones a tag may have is the daemon's to say.
fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("it must be a whole number from 0 to {}, without a sign", u64::MAX))
}

/// The members that have a value.
fn object(members: &[(&str, Option<Value>)]) -> Value {
    let members =
        members.iter().filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?)));
    Value::Object(Map::from_iter(members))
}

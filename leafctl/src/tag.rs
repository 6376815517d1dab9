//! `leafctl tag`: create, list, show, change, raise and delete tags.

use std::io::{self, Write};
use std::path::Path;

use clap_complete::engine::ArgValueCompleter;
use leafd_checkup::percent_used;
use leafd_client::{Client, Status, opcode};
use leafd_wire::text::shell_word;
use serde::Serialize;
use serde_json::{Value, json};

use crate::complete;
use crate::failure::CommandError;
use crate::request::{Pages, ask, items, show_tag};
use crate::status::used;

/// The subcommands of `leafctl tag`.
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
    Create(CreateArgs),
    /// List tags, store by store, sorted by name within each store
    List(ListArgs),
    /// Show one tag
    Show(ShowArgs),
    /// Change a tag's step, ceiling or description
    Set(SetArgs),
    /// Raise a tag's next id, for example after restoring a backup
    ///
    /// This never lowers a tag. Hosts keep issuing the ids that they have already claimed.
    Raise(RaiseArgs),
    /// Show what deleting a tag would lose, and delete it if --yes-delete repeats the name
    Delete(DeleteArgs),
}

/// A tag to create. As JSON it is the request's body.
#[derive(Debug, clap::Args, Serialize)]
pub struct CreateArgs {
    /// The tag's name: 1 to 128 characters
    tag: String,
    /// The first id to issue, from 1 to 9223372036854775806; for a reused name, above all ids claimed before [default: 1]
    #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<u64>,
    /// The minimum number of ids in a claim, from 1 to 2147483647 [default: 1000]
    #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
    /// The largest id that may ever be issued, from 1 to 2^63 - 1 [default: 2^63 - 1]
    #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    ceiling: Option<u64>,
    /// Make ids increase strictly across all hosts. While several hosts draw, each request waits for the store
    #[arg(long)]
    strict: bool,
    /// Issue ids of this many bits, from 20 to 63, that reveal neither count nor order
    #[arg(long, value_name = "BITS", conflicts_with = "strict", value_parser = clap::value_parser!(u8).range(20..=63))]
    masked: Option<u8>,
    /// The tag's purpose, at most 256 characters
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Succeed without changes if the tag exists with the same --strict and --masked
    #[arg(long)]
    #[serde(skip)]
    if_not_exists: bool,
    /// Print JSON
    #[arg(long)]
    #[serde(skip)]
    json: bool,
}

/// Which tags to list.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
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
}

/// The tag to show.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The tag's name
    #[arg(add = ArgValueCompleter::new(complete::tags))]
    tag: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A change of a tag. As JSON it is the request's body.
#[derive(Debug, clap::Args, Serialize)]
pub struct SetArgs {
    /// The tag's name
    #[arg(add = ArgValueCompleter::new(complete::tags))]
    tag: String,
    /// The minimum number of ids in a claim from now on, from 1 to 2147483647
    #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
    step: Option<u64>,
    /// The largest id that may ever be issued, from 1 to 2^63 - 1
    #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
    ceiling: Option<u64>,
    /// The tag's purpose, at most 256 characters; an empty text removes the description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Print JSON
    #[arg(long)]
    #[serde(skip)]
    json: bool,
}

/// How far to raise a tag. As JSON it is the request's body.
#[derive(Debug, clap::Args, Serialize)]
pub struct RaiseArgs {
    /// The tag's name
    #[arg(add = ArgValueCompleter::new(complete::tags))]
    tag: String,
    /// The lowest id that may be claimed from now on, from 1 to 2^63 - 1
    #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
    to: u64,
    /// Print JSON
    #[arg(long)]
    #[serde(skip)]
    json: bool,
}

/// The tag to delete.
#[derive(Debug, clap::Args)]
pub struct DeleteArgs {
    /// The tag's name
    #[arg(add = ArgValueCompleter::new(complete::tags))]
    tag: String,
    /// The tag's name again, to confirm the deletion
    #[arg(long, value_name = "TAG", add = ArgValueCompleter::new(complete::tags))]
    yes_delete: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl TagCommand {
    /// The tag to which the subcommand applies, if it must exist.
    pub fn tag(&self) -> Option<&str> {
        match self {
            TagCommand::Show(ShowArgs { tag, .. })
            | TagCommand::Set(SetArgs { tag, .. })
            | TagCommand::Raise(RaiseArgs { tag, .. })
            | TagCommand::Delete(DeleteArgs { tag, .. }) => Some(tag),
            TagCommand::Create(_) | TagCommand::List(_) => None,
        }
    }
}

/// What a deletion does.
const DELETION: &str = "After the deletion, no host claims ids of the tag. This host stops issuing them at once, other hosts
within removed_tag_check (30 s); processes may use their held runs for up to 60 s. Claimed ids that have not been
issued are lost. The name can be reused only for ids above those claimed.";

/// The members of a tag to show.
const MEMBERS: [&str; 9] = [
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

/// The largest id.
const ID_MAX: u64 = i64::MAX as u64;

/// Masked ids with fewer bits can be guessed by trying many.
const FEW_BITS: u8 = 48;

/// How many tags one request lists.
const PAGE: u64 = 1_000;

/// Runs the subcommand.
pub fn run(socket: &Path, command: &TagCommand) -> Result<(), CommandError> {
    let client = Client::builder().socket(socket).build()?;
    let change = |opcode, body, json| print(&ask(&client, opcode, &body)?, json);
    match command {
        TagCommand::Create(args) => create(&client, args),
        TagCommand::List(args) => list(&client, args),
        TagCommand::Show(args) => print(&show_tag(&client, &args.tag)?, args.json),
        TagCommand::Set(args) => change(opcode::TAG_SET, json!(args), args.json),
        TagCommand::Raise(args) => change(opcode::TAG_RAISE, json!(args), args.json),
        TagCommand::Delete(args) => delete(&client, args),
    }
}

fn create(client: &Client, args: &CreateArgs) -> Result<(), CommandError> {
    let row = match ask(client, opcode::TAG_CREATE, &json!(args)) {
        Err(CommandError::Client(error))
            if args.if_not_exists && error.status() == Some(Status::TagExists) =>
        {
            existing(client, args)?
        }
        created => created?,
    };
    print(&row, args.json)?;
    if let Some(bits) = args.masked.filter(|bits| *bits < FEW_BITS) {
        eprintln!(
            "leafctl: ids of {bits} bits can be guessed: if a million are issued, one guess in {} hits one of them",
            (1_u64 << bits) / 1_000_000
        );
    }
    Ok(())
}

/// The existing tag, if it is of the requested kind.
fn existing(client: &Client, args: &CreateArgs) -> Result<Value, CommandError> {
    let CreateArgs { tag, strict, masked, .. } = args;
    let row = show_tag(client, tag)?;
    if row["strict"] != json!(strict) || row["masked"] != json!(masked) {
        return Err(CommandError::Other(anyhow::anyhow!(
            "tag {tag:?} exists, but its kind (strict, masked) differs from the requested one and can't be changed; use \
             another name"
        )));
    }
    Ok(row)
}

/// Prints a tag.
fn print(row: &Value, json: bool) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{row}")?;
    } else {
        show(&mut out, row, &MEMBERS)?;
    }
    out.flush()?;
    tell_of_primaries(row);
    Ok(())
}

/// Reports the independent primaries that did not answer, and those that don't have the tag.
fn tell_of_primaries(answer: &Value) {
    let names = |member: &str| {
        let names = items(&answer[member]).iter().map(shown);
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

/// Writes those of a row's members that have a value, one per line.
pub fn show(out: &mut impl Write, row: &Value, members: &[&str]) -> Result<(), CommandError> {
    for member in members {
        let value = shown(&row[*member]);
        if !value.is_empty() {
            writeln!(out, "{member:<14} {value}")?;
        }
    }
    Ok(())
}

/// Shows what would be lost, and deletes exactly that if the name is repeated.
fn delete(client: &Client, args: &DeleteArgs) -> Result<(), CommandError> {
    let DeleteArgs { tag, yes_delete, json } = args;
    let row = show_tag(client, tag)?;
    if yes_delete.as_ref() != Some(tag) {
        let word = shell_word(tag);
        show(&mut io::stdout().lock(), &row, &MEMBERS)?;
        return Err(CommandError::Other(anyhow::anyhow!(
            "nothing was deleted. {DELETION}\nTo delete it: leafctl tag delete {word} --yes-delete {word}"
        )));
    }
    let body = json!({"tag": tag, "generation": row["generation"]});
    print(&ask(client, opcode::TAG_DELETE, &body)?, *json)
}

fn list(client: &Client, args: &ListArgs) -> Result<(), CommandError> {
    let (mut after, mut store) = (args.after.clone(), args.store.clone());
    let (mut left, mut pages) = (args.limit.unwrap_or(u64::MAX), Pages::default());
    let mut out = io::stdout().lock();
    // Printed only with the first page, because above an error the header would look like an empty list.
    let mut header_due = !args.json;
    while left > 0 {
        let body = json!({"after": after, "limit": left.min(PAGE), "store": store});
        let page = ask(client, opcode::TAG_LIST, &body)?;
        if header_due {
            writeln!(
                out,
                "{:<32} {:>20} {:>12} {:<6} {:>20} {:<22}  DESCRIPTION",
                "TAG", "MAX_ID", "STEP", "STRICT", "CEILING", "USED"
            )?;
            header_due = false;
        }
        let rows = items(&page["tags"]);
        for row in rows {
            if args.json {
                writeln!(out, "{row}")?;
            } else {
                list_row(&mut out, row)?;
            }
        }
        left -= left.min(rows.len() as u64);
        out.flush()?;
        tell_of_primaries(&page);
        (after, store) = match (page["next"].as_str(), page["next_store"].as_str()) {
            (Some(next), _) => (Some(next.to_owned()), store),
            (None, Some(next)) if args.store.is_none() => (None, Some(next.to_owned())),
            _ => return Ok(()),
        };
        pages.follow(&json!([after, store]))?;
    }
    eprintln!("leafctl: there are more tags; list them with a larger --limit, or with --after");
    Ok(())
}

fn list_row(out: &mut impl Write, row: &Value) -> io::Result<()> {
    // The largest id limits every tag, so it is not shown as a ceiling.
    let ceiling = row["ceiling"].as_u64().filter(|ceiling| *ceiling < ID_MAX);
    let claimed_to = row["max_id"].as_u64().unwrap_or(0).saturating_sub(1);
    writeln!(
        out,
        "{:<32} {:>20} {:>12} {:<6} {:>20} {:<22}  {}",
        shown(&row["tag"]),
        shown(&row["max_id"]),
        shown(&row["step"]),
        match (&row["strict"], &row["masked"]) {
            (Value::Bool(true), _) => "strict",
            (_, Value::Number(_)) => "masked",
            _ => "",
        },
        ceiling.map(|ceiling| ceiling.to_string()).unwrap_or_default(),
        used(ceiling.map(|ceiling| percent_used(claimed_to, ceiling))),
        shown(&row["description"]),
    )
}

/// A number as it was typed. The daemon decides which numbers a tag may have.
fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("it must be a whole number from 0 to {}, without a sign", u64::MAX))
}

/// A value without JSON's quotes; an empty text for null.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        value => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}

//! `leafctl tag`: create, list, show and change tags.

use std::io::{self, Write};
use std::path::Path;

use leafd_client::{Client, opcode};
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// What to do with tags.
#[derive(Debug, clap::Subcommand)]
pub enum TagCommand {
    /// Create a tag
    #[command(after_help = "\
Examples:
  leafctl tag create orders
  leafctl tag create invoices --start 500000 --step 100 --description 'invoice numbers'
  leafctl tag create legacy --ceiling 2147483647       for a 32-bit column")]
    Create {
        /// Its name: 1 to 128 characters
        tag: String,
        /// The first number to issue [default: 1]
        #[arg(long, value_name = "N")]
        start: Option<u64>,
        /// The smallest claim, and what a quiet host claims at once [default: 1000]
        #[arg(long, value_name = "N")]
        step: Option<u64>,
        /// The largest number that may ever be issued [default: 2^63 - 1]
        #[arg(long, value_name = "N")]
        ceiling: Option<u64>,
        /// What it is for
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List tags, in byte order of their names
    List {
        /// Start after this tag
        #[arg(long, value_name = "TAG")]
        after: Option<String>,
        /// At most so many; without it all of them
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
        /// Print JSON, one tag a line
        #[arg(long)]
        json: bool,
    },
    /// Show one tag
    Show {
        /// Its name
        tag: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change a tag's step, ceiling or description
    Set {
        /// Its name
        tag: String,
        /// The smallest claim from now on, and what a quiet host claims at once
        #[arg(long, value_name = "N")]
        step: Option<u64>,
        /// The largest number that may ever be issued
        #[arg(long, value_name = "N")]
        ceiling: Option<u64>,
        /// What it is for; empty text removes it
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Tags asked for at once.
const PAGE: u64 = 1_000;

/// Does it.
pub fn run(socket: &Path, command: &TagCommand) -> Result<(), Failure> {
    let client = Client::builder().socket(socket).build()?;
    match command {
        TagCommand::Create { tag, start, step, ceiling, description, json } => {
            let body = object(&[
                ("tag", Some(json!(tag))),
                ("start", start.map(Value::from)),
                ("step", step.map(Value::from)),
                ("ceiling", ceiling.map(Value::from)),
                ("description", description.clone().map(Value::from)),
            ]);
            one(&client, opcode::TAG_CREATE, &body, *json)
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
        TagCommand::List { after, limit, json } => {
            list(&client, after.clone(), limit.unwrap_or(u64::MAX), *json)
        }
    }
}

fn one(client: &Client, opcode: u8, body: &Value, json: bool) -> Result<(), Failure> {
    let answer = client.admin(opcode, &body.to_string())?;
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{answer}")?;
        return Ok(());
    }
    let row: Value = serde_json::from_str(&answer)?;
    for member in ["tag", "max_id", "step", "ceiling", "generation", "description", "updated"] {
        writeln!(out, "{member:<12} {}", plain(&row[member]))?;
    }
    Ok(())
}

fn list(
    client: &Client,
    mut after: Option<String>,
    mut left: u64,
    json: bool,
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    // After the first page only: above an error it would look like an empty list.
    let mut header_due = !json;
    while left > 0 {
        let body = object(&[
            ("after", after.take().map(Value::from)),
            ("limit", Some(json!(left.min(PAGE)))),
        ]);
        let page: Value =
            serde_json::from_str(&client.admin(opcode::TAG_LIST, &body.to_string())?)?;
        let rows = page["tags"].as_array().map_or(&[][..], Vec::as_slice);
        if header_due {
            writeln!(out, "{:<32} {:>20} {:>12}  DESCRIPTION", "TAG", "MAX_ID", "STEP")?;
            header_due = false;
        }
        for row in rows {
            if json {
                writeln!(out, "{row}")?;
            } else {
                writeln!(
                    out,
                    "{:<32} {:>20} {:>12}  {}",
                    plain(&row["tag"]),
                    plain(&row["max_id"]),
                    plain(&row["step"]),
                    plain(&row["description"]),
                )?;
            }
        }
        left -= left.min(rows.len() as u64);
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    Ok(())
}

/// The members that are there.
fn object(members: &[(&str, Option<Value>)]) -> Value {
    let members =
        members.iter().filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?)));
    Value::Object(Map::from_iter(members))
}

/// A value without JSON's quotes; nothing for null.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

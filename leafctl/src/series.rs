//! `leafctl series`: document numbers, with a count for each period.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use leafd_client::{Client, opcode};
use serde::Serialize;
use serde_json::json;

use crate::failure::CommandError;
use crate::gaps::{self, Output, why};
use crate::request::{ask, items, text};
use crate::tag::show;

/// The subcommands for series.
#[derive(Debug, clap::Subcommand)]
pub enum SeriesCommand {
    /// Create a series
    #[command(after_help = "\
Examples:
  leafctl series create invoices --format 'INV-{yyyy}-{n:6}' --timezone Europe/Berlin
  leafctl series create orders --format 'ORD-{tenant}-{yyyy}{MM}{dd}-{n:5}' --retention-days 400
  leafctl series create receipts --format 'R{yy}-{n:7}{check}' --overflow refuse --dense")]
    Create(CreateArgs),
    /// List series
    List {
        /// Print JSON, one series per line
        #[arg(long)]
        json: bool,
    },
    /// Draw numbers, and print one per line
    #[command(after_help = "\
Examples:
  leafctl series next invoices                      INV-2026-000123
  leafctl series next orders --tenant acme -n 3     ORD-ACME-20261124-00017 ...")]
    Next {
        /// The series' name
        series: String,
        /// The tenant, for a series with tenants
        #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
        tenant: String,
        /// The number of document numbers to draw, at most 1,000,000
        #[arg(short = 'n', long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        count: u32,
    },
    /// Check whether a number is valid and was issued
    Check {
        /// The number, such as INV-2026-000123
        number: String,
    },
    /// Show what happened to each number of a period
    ///
    /// A host knows what happened to each number only within its own claims. For another host's claims, run this
    /// command on that host.
    #[command(after_help = "\
Examples:
  leafctl series account invoices 2026
  leafctl series account orders 2026-11-24 --tenant acme --output csv")]
    Account(AccountArgs),
}

/// A series to create. As JSON it is the request's body.
#[derive(Debug, clap::Args, Serialize)]
pub struct CreateArgs {
    /// The series' name: a lower-case letter, then up to 39 letters, digits, _ and -
    series: String,
    /// The format of the numbers: text, with fields in braces
    ///
    /// {yyyy} or {yy}         the year; without a date, the count never starts over
    /// {q}, {MM}, {ww}        with the year: the quarter, the month, the ISO week
    /// {dd}                   with year and month: the day
    /// {n:6}, {n:6:base32}    the number, with at least 6 digits
    /// {tenant}               the tenant, in capitals; each tenant has its own counts
    /// {check}                at the end: two check digits (ISO 7064, MOD 97-10)
    #[arg(long, value_name = "TEXT", verbatim_doc_comment)]
    format: String,
    /// The IANA time zone in which periods begin
    #[arg(long, value_name = "NAME", default_value = "UTC")]
    timezone: String,
    /// What to do when a period needs more numbers than fit the format: write longer ones, or refuse to draw
    #[arg(long, value_parser = ["grow", "refuse"], default_value = "grow")]
    overflow: String,
    /// Claim numbers only when they are drawn, so gaps are rare; every draw needs the store
    #[arg(long)]
    dense: bool,
    /// The maximum number of tenants of the series, at least 1
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    tenants_max: u32,
    /// Delete the count of a period this many days after its end [default: never]
    #[arg(long, value_name = "DAYS")]
    retention_days: Option<u32>,
}

/// Arguments of `leafctl series account`.
#[derive(Debug, clap::Args)]
pub struct AccountArgs {
    /// The series' name
    series: String,
    /// The period, such as 2026, 2026-Q4, 2026-11, 2026-W48 or 2026-11-24 [default: the current one]
    period: Option<String>,
    /// The tenant, for a series with tenants
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    tenant: String,
    /// The output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// The members of a series to show.
const MEMBERS: [&str; 7] =
    ["series", "format", "timezone", "period", "overflow", "dense", "retention_days"];

/// Runs the subcommand.
pub fn run(socket: &Path, command: &SeriesCommand) -> Result<(), CommandError> {
    let client = Client::builder().socket(socket).build()?;
    let mut out = BufWriter::new(io::stdout().lock());
    match command {
        SeriesCommand::Create(args) => {
            show(&mut out, &ask(&client, opcode::SERIES_CREATE, &json!(args))?, &MEMBERS)?;
        }
        SeriesCommand::List { json } => {
            for row in items(&ask(&client, opcode::SERIES_LIST, &json!({}))?["series"]) {
                if *json {
                    writeln!(out, "{row}")?;
                } else {
                    show(&mut out, row, &MEMBERS)?;
                    writeln!(out)?;
                }
            }
        }
        SeriesCommand::Next { series, tenant, count } => {
            for number in client.series(series).tenant(tenant).next_batch(*count)? {
                writeln!(out, "{number}")?;
            }
        }
        SeriesCommand::Check { number } => check(&client, number, &mut out)?,
        SeriesCommand::Account(args) => account(&client, args)?,
    }
    Ok(out.flush()?)
}

fn check(client: &Client, number: &str, out: &mut impl Write) -> Result<(), CommandError> {
    let answer = ask(client, opcode::SERIES_CHECK, &json!({ "text": number }))?;
    for found in items(&answer["found"]) {
        let (tag, period, number) = (&found["tag"], text(&found["period"]), &found["number"]);
        let body = json!({ "tag": tag, "first": number, "last": number });
        let issued = match ask(client, opcode::GAPS, &body) {
            Ok(account) => why(&account["parts"][0]),
            Err(error) if error.is_unknown_tag() => {
                "not issued: its period has no numbers".to_owned()
            }
            Err(error) => format!("its issuer is unknown: {error}"),
        };
        writeln!(out, "valid: number {number} of {period} ({}); {issued}", text(tag))?;
    }
    Ok(())
}

fn account(client: &Client, args: &AccountArgs) -> Result<(), CommandError> {
    let AccountArgs { series, period, tenant, output } = args;
    let answer = ask(client, opcode::SERIES_LIST, &json!({}))?;
    let known = items(&answer["series"]).iter().find(|row| row["series"] == **series);
    let row = known.ok_or_else(|| {
        anyhow::anyhow!("there is no series {series:?}; list them with leafctl series list")
    })?;
    let present = text(&row["period"]);
    let period = period.as_deref().unwrap_or(present);
    let slash = if tenant.is_empty() { "" } else { "/" };
    let tag = format!("{}{}{slash}{period}", text(&row["tags"]), tenant.to_lowercase());
    match gaps::account(client, json!({ "tag": tag, "first": 1 }), *output) {
        Err(error) if error.is_unknown_tag() => Err(CommandError::Other(anyhow::anyhow!(
            "tag {tag:?} doesn't exist: check the period (the current one is {present}) and --tenant; a period without \
             numbers has no tag, and retention deletes old ones"
        ))),
        done => done,
    }
}

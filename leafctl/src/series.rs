//! `leafctl series`: document numbers, with a count for each period.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use leafd_client::{Client, opcode};
use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::CommandError;
use crate::gaps::why;
use crate::request::{ask, each_page, items, text};
use crate::tag::shown;

/// The subcommands for series.
#[derive(Debug, clap::Subcommand)]
pub enum SeriesCommand {
    /// Create a series
    #[command(after_help = "\
A format consists of text and these fields:
  {yyyy} {yy} {q} {MM} {ww} {dd}  the period: a year, or with {q}, {MM}, {ww}, or {MM} and {dd}
                                  a quarter, month, ISO week or day; without any of them, the
                                  count never starts over
  {n:6}, {n:6:base32}             the number, with at least 6 digits
  {tenant}                        the tenant, in capitals: each has counts of its own
  {check}                         at the end: two check digits by ISO 7064, MOD 97-10

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
        /// How many numbers
        #[arg(short = 'n', long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        count: u32,
        /// The deadline, in milliseconds
        #[arg(long, default_value_t = 2_000, value_name = "MS")]
        deadline_ms: u64,
    },
    /// Read a number, and check whether it is valid and was issued
    Check {
        /// The number, such as INV-2026-000123
        number: String,
        /// The series; by default, every series is tried
        #[arg(long, value_name = "NAME")]
        series: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what happened to each number of a period
    #[command(after_help = "\
A host knows what happened to each number only for its own claims. For another host's claims, run
this command on that host.

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
    /// How its numbers are written
    #[arg(long, value_name = "TEXT")]
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
    /// How many tenants the series may have
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    tenants_max: u32,
    /// Delete the count of a period this many days after its end [default: never]
    #[arg(long, value_name = "DAYS")]
    retention_days: Option<u32>,
    /// Print JSON
    #[arg(long)]
    #[serde(skip)]
    json: bool,
}

/// Which period to account for.
#[derive(Debug, clap::Args)]
pub struct AccountArgs {
    /// The series' name
    series: String,
    /// The period, such as 2026, 2026-Q4, 2026-11, 2026-W48 or 2026-11-24 [default: the present one]
    period: Option<String>,
    /// The tenant, for a series with tenants
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    tenant: String,
    /// The form of the output
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Csv,
    /// One part per line
    Json,
}

/// Runs the subcommand.
pub fn run(socket: &Path, command: &SeriesCommand) -> Result<(), CommandError> {
    let client = Client::builder().socket(socket);
    match command {
        SeriesCommand::Create(args) => {
            let row = ask(&client.build()?, opcode::SERIES_CREATE, &json!(args))?;
            print(&[row], args.json)
        }
        SeriesCommand::List { json } => {
            let answer = ask(&client.build()?, opcode::SERIES_LIST, &json!({}))?;
            print(items(&answer["series"]), *json)
        }
        SeriesCommand::Next { series, tenant, count, deadline_ms } => {
            let client = client.deadline(Duration::from_millis(*deadline_ms)).build()?;
            let mut out = BufWriter::new(io::stdout().lock());
            for number in client.series(series).tenant(tenant).next_batch(*count)? {
                writeln!(out, "{number}")?;
            }
            Ok(out.flush()?)
        }
        SeriesCommand::Check { number, series, json } => {
            let body = json!({ "text": number, "series": series });
            check(&client.build()?, &body, *json)
        }
        SeriesCommand::Account(args) => account(&client.build()?, args),
    }
}

fn print(rows: &[Value], json: bool) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    if json {
        return Ok(rows.iter().try_for_each(|row| writeln!(out, "{row}"))?);
    }
    let columns = ["series", "format", "timezone", "period", "overflow", "dense", "retention_days"];
    let mut line = |[series, format, timezone, period, overflow, dense, days]: [String; 7]| {
        writeln!(
            out,
            "{series:<20} {format:<40} {timezone:<20} {period:<12} {overflow:<8} {dense:<6} {days}"
        )
    };
    line(columns.map(str::to_ascii_uppercase))?;
    Ok(rows.iter().try_for_each(|row| line(columns.map(|column| shown(&row[column]))))?)
}

fn check(client: &Client, body: &Value, json: bool) -> Result<(), CommandError> {
    let mut answer = ask(client, opcode::SERIES_CHECK, body)?;
    let mut out = io::stdout().lock();
    for one in answer["found"].as_array_mut().into_iter().flatten() {
        let (tag, number) = (&one["tag"], &one["number"]);
        let asked = json!({ "tag": tag, "first": number, "last": number });
        let found = ask(client, opcode::GAPS, &asked).map(|mut answer| answer["parts"][0].take());
        if json {
            one["issued"] = found.unwrap_or_default();
            writeln!(out, "{one}")?;
            continue;
        }
        let tenant = match text(&one["tenant"]) {
            "" => String::new(),
            tenant => format!(" of tenant {tenant}"),
        };
        let (period, series) = (text(&one["period"]), text(&one["series"]));
        let issued = match found {
            Ok(part) => why(&part),
            Err(error) if error.is_unknown_tag() => {
                "not issued: its period has no numbers".to_owned()
            }
            Err(error) => format!("its issuer is unknown: {error}"),
        };
        writeln!(out, "valid; number {number} of {period}{tenant} in series {series}; {issued}")?;
    }
    Ok(())
}

fn account(client: &Client, args: &AccountArgs) -> Result<(), CommandError> {
    let AccountArgs { series, period, tenant, output } = args;
    let body = json!({ "series": series, "tenant": tenant, "period": period, "first": 1 });
    let (mut parts, mut heading): (Vec<Value>, _) = Default::default();
    each_page(client, opcode::SERIES_ACCOUNT, body, "first", |page| {
        let ended = page["ended"] == true;
        heading = format!(
            "{series} {}: numbers up to {} are claimed{}",
            text(&page["period"]),
            page["claimed_to"],
            if ended { "" } else { ", so far" }
        );
        for part in items(&page["parts"]) {
            let mut part = part.clone();
            if ended && part["why"] == "held" && part["own"] == true {
                part["why"] = json!("unused");
            }
            match parts.last_mut().filter(|last| continues(last, &part)) {
                Some(last) => {
                    (last["last"], last["last_text"]) =
                        (part["last"].take(), part["last_text"].take());
                }
                None => parts.push(part),
            }
        }
        for primary in items(&page["away"]) {
            eprintln!("leafctl: no answer from primary {}: its numbers are missing", text(primary));
        }
        Ok(())
    })?;
    let mut out = BufWriter::new(io::stdout().lock());
    match output {
        Output::Text => writeln!(out, "{heading}")?,
        Output::Csv => writeln!(out, "{}", CELLS.join(","))?,
        Output::Json => {}
    }
    for part in parts {
        match output {
            Output::Text => {
                let (first, last) = (text(&part["first_text"]), text(&part["last_text"]));
                let (from, to) = (&part["first"], &part["last"]);
                writeln!(out, "{first} to {last} ({from}..{to})  {}", why(&part))?;
            }
            Output::Csv => {
                let cells = CELLS.map(|cell| shown(&part[cell]).replace('"', "\"\""));
                writeln!(out, "\"{}\"", cells.join("\",\""))?;
            }
            Output::Json => writeln!(out, "{part}")?,
        }
    }
    Ok(out.flush()?)
}

/// The columns of a CSV file.
const CELLS: [&str; 9] =
    ["first", "last", "first_text", "last_text", "why", "cause", "host", "name", "at_ms"];

/// Whether a part continues where the one before ended, and the same happened to it. A dense series has a claim for each
/// few numbers.
fn continues(before: &Value, part: &Value) -> bool {
    let same = ["host", "why", "cause", "at_ms", "stride"].iter().all(|it| before[it] == part[it]);
    let next = before["last"].as_u64().map(|last| last + 1);
    same && part["stride"] == 1 && next == part["first"].as_u64()
}

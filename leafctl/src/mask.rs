//! `leafctl mask` and `leafctl unmask`: convert dense ids to public ones and back.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use clap_complete::engine::ArgValueCompleter;
use leafd_client::{Client, PublicIds};

use crate::complete;
use crate::failure::CommandError;

/// Arguments of `leafctl mask` and `leafctl unmask`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  leafctl mask orders 17                     16dsky4r4xzza8d
  leafctl mask orders 17 --prefix ord        ord_16dsky4r4xzza8d
  leafctl mask orders 17 --number --bits 53  a number that fits JavaScript
  leafctl unmask orders ord_16dsky4r4xzza8d --prefix ord

To unmask, pass the same --prefix, --bits and --number as when masking.")]
pub struct MaskArgs {
    /// A segment tag
    #[arg(add = ArgValueCompleter::new(complete::tags))]
    pub tag: String,
    /// The ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// The prefix of public ids, without the _ that follows it: at most 32 lower-case letters, digits and _
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "TEXT",
        conflicts_with = "number"
    )]
    prefix: String,
    /// Size of the ids in bits, from 20 to 63
    #[arg(long, default_value_t = 63, value_name = "N")]
    bits: u8,
    /// Use numbers as public ids instead of text
    #[arg(long)]
    number: bool,
    /// The number of the key for public ids in number form, from 1 to 31 [default: the one in use]
    #[arg(long, value_name = "N", requires = "number", value_parser = clap::value_parser!(u8).range(1..=31))]
    key: Option<u8>,
}

/// Prints the public ids of dense ones, one a line.
pub fn mask(socket: &Path, args: &MaskArgs) -> Result<(), CommandError> {
    let client = Client::builder().socket(socket).build()?;
    let (public, ids) = (args.public(&client), args.numbers()?);
    if args.number { lines(public.mask(&ids)?) } else { lines(public.mask_text(&ids)?) }
}

/// Prints the dense ids of public ones, one a line.
pub fn unmask(socket: &Path, args: &MaskArgs) -> Result<(), CommandError> {
    let client = Client::builder().socket(socket).build()?;
    let public = args.public(&client);
    lines(match args.number {
        true => public.unmask(&args.numbers()?)?,
        false => public.unmask_text(&args.ids)?,
    })
}

impl MaskArgs {
    fn public(&self, client: &Client) -> PublicIds {
        let public = client.public_ids(&self.tag).prefix(&self.prefix).bits(self.bits);
        public.key(self.key.unwrap_or(0))
    }

    fn numbers(&self) -> Result<Vec<u64>, CommandError> {
        let parsed = self.ids.iter().map(|id| {
            id.parse().map_err(|_| {
                let why = if self.number { "is not a number" } else { "is not an id of the tag" };
                CommandError::Other(anyhow::anyhow!("{id:?} {why}"))
            })
        });
        parsed.collect()
    }
}

fn lines(items: Vec<impl std::fmt::Display>) -> Result<(), CommandError> {
    let mut out = BufWriter::new(io::stdout());
    for item in items {
        writeln!(out, "{item}")?;
    }
    out.flush()?;
    Ok(())
}

//! `leafctl metrics`: prints metrics, or writes them for collectors that read files, such as node_exporter's textfile
//! collector.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use leafd_client::Client;
use leafd_wire::text::clean;

use crate::failure::CommandError;

/// Arguments of `leafctl metrics`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Only administrators of the daemon may use this command (setting admin_uids).

Examples:
  leafctl metrics
  leafctl metrics --output /var/lib/prometheus/node-exporter/leafd.prom")]
pub struct MetricsArgs {
    /// Replace this file atomically instead of printing; remove it if the daemon doesn't answer
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Queries the daemon and writes its metrics.
pub fn run(socket: &Path, args: &MetricsArgs) -> Result<(), CommandError> {
    let asked = Client::builder().socket(socket).build().and_then(|client| client.metrics_text());
    let asked = asked.map(|text| text.lines().map(|line| clean(line) + "\n").collect::<String>());
    let Some(file) = &args.output else {
        let mut out = io::stdout().lock();
        out.write_all(asked?.as_bytes())?;
        return Ok(out.flush()?);
    };
    // Replacing or removing a device would break it for every program.
    if fs::symlink_metadata(file).is_ok_and(|found| !found.is_file()) {
        return Err(anyhow!("{} is not a regular file; choose another path", file.display()).into());
    }
    match asked {
        Ok(text) => Ok(replace(file, &text)?),
        Err(error) => {
            // The numbers of a dead daemon would look current.
            let _ = fs::remove_file(file);
            Err(error.into())
        }
    }
}

/// Writes another file and renames it, so a collector reads either the old or the new text. The folder may belong to a
/// user who is trusted less than the caller, so an existing file or link is replaced, never followed.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut fresh = file.as_os_str().to_owned();
    fresh.push(".new");
    let write = || {
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut created = File::create_new(&fresh)?;
        created.write_all(text.as_bytes())?;
        fs::rename(&fresh, file)
    };
    let written = write();
    written.map_err(|error| {
        let _ = fs::remove_file(&fresh);
        io::Error::new(error.kind(), format!("can't write {}: {error}", file.display()))
    })
}

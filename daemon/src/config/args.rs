//! The command line's part of the configuration.

use std::path::PathBuf;

/// Arguments that give settings. Flatten them into a command with `#[command(flatten)]`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// Configuration file (TOML) to read [environment: LEAFD_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Unix socket that clients connect to, such as /run/leafd/leafd.sock
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Directory of the journal, such as /var/lib/leafd; one daemon a directory
    #[arg(long, value_name = "PATH")]
    pub state_dir: Option<PathBuf>,

    /// Where ids are claimed, such as sqlite:/var/lib/leafd/store.db or postgres://leafd@db1,db2/ids
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,

    /// Where the snowflake worker number comes from: store, zookeeper, none, or static:N such as static:17
    #[arg(long, value_name = "SPEC")]
    pub worker: Option<String>,

    /// Any setting by its key, such as autonomy=30m or 'admin_uids=[0, 1000]'; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Examples at the end of a help page.
pub const EXAMPLES: &str = "\
Examples:
  leafd                                         SQLite in the user's own folders
  leafd --store postgres://leafd@db/ids         ids and worker numbers from a database shared by many hosts
  leafd --worker static:17                      snowflake ids as worker 17, which no other host may use
  leafd --config /etc/leafd/leafd.toml          a configuration file
  LEAFD_LOG=debug leafd --set autonomy=30m      one setting from the environment, one by its key

An argument beats the environment, the environment beats the file, and the file beats the default.";

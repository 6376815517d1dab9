//! The command line's part of the configuration.

use std::path::PathBuf;

/// Arguments that contain settings. Flatten them into a command with `#[command(flatten)]`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// Configuration file (TOML) to read [env: LEAFD_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Unix socket that clients connect to, such as /run/leafd/leafd.sock
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Directory of the journal, such as /var/lib/leafd; each daemon needs its own
    #[arg(long, value_name = "PATH")]
    pub state_dir: Option<PathBuf>,

    /// URL of the store, such as sqlite:/var/lib/leafd/store.db or postgres://leafd@db1,db2/ids
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,

    /// Source of the snowflake worker number: store, zookeeper, none, or static:N such as static:17
    #[arg(long, value_name = "SPEC")]
    pub worker: Option<String>,

    /// Set any setting, such as autonomy=30m or 'admin_uids=[0, 1000]'; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Examples at the end of a help page.
pub const EXAMPLES: &str = "\
Examples:
  leafd                                       use SQLite in the user's own directories
  leafd --store postgres://leafd@db/ids       share a database with other hosts
  leafd --worker static:17                    use worker 17, which no other host may use
  leafd --config /etc/leafd/leafd.toml        use a configuration file
  LEAFD_LOG=debug leafd --set autonomy=30m    set one setting in the environment, one in an argument

Arguments override the environment, which overrides the file, which overrides the defaults.";

//! What the daemon is told to do: settings from arguments, environment and file become typed values
//! once, here, and nothing after this reads text from an operator again.
//!
//! Every setting has one flat key. It is the key in the TOML file, `LEAFD_` and the key in capitals in
//! the environment, and `--set KEY=VALUE` (some have an argument of their own) on the command line. An
//! argument beats the environment, the environment beats the file, the file beats the default; a
//! setting is taken whole from one of them, lists and tables included.
//!
//! - `settings`: the table of settings; the single source of keys, defaults and ranges.
//! - `sources`: collects what was given where, and refuses what no setting is called.
//! - `value`, `reader`: from given text to typed values, with the errors.
//! - `access`, `layouts`, `routing`, `store_url`, `password`, `types`: the settings that are more than a number.

mod access;
mod args;
mod error;
mod layouts;
mod password;
mod paths;
mod reader;
mod routing;
mod settings;
mod sources;
mod store_url;
mod types;
mod value;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use access::{AccessRules, Peer};
pub use args::{Args, EXAMPLES};
pub use error::{ConfigError, Source};
pub use layouts::Layouts;
pub use password::StorePassword;
pub use reader::Effective;
pub use routing::{Primary, Routing, StoreSpec, TagHome};
pub use settings::{Kind, SETTINGS, Setting, settings_help, settings_markdown};
pub use sources::Surroundings;
pub use store_url::{Endpoint, NetworkUrl, StoreUrl, Tls};
pub use types::{LogFilter, LogFormat, SocketGroup, WorkerSpec};

use reader::Reader;

/// Everything that an operator can decide. Each field is the setting of the same name in [`SETTINGS`],
/// which says what it does.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect.
    pub socket: PathBuf,
    /// The socket file's permission bits, 0o600 to 0o777.
    pub socket_mode: u32,
    /// The group that the socket file is given to.
    pub socket_group: Option<SocketGroup>,
    /// Where the journal lives.
    pub state_dir: PathBuf,
    /// Where numbers are claimed, and which tags where.
    pub routing: Routing,
    /// How long each server of a network store may take to let us in.
    pub store_connect_timeout: Duration,
    /// How long one call of a network store may take.
    pub store_statement_timeout: Duration,
    /// How long claims wait after a store's fail-over.
    pub failover_settle: Duration,
    /// Whether a network store is used although leafd's tables are not to be seen there.
    pub leaf_only: bool,
    /// Where the snowflake worker's number comes from; it fits every layout in [`Config::layouts`].
    pub worker: WorkerSpec,
    /// Where worker numbers are locked, host-wide.
    pub worker_lock_dir: PathBuf,
    /// Sets this daemon apart from others on the same machine.
    pub identity: Option<String>,
    /// How long the host goes on without the store.
    pub autonomy: Duration,
    /// Most numbers in one claim that is made ahead of need; from 1.
    pub max_step: u64,
    /// How far the journal's marks move ahead of use.
    pub mark_ahead: Duration,
    /// How far the logical clock may run ahead of the wall clock.
    pub max_drift: Duration,
    /// How often the tags in use are looked up in the store.
    pub removed_tag_check: Duration,
    /// Most connections at once; from 1.
    pub connections_max: usize,
    /// Most requests that wait for one tag; from 1.
    pub waiters_max: usize,
    /// How long a stop may take.
    pub stop_within: Duration,
    /// Whether to poll for a moment before sleeping, while requests are coming.
    pub polling: bool,
    /// What is logged.
    pub log: LogFilter,
    /// How it is written.
    pub log_format: LogFormat,
    /// Who may draw which tags, and who may administer.
    pub access: AccessRules,
    /// Named snowflake layouts; `snowflake` is always one of them.
    pub layouts: Layouts,
    /// Every setting as it took effect, in the order of [`SETTINGS`].
    pub effective: Vec<Effective>,
}

impl Config {
    /// Reads arguments, the process's environment and the file that either of them names.
    ///
    /// # Errors
    /// [`ConfigError`] for the first setting that can't be used.
    pub fn load(args: &Args) -> Result<Config, ConfigError> {
        Config::load_from(args, &Surroundings::of_this_process())
    }

    /// Like [`Config::load`] with the process's surroundings as an argument.
    ///
    /// # Errors
    /// See [`Config::load`].
    pub fn load_from(args: &Args, around: &Surroundings) -> Result<Config, ConfigError> {
        let mut read = Reader::new(sources::collect(args, around)?);
        let socket = read.computed(&settings::SOCKET, || paths::socket(around), types::socket)?;
        let state_dir =
            read.computed(&settings::STATE_DIR, || paths::state_dir(around), types::path)?;
        let routing = routing(&mut read, &state_dir, around)?;
        let layouts = read.value(&settings::LAYOUTS, layouts::parse)?;
        let worker = read.value(&settings::WORKER, |node| types::worker(node, &layouts))?;
        let admin_uids = read.value(&settings::ADMIN_UIDS, access::parse_ids)?;
        let admin_gids = read.value(&settings::ADMIN_GIDS, access::parse_ids)?;
        let rules = read.value(&settings::ACCESS, access::parse_rules)?;
        Ok(Config {
            socket,
            socket_mode: read.value(&settings::SOCKET_MODE, types::mode)?,
            socket_group: read.optional(&settings::SOCKET_GROUP, types::group)?,
            state_dir,
            routing,
            store_connect_timeout: read.duration(&settings::STORE_CONNECT_TIMEOUT)?,
            store_statement_timeout: read.duration(&settings::STORE_STATEMENT_TIMEOUT)?,
            failover_settle: read.duration(&settings::FAILOVER_SETTLE)?,
            leaf_only: read.boolean(&settings::LEAF_ONLY)?,
            worker,
            worker_lock_dir: read.value(&settings::WORKER_LOCK_DIR, types::path)?,
            identity: read.optional(&settings::IDENTITY, types::identity)?,
            autonomy: read.duration(&settings::AUTONOMY)?,
            max_step: read.integer(&settings::MAX_STEP)?,
            mark_ahead: read.duration(&settings::MARK_AHEAD)?,
            max_drift: read.duration(&settings::MAX_DRIFT)?,
            removed_tag_check: read.duration(&settings::REMOVED_TAG_CHECK)?,
            connections_max: read.count(&settings::CONNECTIONS_MAX)?,
            waiters_max: read.count(&settings::WAITERS_MAX)?,
            stop_within: read.duration(&settings::STOP_WITHIN)?,
            polling: read.boolean(&settings::POLLING)?,
            log: read.value(&settings::LOG, types::log)?,
            log_format: read.value(&settings::LOG_FORMAT, types::log_format)?,
            access: AccessRules::compile(rules, admin_uids, admin_gids, around.uid),
            layouts,
            effective: read.finish(),
        })
    }

    /// Every setting with its value and where that came from, as lines of a TOML file.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = String::new();
        for line in &self.effective {
            out.push_str(&line.to_string());
            out.push('\n');
        }
        out
    }
}

/// The stores: one, or several with routes to them.
fn routing(
    read: &mut Reader,
    state_dir: &Path,
    around: &Surroundings,
) -> Result<Routing, ConfigError> {
    let stores = read.optional(&settings::STORES, |node| routing::parse_stores(node, around))?;
    let Some(stores) = stores else {
        let store_default = || Ok(format!("sqlite:{}", state_dir.join("store.db").display()));
        let url = read.computed(&settings::STORE, store_default, store_url::parse)?;
        let file = read.optional(&settings::STORE_PASSWORD_FILE, types::path)?;
        read.value(&settings::ROUTES, |node| match node.list()? {
            [] => Ok(()),
            _ => Err(node.bad_for("nothing without stores, which names them")),
        })?;
        return Ok(Routing::sole(url, password::find(file, around)));
    };
    for alone in [&settings::STORE, &settings::STORE_PASSWORD_FILE] {
        read.optional(alone, |node| -> Result<(), _> {
            Err(node.bad_for("nothing beside stores, which names every store"))
        })?;
    }
    read.value(&settings::ROUTES, |node| Routing::of(stores, node))
}

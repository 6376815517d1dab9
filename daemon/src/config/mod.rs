//! The daemon's configuration. Settings from arguments, environment and file are parsed into typed values here, once.
//! No other code parses an operator's text.
//!
//! Every setting has one flat key. It is the key in the TOML file, `LEAFD_` and the key in capitals in the environment,
//! and `--set KEY=VALUE` on the command line (some have an argument of their own). Arguments override the environment,
//! which overrides the file, which overrides the defaults. A setting comes from exactly one of them, even if it is a
//! list or a table.
//!
//! - `settings`: the table of settings in `settings.toml`, the single source of keys, defaults, ranges
//!   and texts.
//! - `sources`: collects which values were given where, and refuses unknown names.
//! - `value`, `reader`: from text to typed values, with the errors.
//! - `stores`, `store_url`, `password`: where numbers are claimed; `routes`, `routing`, `hash`: which store a tag
//!   belongs to.
//! - `workers`: where the snowflake worker comes from.
//! - `backend`: which of these this program was built with.
//! - `http`: where HTTP is served.
//! - `mask_keys`: the keys of public ids; `regular_file`: reads such files.
//! - `access`, `layouts`, `pattern`, `types`: the other settings that are more than a number.

mod access;
mod args;
mod backend;
mod env;
mod error;
mod hash;
mod http;
mod layouts;
mod mask_keys;
mod password;
mod paths;
mod pattern;
mod reader;
mod regular_file;
mod routes;
mod routing;
mod settings;
mod sources;
mod store_url;
mod stores;
mod types;
mod value;
mod workers;
pub mod zookeeper;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use access::{AccessRules, Peer};
pub use args::{Args, EXAMPLES};
pub(crate) use backend::FEATURES;
pub use backend::NotBuilt;
pub use env::Env;
pub use error::{ConfigError, Source};
pub use http::{HttpAddress, LeafHttp};
pub use layouts::Layouts;
pub use mask_keys::read_mask_keys;
pub use password::{StorePassword, variable_of as password_variable};
pub use reader::Effective;
pub use regular_file::read_regular_file;
pub use routes::PRIMARIES_MAX;
pub use routing::{PrimaryRole, ROLE_BYTES_MAX, Routing, parse_primary};
pub use settings::{SECTIONS, Section, Setting, ValueKind, is_reloaded, settings, settings_help};
pub(crate) use sources::is_password;
#[cfg(feature = "http")]
pub(crate) use store_url::percent_decoded;
pub use store_url::{Endpoint, NetworkUrl, StoreUrl, Tls};
pub use stores::StoreSpec;
pub use types::{LogFormat, SocketGroup};
pub use workers::WorkerSpec;

use leafd_core::segment::PrefetchPolicy;
use reader::Reader;
use tracing_subscriber::filter::Targets;

use leafd_core::registry::Mode;
pub use zookeeper::{LeafAddress, LeafName, Servers};

/// Stores are not probed more often than this, however short `failover_settle` is.
const STORE_CHECK_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Everything that an operator can decide. Each field is the setting of the same name in [`SECTIONS`], which describes
/// it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect.
    pub socket: PathBuf,
    /// The socket file's permission bits, 0o600 to 0o777.
    pub socket_mode: u32,
    /// The group that owns the socket file.
    pub socket_group: Option<SocketGroup>,
    /// The directory of the journal.
    pub state_dir: PathBuf,
    /// The stores, and which tags belong to which: `store`, or `stores` and `routes`.
    pub routing: Routing,
    /// How long a login at each server of a network store may take.
    pub store_connect_timeout: Duration,
    /// How long one call of a network store may take.
    pub store_statement_timeout: Duration,
    /// How long claims wait after a store's fail-over.
    pub failover_settle: Duration,
    /// Whether a network store is used even if leafd's tables are not visible there.
    pub leaf_only: bool,
    /// Whether a network store is used on a database engine that leafd was not tested on.
    pub untested_engine: bool,
    /// Where the snowflake worker's number comes from; it fits every layout in [`Config::layouts`].
    pub worker: WorkerSpec,
    /// How a worker is claimed.
    pub worker_mode: Mode,
    /// How far ahead a worker is claimed.
    pub lease: Duration,
    /// Which workers may be claimed; all fit every layout.
    pub worker_range: Range<u64>,
    /// How long a worker is kept after a clean stop.
    pub restart_grace: Duration,
    /// How far the clock may be off.
    pub clock_threshold: Duration,
    /// The daemon's login for ZooKeeper.
    pub zookeeper_auth: StorePassword,
    /// The Leaf service that permanent workers in ZooKeeper belong to.
    pub leaf_name: Option<LeafName>,
    /// Whether that service may be new, beside others on the same ensemble.
    pub leaf_name_new: bool,
    /// The host's name: the configured identity, otherwise the host's own name.
    pub host_name: String,
    /// Where worker numbers are locked, host-wide.
    pub worker_lock_dir: PathBuf,
    /// Distinguishes this daemon from others on the same machine.
    pub identity: Option<String>,
    /// How long ids should last without the store.
    pub autonomy: Duration,
    /// The maximum number of ids in a claim ahead of need; from 1.
    pub max_step: u64,
    /// How far the journal's marks move ahead of use.
    pub mark_ahead: Duration,
    pub strict_hold: Duration,
    /// How far the logical clock may run ahead of the wall clock.
    pub max_drift: Duration,
    /// How often the tags in use are looked up in the store.
    pub removed_tag_check: Duration,
    /// How long the store keeps records of claims; zero: not at all.
    pub claims_kept: Duration,
    /// How long an unused tag stays in memory.
    pub tag_idle: Duration,
    /// The maximum number of connections; from 1.
    pub connections_max: usize,
    /// How much memory all peers together can make the daemon use.
    pub peer_memory_bytes: u64,
    /// The maximum number of requests that wait for one tag; from 1.
    pub waiters_max: usize,
    /// The number of draws whose processes are remembered.
    pub draws_kept: usize,
    /// How long a stop may take.
    pub stop_within: Duration,
    /// Whether to poll for a moment before sleeping, while requests are coming.
    pub polling: bool,
    /// The file of the keys of public ids, if there is one.
    pub mask_key_file: Option<PathBuf>,
    /// What is logged.
    pub log: Targets,
    /// The format of the log.
    pub log_format: LogFormat,
    /// Where Leaf's own paths are served by HTTP, if they are.
    pub leaf_http: Option<SocketAddr>,
    /// Who may use them, and how often.
    pub leaf_http_callers: LeafHttp,
    /// The file of the token that callers must send.
    pub leaf_http_token_file: Option<PathBuf>,
    /// How many tags get their own time series.
    pub metrics_tags: usize,
    /// Where metrics and health are served by HTTP, if they are.
    pub http: Option<HttpAddress>,
    /// Who may draw which tags, and who may administer.
    pub access: AccessRules,
    /// Named snowflake layouts, never none.
    pub layouts: Layouts,
    /// Every setting as it took effect, in the order of [`SECTIONS`].
    pub effective: Vec<Effective>,
}

impl Config {
    /// Reads arguments, the process's environment, and the file that one of them names.
    ///
    /// # Errors
    /// [`ConfigError`] for the first setting that can't be used, including one that this program was built without.
    pub fn load(args: &Args) -> Result<Config, ConfigError> {
        Config::load_from(args, &Env::of_this_process())?.require_built()
    }

    /// As [`Config::load`], but with the process's surroundings as an argument, and for a program with all features.
    ///
    /// # Errors
    /// See [`Config::load`].
    pub fn load_from(args: &Args, env: &Env) -> Result<Config, ConfigError> {
        let mut read = Reader::new(sources::collect(args, env)?);
        let socket = read.computed("socket", || paths::socket(env), types::socket)?;
        let state_dir = read.computed("state_dir", || paths::state_dir(env), types::path)?;
        let routing = read_routing(&mut read, env, &state_dir)?;
        let layouts = read.value("layouts", layouts::parse)?;
        let identity = read.optional("identity", types::identity)?;
        let host_name = identity.clone().unwrap_or_else(|| env.host.clone());
        let worker_mode = read.value("worker_mode", workers::parse_mode)?;
        let leaf_name = read.optional("leaf_name", workers::parse_leaf_name)?;
        let worker = {
            let numbers = read.value("workers", |node| workers::parse_numbers(node, &layouts))?;
            let zookeeper = read.optional("zookeeper", workers::parse_servers)?;
            let context = workers::Context {
                layouts: &layouts,
                stores: routing.stores().iter().map(|store| &*store.name).collect(),
                zookeeper: zookeeper.as_ref(),
                numbers: &numbers,
                host: &host_name,
                identity: identity.as_deref(),
                mode: worker_mode,
                leaf_name: leaf_name.as_ref(),
            };
            read.computed(
                "worker",
                || Ok(context.default().to_owned()),
                |node| workers::parse(node, &context),
            )?
        };
        let all = || Ok(format!("0..{}", layouts.worker_max().0.saturating_add(1)));
        let worker_range =
            read.computed("worker_range", all, |node| workers::parse_range(node, &layouts))?;
        let auth = read.optional("zookeeper_auth_file", types::path)?;
        let mask_key_file = read.optional("mask_key_file", types::path)?;
        let admin_uids = read.value("admin_uids", access::parse_ids)?;
        let admin_gids = read.value("admin_gids", access::parse_ids)?;
        let rules = read.value("access", access::parse_rules)?;
        Ok(Config {
            socket,
            socket_mode: read.value("socket_mode", types::mode)?,
            socket_group: read.optional("socket_group", types::group)?,
            state_dir,
            routing,
            store_connect_timeout: read.duration("store_connect_timeout")?,
            store_statement_timeout: read.duration("store_statement_timeout")?,
            failover_settle: read.duration("failover_settle")?,
            leaf_only: read.boolean("leaf_only")?,
            untested_engine: read.boolean("untested_engine")?,
            worker,
            worker_lock_dir: read.computed(
                "worker_lock_dir",
                || paths::worker_lock_dir(env),
                types::path,
            )?,
            worker_mode,
            lease: read.duration("lease")?,
            worker_range,
            restart_grace: read.duration("restart_grace")?,
            clock_threshold: read.duration("clock_threshold")?,
            zookeeper_auth: auth.map_or(StorePassword::None, StorePassword::File),
            leaf_name,
            leaf_name_new: read.boolean("leaf_name_new")?,
            host_name,
            identity,
            autonomy: read.duration("autonomy")?,
            max_step: read.integer("max_step")?,
            mark_ahead: read.duration("mark_ahead")?,
            strict_hold: read.duration("strict_hold")?,
            claims_kept: read.duration("claims_kept")?,
            max_drift: read.duration("max_drift")?,
            removed_tag_check: read.duration("removed_tag_check")?,
            tag_idle: read.duration("tag_idle")?,
            connections_max: read.count("connections_max")?,
            peer_memory_bytes: read.integer("peer_memory_mib")? << 20,
            waiters_max: read.count("waiters_max")?,
            draws_kept: read.count("draws_kept")?,
            stop_within: read.duration("stop_within")?,
            polling: read.boolean("polling")?,
            mask_key_file: mask_key_file.or_else(|| env.credential("mask_key")),
            log: read.value("log", types::log)?,
            log_format: read.value("log_format", types::log_format)?,
            leaf_http: read.optional("leaf_http", http::parse_tcp)?,
            leaf_http_callers: LeafHttp {
                allow: read.value("leaf_http_allow", http::parse_networks)?,
                names: read.value("leaf_http_names", http::parse_names)?,
                requests_per_second: read.optional("leaf_http_requests_per_second", |node| {
                    node.integer(1, 10_000_000)
                })?,
            },
            leaf_http_token_file: read.optional("leaf_http_token_file", types::path)?,
            metrics_tags: read.count("metrics_tags")?,
            http: read.optional("http", http::parse)?,
            access: AccessRules::compile(
                rules,
                admin_uids,
                admin_gids,
                env.uid,
                read.boolean("trust_containers")?,
            ),
            layouts,
            effective: read.finish(),
        })
    }

    /// How often to check whether each store is still the same: four times in `failover_settle`. So every daemon has
    /// noticed a fail-over, and reported the highest ids it has seen, before the first of them claims again. A single
    /// store that is `embedded` can't fail over, and each claim detects if its file is missing.
    pub fn store_check_interval(&self, embedded: bool) -> Duration {
        let settle = self.failover_settle;
        if embedded { settle * 3 / 2 } else { settle / 4 }.max(STORE_CHECK_INTERVAL_MIN)
    }

    /// How far ahead segments are claimed and marked. After a fail-over, the store may not know which host holds a
    /// strict tag, so its hold time must have passed before claims resume.
    pub fn provision(&self) -> PrefetchPolicy {
        let millis = crate::clock::millis;
        PrefetchPolicy {
            autonomy_ms: millis(self.autonomy),
            step_max: self.max_step,
            mark_ahead_ms: millis(self.mark_ahead),
            hold_ms: millis(self.strict_hold.min(self.failover_settle)),
        }
    }

    /// Where a setting's value came from.
    pub fn source_of(&self, key: &str) -> Option<&Source> {
        self.effective.iter().find(|setting| setting.key == key).map(|setting| &setting.source)
    }

    /// Every setting with its value and source, as lines of a TOML file. Comments after them show what several stores
    /// record about themselves.
    pub fn render(&self) -> String {
        let settings = self.effective.iter().map(Effective::to_string);
        let stores = self.routing.stores().iter().enumerate();
        let stores = stores.filter(|(_, store)| !store.name.is_empty()).map(|(index, store)| {
            let StoreSpec { name, url, password } = store;
            let role = self.routing.role(index);
            format!("# store {name} is {url}, {password}; it records {role:?}")
        });
        settings.chain(stores).map(|line| line + "\n").collect()
    }
}

/// Reads `store` with its password, or `stores` with `routes`.
fn read_routing(read: &mut Reader, env: &Env, state_dir: &Path) -> Result<Routing, ConfigError> {
    if let Some(other) = read.source_of("stores") {
        for key in ["store", "store_password_file"] {
            if let Some(source) = read.source_of(key) {
                let words = format!(
                    "{key} can't be set together with stores ({other}); remove one of them"
                );
                return Err(ConfigError::new(source, words));
            }
        }
    }
    let routed = read.source_of("routes").is_some();
    let stores = read.optional("stores", |node| stores::parse(node, routed, env))?;
    let Some(stores) = stores else {
        let default = || Ok(format!("sqlite:{}", state_dir.join("store.db").display()));
        let url = read.computed("store", default, store_url::parse)?;
        let file = read.optional("store_password_file", types::path)?;
        read.optional::<()>("routes", |node| {
            Err(node.bad_because("routes require stores, which defines the stores to route to"))
        })?;
        sources::check_passwords(env, &[""])?;
        return Ok(Routing::unrouted(vec![StoreSpec::new("", url, file, env)]));
    };
    read.unset("store");
    read.unset("store_password_file");
    let names: Vec<&str> = stores.iter().map(|store| &*store.name).collect();
    sources::check_passwords(env, &names)?;
    let routing = read.optional("routes", |node| {
        let rules = routes::parse(node, &stores)?;
        Routing::compile(stores.clone(), rules).map_err(|bytes| {
            let found = routes::counted(node, &format!("rules that take {bytes} bytes to record"));
            found.bad_because(format!(
                "a store can record at most {ROLE_BYTES_MAX} bytes; use fewer patterns, such as pay.* for all tags \
                 with that prefix"
            ))
        })
    })?;
    Ok(routing.unwrap_or_else(|| Routing::unrouted(stores)))
}

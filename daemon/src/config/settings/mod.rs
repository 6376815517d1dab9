//! The table of settings: the one place with their keys, defaults, ranges and meaning.
//!
//! Parsing and `check-config` use it, and all texts about the settings are made from it: see [`super::reference`].

mod host;
mod http;
mod store;
mod worker;

use std::fmt;
use std::time::Duration;

use super::value::show_duration;

pub(in crate::config) use host::*;
pub(in crate::config) use http::*;
pub(in crate::config) use store::*;
pub(in crate::config) use worker::*;

/// A setting, apart from its value.
#[derive(Debug)]
pub struct Setting {
    /// Its key in the file; see [`Setting::variable`] for the environment.
    pub key: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// The value that applies if none is given.
    pub default: Default,
    /// What it decides, in plain sentences, with keys and values between backticks.
    pub help: &'static str,
}

/// What values a setting takes.
#[derive(Debug)]
pub enum Kind {
    /// Text; what is allowed, in words.
    Text(&'static str),
    /// A whole number within these bounds, both allowed.
    Integer(u64, u64),
    /// A length of time within these bounds, both allowed.
    Time(Duration, Duration),
    /// True or false.
    Boolean,
    /// A list or table, written as TOML in the environment too; what is allowed, in words.
    Toml(&'static str),
}

/// The value of a setting that is not given. `leafd.toml` shows an example in place of a missing default: lines of
/// TOML that can be activated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// This text, as in an environment variable.
    Is(&'static str),
    /// This empty list or table, in TOML.
    Empty {
        /// `[]` or `{}`.
        value: &'static str,
        /// An example that isn't empty.
        example: &'static str,
    },
    /// Nothing: the feature is off.
    Unset {
        /// An example of the feature switched on.
        example: &'static str,
    },
    /// Found at the start.
    Found {
        /// How it is found.
        how: &'static str,
        /// A value that may be found.
        example: &'static str,
    },
}

/// Settings that belong together.
#[derive(Debug)]
pub struct Section {
    /// Their topic.
    pub title: &'static str,
    /// What they have in common, in plain sentences; may be empty.
    pub intro: &'static str,
    /// In the order in which an operator needs them.
    pub settings: &'static [&'static Setting],
}

/// Every setting. Sections whose examples open TOML tables come last, because the lines after such an opening
/// belong to the table.
pub static SECTIONS: &[Section] = &[
    Section {
        title: "Socket and state",
        intro: "",
        settings: &[&SOCKET, &SOCKET_MODE, &SOCKET_GROUP, &STATE_DIR, &IDENTITY],
    },
    Section {
        title: "The store",
        intro: "The store is the database in which ids are claimed. The last section is about several stores.",
        settings: &[
            &STORE,
            &STORE_PASSWORD_FILE,
            &STORE_CONNECT_TIMEOUT,
            &STORE_STATEMENT_TIMEOUT,
            &FAILOVER_SETTLE,
            &LEAF_ONLY,
            &UNTESTED_ENGINE,
        ],
    },
    Section {
        title: "Segment tags",
        intro: "",
        settings: &[&AUTONOMY, &MAX_STEP, &MARK_AHEAD, &REMOVED_TAG_CHECK, &CLAIMS_KEPT, &TAG_IDLE],
    },
    Section {
        title: "Snowflake workers",
        intro: "Worker numbers are leased from a registry: a store or ZooKeeper.",
        settings: &[
            &WORKER,
            &WORKER_MODE,
            &LEASE,
            &WORKER_RANGE,
            &RESTART_GRACE,
            &CLOCK_THRESHOLD,
            &MAX_DRIFT,
            &ZOOKEEPER,
            &ZOOKEEPER_AUTH_FILE,
            &LEAF_NAME,
            &LEAF_NAME_NEW,
            &WORKERS,
            &WORKER_LOCK_DIR,
        ],
    },
    Section {
        title: "Limits",
        intro: "",
        settings: &[
            &CONNECTIONS_MAX,
            &PEER_MEMORY_MIB,
            &WAITERS_MAX,
            &DRAWS_KEPT,
            &STOP_WITHIN,
            &POLLING,
        ],
    },
    Section { title: "Public ids", intro: "", settings: &[&MASK_KEY_FILE] },
    Section { title: "Logging", intro: "", settings: &[&LOG, &LOG_FORMAT] },
    Section { title: "Monitoring", intro: "", settings: &[&HTTP, &METRICS_TAGS] },
    Section {
        title: "Leaf's HTTP",
        intro: "",
        settings: &[
            &LEAF_HTTP,
            &LEAF_HTTP_ALLOW,
            &LEAF_HTTP_NAMES,
            &LEAF_HTTP_TOKEN_FILE,
            &LEAF_HTTP_REQUESTS_PER_SECOND,
        ],
    },
    Section {
        title: "Access rules",
        intro: "The socket's mode and group decide who may connect. The kernel identifies each caller to the daemon.",
        settings: &[&ADMIN_UIDS, &ADMIN_GIDS, &TRUST_CONTAINERS, &ACCESS],
    },
    Section { title: "Snowflake layouts", intro: "", settings: &[&LAYOUTS] },
    Section {
        title: "Several stores",
        intro: "These replace `store` and `store_password_file`.",
        settings: &[&STORES, &ROUTES],
    },
];

/// The settings that a reload (SIGHUP) activates. The others need a restart.
pub const RELOADED: [&str; 9] = [
    "log",
    "admin_uids",
    "admin_gids",
    "trust_containers",
    "access",
    "mask_key_file",
    "autonomy",
    "max_step",
    "mark_ahead",
];

/// Every setting, in the order of [`SECTIONS`].
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().flat_map(|section| section.settings).copied()
}

/// The setting with this key.
pub(in crate::config) fn by_key(key: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.key == key)
}

/// The keys, as an error lists them.
pub(in crate::config) fn keys() -> String {
    settings().map(|setting| setting.key).collect::<Vec<_>>().join(", ")
}

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

impl Setting {
    /// The environment variable of this setting.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("LEAFD_{}", self.key.to_ascii_uppercase())
    }

    /// Whether a reload activates a new value.
    #[must_use]
    pub fn is_reloaded(&self) -> bool {
        RELOADED.contains(&self.key)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Text(words) | Kind::Toml(words) => f.write_str(words),
            Kind::Integer(least, most) => write!(f, "a whole number from {least} to {most}"),
            Kind::Time(least, most) => write!(
                f,
                "a time from {} to {}: a whole number and ms, s, m or h",
                show_duration(*least),
                show_duration(*most)
            ),
            Kind::Boolean => f.write_str("true or false"),
        }
    }
}

impl fmt::Display for Default {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Default::Is(value) | Default::Empty { value, .. } => f.write_str(value),
            Default::Unset { .. } => f.write_str("none"),
            Default::Found { how, .. } => f.write_str(how),
        }
    }
}

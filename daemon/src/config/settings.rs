//! The table of settings: the one place that knows their keys, defaults, ranges and meaning.
//! Parsing, `--help`, `check-config` and the README's table are all made from it.

use std::fmt;
use std::fmt::Write as _;
use std::time::Duration;

use super::store_url;
use super::value::show_duration;
use super::worker_settings;

/// A setting, apart from its value.
#[derive(Debug)]
pub struct Setting {
    /// Its key in the file; see [`Setting::variable`] for the environment.
    pub key: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Its default: as written in a variable of the environment, or how it is found.
    pub default: Default,
    /// What it decides, in a sentence or two.
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
    /// A list or table, written as TOML also in the environment; what is allowed, in words.
    Toml(&'static str),
}

/// Where a setting's value comes from when nobody gives one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// This text.
    Is(&'static str),
    /// Nothing: the feature is off.
    Unset,
    /// Found at start, in this way.
    Found(&'static str),
}

pub(super) const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub(super) static SOCKET: Setting = Setting {
    key: "socket",
    kind: Kind::Text("the path of a Unix socket, 1 to 107 bytes of UTF-8"),
    default: Default::Found(
        "/run/leafd/leafd.sock as root, else leafd/leafd.sock below $XDG_RUNTIME_DIR or ~/.local/state",
    ),
    help: "Where clients connect. systemd's RUNTIME_DIRECTORY is honoured. A socket that systemd hands over is served instead, with the mode and group that its unit gives it.",
};

pub(super) static SOCKET_MODE: Setting = Setting {
    key: "socket_mode",
    kind: Kind::Text("octal permission bits in quotes, \"0600\" to \"0777\", with 6 for the owner"),
    default: Default::Is("0660"),
    help: "Permission bits of the socket: who may connect at all.",
};

pub(super) static SOCKET_GROUP: Setting = Setting {
    key: "socket_group",
    kind: Kind::Text("a group of this host, by name or in quotes by number"),
    default: Default::Unset,
    help: "Group that the socket is given to. The daemon must be root or a member of it.",
};

pub(super) static STATE_DIR: Setting = Setting {
    key: "state_dir",
    kind: Kind::Text("the path of a directory on a local disk, UTF-8"),
    default: Default::Found(
        "/var/lib/leafd as root, else leafd below $XDG_STATE_HOME or ~/.local/state",
    ),
    help: "Where the journal lives. One daemon a directory. systemd's STATE_DIRECTORY is honoured.",
};

pub(super) static STORE: Setting = Setting {
    key: "store",
    kind: Kind::Text(store_url::ALLOWED),
    default: Default::Found("sqlite:<state_dir>/store.db"),
    help: "Where numbers are claimed. The embedded store, sqlite, serves one host only. Several: stores.",
};

pub(super) static STORE_PASSWORD_FILE: Setting = Setting {
    key: "store_password_file",
    kind: Kind::Text("the path of a file with nothing but the password, UTF-8"),
    default: Default::Unset,
    help: "The store's password, read at each connection. Else the systemd credential store_password, else the variable LEAFD_STORE_PASSWORD.",
};

pub(super) static STORES: Setting = Setting {
    key: "stores",
    kind: Kind::Toml(
        "a table of stores by name, each a URL as for store or {url, password_file}; a name has 1 to 32 characters of a-z, 0-9 and -",
    ),
    default: Default::Unset,
    help: "Several stores, instead of store. A password not in password_file is the systemd credential store_password_NAME, else the variable LEAFD_STORE_PASSWORD_NAME (in capitals, - as _).",
};

pub(super) static ROUTES: Setting = Setting {
    key: "routes",
    kind: Kind::Toml(
        "a list of tables with tags = [\"orders\", \"pay.*\"] and one of store = \"a\", hash = [\"a\", \"b\"], and primaries = [\"a\", \"b\"] with era = 1",
    ),
    default: Default::Unset,
    help: "Which tags are in which of the stores; the first rule that matches a tag decides. One store needs none.",
};

pub(super) static STORE_CONNECT_TIMEOUT: Setting = Setting {
    key: "store_connect_timeout",
    kind: Kind::Time(Duration::from_millis(100), secs(60)),
    default: Default::Is("3s"),
    help: "How long each server of a postgres or mysql store may take to let the daemon in.",
};

pub(super) static STORE_STATEMENT_TIMEOUT: Setting = Setting {
    key: "store_statement_timeout",
    kind: Kind::Time(Duration::from_millis(100), secs(60)),
    default: Default::Is("3s"),
    help: "How long a claim, or another call of a postgres or mysql store, may take.",
};

pub(super) static FAILOVER_SETTLE: Setting = Setting {
    key: "failover_settle",
    kind: Kind::Time(Duration::ZERO, secs(600)),
    default: Default::Is("10s"),
    help: "How long claims wait after a store's fail-over, so that every daemon can tell the store what it has seen; ids go on from what is claimed already. Each daemon looks at least every quarter of it, and every 15 s, whether its stores are still the same. Give all daemons the same.",
};

pub(super) static LEAF_ONLY: Setting = Setting {
    key: "leaf_only",
    kind: Kind::Boolean,
    default: Default::Is("false"),
    help: "Use a postgres or mysql store in which leafd's own tables are not to be seen: only if no leafd made them there, as strict tags are then told from no others.",
};

pub(super) static IDENTITY: Setting = Setting {
    key: "identity",
    kind: Kind::Text("1 to 128 characters, no control characters"),
    default: Default::Unset,
    help: "Sets daemons apart that the machine id doesn't, such as pods of one node. Another identity makes this another host: its journal is set aside and what it held is skipped.",
};

pub(super) static AUTONOMY: Setting = Setting {
    key: "autonomy",
    kind: Kind::Time(secs(1), secs(24 * 3600)),
    default: Default::Is("10m"),
    help: "How long ids keep coming without the store: so much is claimed ahead at each tag's rate, until max_step caps it.",
};

pub(super) static MAX_STEP: Setting = Setting {
    key: "max_step",
    kind: Kind::Integer(1, i32::MAX as u64),
    default: Default::Is("10000000"),
    help: "Most numbers claimed ahead at once; it bounds what one host can hold of a tag.",
};

pub(super) static MARK_AHEAD: Setting = Setting {
    key: "mark_ahead",
    kind: Kind::Time(secs(1), secs(60)),
    default: Default::Is("5s"),
    help: "How far the journal's marks move ahead of use, in time at a tag's rate: about what a crash skips.",
};

pub(super) static MAX_DRIFT: Setting = Setting {
    key: "max_drift",
    kind: Kind::Time(Duration::ZERO, secs(3600)),
    default: Default::Is("5s"),
    help: "How far snowflake's logical clock may run ahead of a wall clock that stepped back.",
};

pub(super) static REMOVED_TAG_CHECK: Setting = Setting {
    key: "removed_tag_check",
    kind: Kind::Time(secs(1), secs(60)),
    default: Default::Is("30s"),
    help: "How often the tags in use are looked up, so that a removed one stops.",
};

pub(super) static CONNECTIONS_MAX: Setting = Setting {
    key: "connections_max",
    kind: Kind::Integer(1, 65_536),
    default: Default::Is("4096"),
    help: "Most connections at once; further ones are refused.",
};

pub(super) static WAITERS_MAX: Setting = Setting {
    key: "waiters_max",
    kind: Kind::Integer(1, 1_000_000),
    default: Default::Is("10000"),
    help: "Most requests that wait for one tag's next claim; further ones are refused at once.",
};

pub(super) static STOP_WITHIN: Setting = Setting {
    key: "stop_within",
    kind: Kind::Time(Duration::from_millis(100), secs(300)),
    default: Default::Is("5s"),
    help: "How long a stop may take to answer what is in flight and write exact marks.",
};

pub(super) static POLLING: Setting = Setting {
    key: "polling",
    kind: Kind::Boolean,
    default: Default::Is("true"),
    help: "Poll for some microseconds before sleeping while requests are coming: lower latency for some CPU.",
};

pub(super) static LOG: Setting = Setting {
    key: "log",
    kind: Kind::Text(
        "off, error, warn, info, debug or trace; or a list such as \"info,leafd::store=debug\"",
    ),
    default: Default::Is("info"),
    help: "What is logged to standard error.",
};

pub(super) static LOG_FORMAT: Setting = Setting {
    key: "log_format",
    kind: Kind::Text("auto, human or json"),
    default: Default::Is("auto"),
    help: "How it is written. auto is human, with colour on a terminal, and in systemd's journal without the time and level that the journal keeps itself.",
};

pub(super) static ADMIN_UIDS: Setting = Setting {
    key: "admin_uids",
    kind: Kind::Toml("a list of user numbers, such as [0, 1000]"),
    default: Default::Is("[]"),
    help: "Users who may create and change tags, besides root and the daemon's own user.",
};

pub(super) static ADMIN_GIDS: Setting = Setting {
    key: "admin_gids",
    kind: Kind::Toml("a list of group numbers, such as [27]"),
    default: Default::Is("[]"),
    help: "Groups whose members may create and change tags.",
};

pub(super) static ACCESS: Setting = Setting {
    key: "access",
    kind: Kind::Toml(
        "a list of tables {tags = [\"orders\", \"pay.*\"], uids = [..], gids = [..]}, with tags and at least one of uids and gids",
    ),
    default: Default::Is("[]"),
    help: "Who may draw which tags; a trailing * stands for any ending. A tag that no rule names is free to all who can connect.",
};

pub(super) static LAYOUTS: Setting = Setting {
    key: "layouts",
    kind: Kind::Toml(
        "tables {time_bits, worker_bits, sequence_bits, unit = \"1ms\", epoch} by name",
    ),
    default: Default::Is("{}"),
    help: "Snowflake layouts by the tag name that they are drawn under. `snowflake`, Leaf's own, is there unless redefined.",
};

/// Every setting, in the order in which an operator meets them.
pub static SETTINGS: &[&Setting] = &[
    &SOCKET,
    &SOCKET_MODE,
    &SOCKET_GROUP,
    &STATE_DIR,
    &STORE,
    &STORE_PASSWORD_FILE,
    &STORES,
    &ROUTES,
    &STORE_CONNECT_TIMEOUT,
    &STORE_STATEMENT_TIMEOUT,
    &FAILOVER_SETTLE,
    &LEAF_ONLY,
    &worker_settings::WORKER,
    &worker_settings::WORKER_MODE,
    &worker_settings::LEASE,
    &worker_settings::WORKER_RANGE,
    &worker_settings::RESTART_GRACE,
    &worker_settings::CLOCK_THRESHOLD,
    &worker_settings::ZOOKEEPER,
    &worker_settings::ZOOKEEPER_AUTH_FILE,
    &worker_settings::LEAF_NAME,
    &worker_settings::WORKERS,
    &worker_settings::WORKER_LOCK_DIR,
    &IDENTITY,
    &AUTONOMY,
    &MAX_STEP,
    &MARK_AHEAD,
    &MAX_DRIFT,
    &REMOVED_TAG_CHECK,
    &CONNECTIONS_MAX,
    &WAITERS_MAX,
    &STOP_WITHIN,
    &POLLING,
    &LOG,
    &LOG_FORMAT,
    &ADMIN_UIDS,
    &ADMIN_GIDS,
    &ACCESS,
    &LAYOUTS,
];

/// The setting of a key.
pub(super) fn by_key(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().copied().find(|setting| setting.key == key)
}

/// The keys, as an error lists them.
pub(super) fn keys() -> String {
    let keys: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
    keys.join(", ")
}

/// The settings as plain text, for a help page.
#[must_use]
pub fn settings_help() -> String {
    let mut out = String::new();
    for setting in SETTINGS {
        let Setting { key, kind, default, help } = setting;
        let variable = setting.variable();
        let _ = writeln!(out, "{key} ({variable}), default: {default}\n    {help}");
        let _ = writeln!(out, "    Allowed: {kind}.");
    }
    out
}

/// The settings as a Markdown table.
#[must_use]
pub fn settings_markdown() -> String {
    let mut out =
        String::from("| key | default | allowed | what it decides |\n|---|---|---|---|\n");
    for Setting { key, kind, default, help } in SETTINGS {
        let _ = writeln!(out, "| `{key}` | {default} | {kind} | {help} |");
    }
    out
}

impl Setting {
    /// The variable of the environment that gives this setting.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("LEAFD_{}", self.key.to_ascii_uppercase())
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
            Default::Is(text) => f.write_str(text),
            Default::Unset => f.write_str("none"),
            Default::Found(how) => f.write_str(how),
        }
    }
}

//! The settings that say where the snowflake worker comes from, and what clocks are held against.

use std::time::Duration;

use super::settings::{Default, Kind, Setting, secs};
use crate::registry::zookeeper::address;

pub(super) static WORKER: Setting = Setting {
    key: "worker",
    kind: Kind::Text(
        "\"none\", \"store\", \"store:NAME\" with several stores, \"zookeeper\", \"static:N\" with N from 0 to what the smallest worker field holds, or \"static\" with workers",
    ),
    default: Default::Found("store; none with several stores, until one is named"),
    help: "Where this host's snowflake worker number comes from: claimed in a store or in ZooKeeper, or given here. With static:N no other live host may have N. Without one, snowflake requests are refused, and the claim of an earlier start is forgotten.",
};

pub(super) static WORKER_MODE: Setting = Setting {
    key: "worker_mode",
    kind: Kind::Text("\"leased\" or \"permanent\""),
    default: Default::Is("leased"),
    help: "How a number is claimed: for a time that is renewed, or for good by identity, as Leaf does. Leaf's hosts and leafd's can share a registry only with permanent.",
};

pub(super) static LEASE: Setting = Setting {
    key: "lease",
    kind: Kind::Time(secs(2), secs(24 * 3600)),
    default: Default::Is("10m"),
    help: "For how long a worker is claimed ahead, which is how long snowflake ids keep coming without the registry. There must be workers for the live hosts and for (crashes per second x lease). Give all daemons the same.",
};

pub(super) static WORKER_RANGE: Setting = Setting {
    key: "worker_range",
    kind: Kind::Text("\"FIRST..END\", the numbers from FIRST to END - 1"),
    default: Default::Found("all that every layout holds"),
    help: "Which worker numbers may be claimed. Data centres with registries of their own must have ranges that share no number.",
};

pub(super) static RESTART_GRACE: Setting = Setting {
    key: "restart_grace",
    kind: Kind::Time(Duration::ZERO, secs(3600)),
    default: Default::Is("60s"),
    help: "How long a worker stays this host's after a clean stop, so that a restart has it at once, also without the registry.",
};

pub(super) static CLOCK_THRESHOLD: Setting = Setting {
    key: "clock_threshold",
    kind: Kind::Time(Duration::from_millis(100), secs(3600)),
    default: Default::Is("5s"),
    help: "How far this host's clock may be off the registry's and the live hosts' clocks; also how far it may step forward before the registry has confirmed it.",
};

pub(super) static ZOOKEEPER: Setting = Setting {
    key: "zookeeper",
    kind: Kind::Text(address::ALLOWED),
    default: Default::Unset,
    help: "The ZooKeeper ensemble of worker = \"zookeeper\", and the path in it that everything lies under.",
};

pub(super) static ZOOKEEPER_AUTH_FILE: Setting = Setting {
    key: "zookeeper_auth_file",
    kind: Kind::Text("the path of a file with nothing but USER:PASSWORD, UTF-8"),
    default: Default::Unset,
    help: "Who the daemon is to ZooKeeper, by its digest scheme. Then nobody else can read or write leafd's own nodes.",
};

pub(super) static LEAF_NAME: Setting = Setting {
    key: "leaf_name",
    kind: Kind::Text(
        "leaf.name of the Leaf service, 1 to 255 bytes without / and control characters",
    ),
    default: Default::Unset,
    help: "The Leaf service whose nodes in ZooKeeper give permanent workers.",
};

pub(super) static WORKERS: Setting = Setting {
    key: "workers",
    kind: Kind::Toml("a table of worker numbers by host: its identity, else the host's name"),
    default: Default::Is("{}"),
    help: "The numbers of worker = \"static\", so that all hosts can share one file.",
};

pub(super) static WORKER_LOCK_DIR: Setting = Setting {
    key: "worker_lock_dir",
    kind: Kind::Text("the path of a directory, UTF-8"),
    default: Default::Is("/run/lock"),
    help: "Where a static worker number is locked, so that two daemons of one host can't share it.",
};

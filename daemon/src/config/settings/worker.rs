//! The settings of the snowflake worker: where its number comes from, its lease, clocks and layouts.

use std::time::Duration;

use super::{Default, Kind, Setting, secs};
use crate::config::zookeeper;

pub(in crate::config) static WORKER: Setting = Setting {
    key: "worker",
    kind: Kind::Text(
        "\"store\", \"store:NAME\" with several stores, \"zookeeper\", \"static:N\" with an N that every layout holds, \"static\" with workers, or \"none\"",
    ),
    default: Default::Found {
        how: "store; none with several stores, until one is named",
        example: "worker = \"store\"",
    },
    help: "Where this host's worker number comes from: leased in a store or in ZooKeeper, or set by the \
           operator. No other live host may have the same static number. With `none`, requests for snowflake \
           ids are refused, and any lease in the journal is dropped.",
};

pub(in crate::config) static WORKER_MODE: Setting = Setting {
    key: "worker_mode",
    kind: Kind::Text("\"leased\" or \"permanent\""),
    default: Default::Is("leased"),
    help: "`leased`: the host leases the number for a limited time and renews the lease. `permanent`: the \
           number belongs to the `identity` for ever, as in Leaf. Java Leaf and leafd can share a registry only \
           with `permanent`.",
};

pub(in crate::config) static LEASE: Setting = Setting {
    key: "lease",
    kind: Kind::Time(secs(2), secs(24 * 3600)),
    default: Default::Is("10m"),
    help: "How far ahead to lease the worker number. Snowflake ids keep coming for this long during a registry \
           outage. There must be enough worker numbers for the live hosts plus (crashes per second x lease). \
           Use the same value on all hosts.",
};

pub(in crate::config) static WORKER_RANGE: Setting = Setting {
    key: "worker_range",
    kind: Kind::Text("\"FIRST..END\", the numbers from FIRST to END - 1"),
    default: Default::Found {
        how: "all that every layout holds",
        example: "worker_range = \"0..256\"",
    },
    help: "The worker numbers that may be leased. Data centres with separate registries need ranges that don't \
           overlap.",
};

pub(in crate::config) static RESTART_GRACE: Setting = Setting {
    key: "restart_grace",
    kind: Kind::Time(Duration::ZERO, secs(3600)),
    default: Default::Is("60s"),
    help: "How long this host keeps its worker number after a clean stop. A restart within this time uses the \
           number immediately, even during a registry outage.",
};

pub(in crate::config) static CLOCK_THRESHOLD: Setting = Setting {
    key: "clock_threshold",
    kind: Kind::Time(Duration::from_millis(100), secs(3600)),
    default: Default::Is("5s"),
    help: "How much this host's clock may differ from the registry's clock and from other live hosts' clocks. \
           It is also how far the clock may step forward before the registry must confirm the new time.",
};

pub(in crate::config) static MAX_DRIFT: Setting = Setting {
    key: "max_drift",
    kind: Kind::Time(Duration::ZERO, secs(3600)),
    default: Default::Is("5s"),
    help: "How far the logical clock of snowflake ids may run ahead of a wall clock that stepped back. Beyond that, \
           requests are refused until the wall clock has caught up.",
};

pub(in crate::config) static ZOOKEEPER: Setting = Setting {
    key: "zookeeper",
    kind: Kind::Text(zookeeper::ALLOWED),
    default: Default::Unset { example: "zookeeper = \"zk1:2181,zk2:2181,zk3:2181/ids\"" },
    help: "The servers for `worker = \"zookeeper\"`, and the path under which leafd keeps its nodes. The path \
           must exist.",
};

pub(in crate::config) static ZOOKEEPER_AUTH_FILE: Setting = Setting {
    key: "zookeeper_auth_file",
    kind: Kind::Text("the path of a file with nothing but USER:PASSWORD, UTF-8"),
    default: Default::Unset { example: "zookeeper_auth_file = \"/etc/leafd/zookeeper_auth\"" },
    help: "The file that contains the daemon's user and password for ZooKeeper's digest scheme. With it, nobody \
           else can read or write leafd's own nodes.",
};

pub(in crate::config) static LEAF_NAME: Setting = Setting {
    key: "leaf_name",
    kind: Kind::Text(
        "leaf.name of the Leaf service, 1 to 255 bytes without / and control characters",
    ),
    default: Default::Unset { example: "leaf_name = \"com.example.leaf\"" },
    help: "The Leaf service whose nodes in ZooKeeper assign permanent worker numbers.",
};

pub(in crate::config) static LEAF_NAME_NEW: Setting = Setting {
    key: "leaf_name_new",
    kind: Kind::Boolean,
    default: Default::Is("false"),
    help: "Whether `leaf_name` may be a new service beside others in the same ZooKeeper. By default it is \
           refused, because a mistyped name would assign the numbers of running Leafs a second time.",
};

pub(in crate::config) static WORKERS: Setting = Setting {
    key: "workers",
    kind: Kind::Toml("a table of worker numbers by host: its identity, else the host's name"),
    default: Default::Empty { value: "{}", example: "workers = {host-a = 1, host-b = 2}" },
    help: "The numbers for `worker = \"static\"`, so that all hosts can share one file.",
};

pub(in crate::config) static WORKER_LOCK_DIR: Setting = Setting {
    key: "worker_lock_dir",
    kind: Kind::Text("the path of a directory, UTF-8"),
    default: Default::Found {
        how: "/run/leafd for root, else leafd in $XDG_RUNTIME_DIR, $XDG_STATE_HOME or ~/.local/state",
        example: "worker_lock_dir = \"/run/leafd\"",
    },
    help: "The directory in which a static worker number is locked, so that two daemons on one host can't both \
           use it; by default systemd's `RUNTIME_DIRECTORY` if that is set. Only the daemon's user may be able \
           to write there.",
};

pub(in crate::config) static LAYOUTS: Setting = Setting {
    key: "layouts",
    kind: Kind::Toml(
        "by name, tables {time_bits, worker_bits, sequence_bits, unit = \"1ms\", epoch}, or true for js53",
    ),
    default: Default::Empty { value: "{}", example: "[layouts]\njs53 = true" },
    help: "Snowflake layouts by name; clients draw ids of a layout by its name. `snowflake` is Leaf's own \
           layout and exists unless you redefine it: 41 bits of milliseconds since 2010-11-04T01:42:54.657Z, 10 \
           bits of worker, 12 bits of sequence. The worker number must fit every layout. A layout can't change \
           once it is in use. `js53 = true` enables a layout that fits JavaScript's numbers: 37 bits of time in \
           units of 10 ms since 2025-01-01T00:00:00Z (until 2068), 8 bits of worker and 8 bits of sequence, for \
           256 workers with 25,600 ids a second each.",
};

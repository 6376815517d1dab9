//! The settings of the stores, and of claims ahead of use.

use std::time::Duration;

use super::super::store_url;
use super::{Default, Kind, Setting, secs};

pub(in crate::config) static STORE: Setting = Setting {
    key: "store",
    kind: Kind::Text(store_url::ALLOWED),
    default: Default::Found {
        how: "sqlite:<state_dir>/store.db",
        example: "store = \"sqlite:/var/lib/leafd/store.db\"",
    },
    help: "The store's address. The embedded store (`sqlite:`) serves only this host; a database serves many \
           hosts, for example `postgres://leafd@db1,db2/ids`. If there are several servers, they are tried in \
           order. Connections to other hosts use TLS and verify the server's certificate and name, unless the \
           URL ends in `?sslmode=disable`.",
};

pub(in crate::config) static STORE_PASSWORD_FILE: Setting = Setting {
    key: "store_password_file",
    kind: Kind::Text("the path of a file with nothing but the password, UTF-8"),
    default: Default::Unset { example: "store_password_file = \"/etc/leafd/store_password\"" },
    help: "The file that contains the store's password. It is read for each connection. Without it, the \
           password comes from the systemd credential `store_password` or, failing that, from the variable \
           `LEAFD_STORE_PASSWORD`. A password in the URL is rejected.",
};

pub(in crate::config) static STORE_CONNECT_TIMEOUT: Setting = Setting {
    key: "store_connect_timeout",
    kind: Kind::Time(Duration::from_millis(100), secs(60)),
    default: Default::Is("3s"),
    help: "Timeout for connecting to each server of a PostgreSQL or MySQL store, including login.",
};

pub(in crate::config) static STORE_STATEMENT_TIMEOUT: Setting = Setting {
    key: "store_statement_timeout",
    kind: Kind::Time(Duration::from_millis(100), secs(60)),
    default: Default::Is("3s"),
    help: "Timeout for each call to a PostgreSQL or MySQL store, such as a claim. For a Galera node, 80 % of it \
           applies.",
};

pub(in crate::config) static FAILOVER_SETTLE: Setting = Setting {
    key: "failover_settle",
    kind: Kind::Time(Duration::ZERO, secs(600)),
    default: Default::Is("10s"),
    help: "How long claims pause after a fail-over of the store, so that every daemon can report the highest \
           ids it has seen. Held ids are still issued. Each daemon probes its stores at least four times within \
           this period and at least every 15 s; it probes a single embedded store only every 15 s, because that \
           store can't fail over. Use the same value on all hosts.",
};

pub(in crate::config) static LEAF_ONLY: Setting = Setting {
    key: "leaf_only",
    kind: Kind::Boolean,
    default: Default::Is("false"),
    help: "Use a database that has only Leaf's table `leaf_alloc`. This is unsafe if leafd's own tables exist \
           but the daemon's user can't see them, because strict tags would be treated as plain ones.",
};

pub(in crate::config) static UNTESTED_ENGINE: Setting = Setting {
    key: "untested_engine",
    kind: Kind::Boolean,
    default: Default::Is("false"),
    help: "Allow a store on an engine that leafd is not tested with and whose behaviour differs in what claims \
           rely on, such as CockroachDB or TiDB. It could issue ids twice.",
};

pub(in crate::config) static AUTONOMY: Setting = Setting {
    key: "autonomy",
    kind: Kind::Time(secs(1), secs(24 * 3600)),
    default: Default::Is("10m"),
    help: "How long ids keep coming during a store outage. The daemon claims ids of each tag this far ahead at \
           the tag's measured rate, up to `max_step`. This reserve adapts to a new rate within 30 s.",
};

pub(in crate::config) static MAX_STEP: Setting = Setting {
    key: "max_step",
    kind: Kind::Integer(1, i32::MAX as u64),
    default: Default::Is("10000000"),
    help: "The maximum number of ids claimed at once. It limits how many ids of a tag one host can hold.",
};

pub(in crate::config) static MARK_AHEAD: Setting = Setting {
    key: "mark_ahead",
    kind: Kind::Time(secs(1), secs(60)),
    default: Default::Is("5s"),
    help: "How far the journal's marks run ahead of use, as time at a tag's rate. A crash skips about that many \
           ids: while the journal keeps up, at most 1,000,000 or one second's use, whichever is more, and after \
           a burst at most a quarter of the held ids, or 64.",
};

pub(in crate::config) static REMOVED_TAG_CHECK: Setting = Setting {
    key: "removed_tag_check",
    kind: Kind::Time(secs(1), secs(60)),
    default: Default::Is("30s"),
    help: "How often to look up the tags in use in the store. Deleted and changed tags are detected within this \
           time.",
};

pub(in crate::config) static CLAIMS_KEPT: Setting = Setting {
    key: "claims_kept",
    kind: Kind::Time(Duration::ZERO, secs(10 * 365 * 24 * 3600)),
    default: Default::Is("720h"),
    help: "How long the store remembers which host claimed which ids, for `leafctl whose` and `leafctl gaps`. \
           0s turns recording off on this host. If hosts have different values, the smallest one applies. \
           Claims of strict tags, and claims on Leaf's table alone, are not recorded.",
};

pub(in crate::config) static TAG_IDLE: Setting = Setting {
    key: "tag_idle",
    kind: Kind::Time(secs(1), secs(86_400)),
    default: Default::Is("5m"),
    help: "How long an unused tag stays in memory. After that, only the state directory contains it; the next \
           request loads it within some milliseconds and gets the next id. With more than 131,072 tags in use, \
           this is at most a minute.",
};

pub(in crate::config) static STORES: Setting = Setting {
    key: "stores",
    kind: Kind::Toml(
        "a table of stores by name, each a URL as for store or {url, password_file}; a name has 1 to 32 characters of a-z, 0-9 and -",
    ),
    default: Default::Unset {
        example: "[stores]\n\
                  s0 = \"postgres://leafd@db0/ids\"\n\
                  s1 = \"postgres://leafd@db1/ids\"\n\
                  pay = {url = \"mysql://leafd@pay-db/ids\", password_file = \"/etc/leafd/pay_password\"}\n\
                  p0 = \"postgres://leafd@ticket-a/ids\"\n\
                  p1 = \"postgres://leafd@ticket-b/ids\"",
    },
    help: "Several stores by name. Without a `password_file`, a store's password comes from the systemd \
           credential `store_password_NAME` or, failing that, from the variable `LEAFD_STORE_PASSWORD_NAME` \
           (the name in capitals, with `_` for `-`).",
};

pub(in crate::config) static ROUTES: Setting = Setting {
    key: "routes",
    kind: Kind::Toml(
        "a list of tables with tags = [\"orders\", \"pay.*\"] and one of store = \"a\", hash = [\"a\", \"b\"], and primaries = [\"a\", \"b\"] with era = 1",
    ),
    default: Default::Unset {
        example: "[[routes]]\n\
                  tags = [\"orders\", \"pay.*\"]\n\
                  store = \"pay\"\n\
                  [[routes]]\n\
                  tags = [\"ticket.*\"]\n\
                  primaries = [\"p0\", \"p1\"]\n\
                  era = 1\n\
                  [[routes]]\n\
                  tags = [\"*\"]\n\
                  hash = [\"s0\", \"s1\"]",
    },
    help: "Which tags live in which store. The first rule that matches a tag applies. It names one `store`, \
           several stores of which the tag's `hash` selects one, or several independent `primaries` that all \
           have the tag, so that any of them may be down. A new list of primaries needs a new `era`. Use the \
           same routes on all hosts: each store records them and refuses daemons with different routes.",
};

//! The settings of the daemon on its host: socket, state, limits, log, access.

use std::time::Duration;

use super::{Default, Kind, Setting, secs};

pub(in crate::config) static SOCKET: Setting = Setting {
    key: "socket",
    kind: Kind::Text("the path of a Unix socket, 1 to 107 bytes of UTF-8"),
    default: Default::Found {
        how: "/run/leafd/leafd.sock for root, else leafd/leafd.sock in $XDG_RUNTIME_DIR, $XDG_STATE_HOME or \
              ~/.local/state",
        example: "socket = \"/run/leafd/leafd.sock\"",
    },
    help: "The Unix socket that clients connect to, by default in systemd's `RUNTIME_DIRECTORY` if that is set. \
           If systemd passes a socket to the daemon, the daemon uses it instead, and the socket unit sets path, \
           mode and group.",
};

pub(in crate::config) static SOCKET_MODE: Setting = Setting {
    key: "socket_mode",
    kind: Kind::Text("octal permission bits in quotes, \"0600\" to \"0777\", with 6 for the owner"),
    default: Default::Is("0660"),
    help: "The permission bits of the socket. They decide who may connect.",
};

pub(in crate::config) static SOCKET_GROUP: Setting = Setting {
    key: "socket_group",
    kind: Kind::Text("a group of this host, by name or in quotes by number"),
    default: Default::Unset { example: "socket_group = \"leafd\"" },
    help: "The group of the socket. The daemon must be root or a member of the group.",
};

pub(in crate::config) static STATE_DIR: Setting = Setting {
    key: "state_dir",
    kind: Kind::Text("the path of a directory on a local disk, UTF-8"),
    default: Default::Found {
        how: "/var/lib/leafd for root, else leafd in $XDG_STATE_HOME or ~/.local/state",
        example: "state_dir = \"/var/lib/leafd\"",
    },
    help: "The directory of the journal, by default systemd's `STATE_DIRECTORY` if that is set. It must survive \
           a reboot, and each daemon needs its own.",
};

pub(in crate::config) static IDENTITY: Setting = Setting {
    key: "identity",
    kind: Kind::Text("1 to 128 characters, no control characters"),
    default: Default::Unset { example: "identity = \"pod-7\"" },
    help: "Distinguishes daemons with the same machine id, such as the pods of one node. Changing it makes this \
           a new host: the daemon sets the journal aside and skips its held ids.",
};

pub(in crate::config) static CONNECTIONS_MAX: Setting = Setting {
    key: "connections_max",
    kind: Kind::Integer(1, 65_536),
    default: Default::Is("4096"),
    help: "The maximum number of connections. One user may open at most as many as remain for all others, and \
           thus at most half. A few are reserved for root, the daemon's own user and administrators. Further \
           connections are refused.",
};

pub(in crate::config) static PEER_MEMORY_MIB: Setting = Setting {
    key: "peer_memory_mib",
    kind: Kind::Integer(1, 65_536),
    default: Default::Is("32"),
    help: "The maximum memory, in MiB, for the unread replies and the unfinished or waiting requests of all \
           clients together. It is divided between users as connections are. When a user's share is exhausted, \
           the daemon stops reading from that user's connections until the user reads some replies.",
};

pub(in crate::config) static WAITERS_MAX: Setting = Setting {
    key: "waiters_max",
    kind: Kind::Integer(1, 1_000_000),
    default: Default::Is("10000"),
    help: "The maximum number of requests that may wait for one tag, divided between users as connections are. \
           Further requests fail immediately.",
};

pub(in crate::config) static DRAWS_KEPT: Setting = Setting {
    key: "draws_kept",
    kind: Kind::Integer(0, 1 << 20),
    default: Default::Is("32768"),
    help: "How many recent draws to remember for `leafctl whose`, at 32 bytes each. They are lost on restart. \
           Consecutive ids that a process draws within a second count as one draw. `whose` searches all draws \
           while other requests wait, so a large value delays replies by some milliseconds. 0 turns this off.",
};

pub(in crate::config) static STOP_WITHIN: Setting = Setting {
    key: "stop_within",
    kind: Kind::Time(Duration::from_millis(100), secs(300)),
    default: Default::Is("5s"),
    help: "How long the daemon may take to stop: to answer pending requests and write exact marks.",
};

pub(in crate::config) static POLLING: Setting = Setting {
    key: "polling",
    kind: Kind::Boolean,
    default: Default::Is("true"),
    help: "Whether to poll for some microseconds before sleeping while requests arrive back to back. Polling \
           lowers latency at the cost of some CPU.",
};

pub(in crate::config) static MASK_KEY_FILE: Setting = Setting {
    key: "mask_key_file",
    kind: Kind::Text("the path of a file that `leafd mask-key new` wrote, UTF-8"),
    default: Default::Unset { example: "mask_key_file = \"/etc/leafd/mask_keys\"" },
    help: "The file with the keys of public ids. It must be the same on all hosts, and readable only by users \
           who may know the keys. Without this setting, the daemon uses the systemd credential `mask_key`, if \
           there is one. A reload reads the file again.",
};

pub(in crate::config) static LOG: Setting = Setting {
    key: "log",
    kind: Kind::Text(
        "off, error, warn, info, debug or trace; or a list such as \"info,leafd::store=debug\"",
    ),
    default: Default::Is("info"),
    help: "What to log to standard error: one level for everything, or one per module. The ZooKeeper client \
           logs only errors unless it is listed (zookeeper_client=info).",
};

pub(in crate::config) static LOG_FORMAT: Setting = Setting {
    key: "log_format",
    kind: Kind::Text("auto, human or json"),
    default: Default::Is("auto"),
    help: "The format of log lines. `human` is for people, in colour on a terminal. `json` writes one object \
           per line. `auto` is like `human`, but omits time and level in systemd's journal, which records both.",
};

pub(in crate::config) static ADMIN_UIDS: Setting = Setting {
    key: "admin_uids",
    kind: Kind::Toml("a list of user numbers, such as [0, 1000]"),
    default: Default::Is("[]"),
    help: "Users who may administer tags and workers, besides root and the daemon's own user.",
};

pub(in crate::config) static ADMIN_GIDS: Setting = Setting {
    key: "admin_gids",
    kind: Kind::Toml("a list of group numbers, such as [27]"),
    default: Default::Is("[]"),
    help: "Groups whose members may administer tags and workers.",
};

pub(in crate::config) static TRUST_CONTAINERS: Setting = Setting {
    key: "trust_containers",
    kind: Kind::Boolean,
    default: Default::Is("true"),
    help: "Whether root and the daemon's own user are administrators in other containers too. Set this to false \
           if containers that you don't trust can connect, because root there has the same user number. The \
           daemon identifies a container by its PID namespace. Before Linux 6.5, if this is false and the \
           daemon can't see other processes in `/proc`, it trusts only `admin_uids` and `admin_gids`.",
};

pub(in crate::config) static ACCESS: Setting = Setting {
    key: "access",
    kind: Kind::Toml(
        "a list of tables {tags = [\"orders\", \"pay.*\"], uids = [..], gids = [..], ids_per_second = 1000, burst = 5000, unmask_uids = [..], unmask_gids = [..]}, with tags and at least one of uids, gids, ids_per_second, unmask_uids and unmask_gids",
    ),
    default: Default::Empty {
        value: "[]",
        example: "[[access]]\ntags = [\"orders\", \"pay.*\"]\nuids = [1000]\ngids = [27]",
    },
    help: "Who may draw which tags. A tag named by a rule is reserved for the users and groups of the rules \
           that name it, for root and for the daemon's own user. Anyone who can connect may draw all other \
           tags. A `*` at the end of a name matches any ending. `ids_per_second` is a quota: each of the rule's \
           users may draw this many ids of each tag per second, and `burst` at once (by default the same \
           number). A quota in a rule without users applies to everyone. `unmask_uids` and `unmask_gids` list \
           who, besides administrators, may mask and unmask ids of the tags; they neither permit nor reserve \
           drawing.",
};

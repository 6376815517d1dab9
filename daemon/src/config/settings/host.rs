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
    help: "The Unix socket that clients connect to. systemd's `RUNTIME_DIRECTORY` applies if it is set. If \
           systemd passes a socket to the daemon, the daemon serves that one instead, and its unit decides \
           path, mode and group.",
};

pub(in crate::config) static SOCKET_MODE: Setting = Setting {
    key: "socket_mode",
    kind: Kind::Text("octal permission bits in quotes, \"0600\" to \"0777\", with 6 for the owner"),
    default: Default::Is("0660"),
    help: "Permission bits of the socket. They decide who may connect.",
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
    help: "The directory of the journal. It must survive a reboot, and every daemon needs its own. \
           systemd's `STATE_DIRECTORY` applies if it is set.",
};

pub(in crate::config) static IDENTITY: Setting = Setting {
    key: "identity",
    kind: Kind::Text("1 to 128 characters, no control characters"),
    default: Default::Unset { example: "identity = \"pod-7\"" },
    help: "Distinguishes daemons that have the same machine id, such as the pods of one node. A new \
           identity makes this a new host: the daemon sets the journal aside and skips the ids it held.",
};

pub(in crate::config) static CONNECTIONS_MAX: Setting = Setting {
    key: "connections_max",
    kind: Kind::Integer(1, 65_536),
    default: Default::Is("4096"),
    help: "The maximum number of connections. They are shared between users: one user may open as many as \
           remain for all others, so at most half. A few are reserved for root, the daemon's own user and \
           administrators. Further connections are refused.",
};

pub(in crate::config) static PEER_MEMORY_MIB: Setting = Setting {
    key: "peer_memory_mib",
    kind: Kind::Integer(1, 65_536),
    default: Default::Is("32"),
    help: "The most memory, in MiB, that all clients together can make the daemon use for unread answers and for \
        unfinished or waiting requests. It is shared out by user as connections are. When a user's share is used up, \
        the daemon reads nothing more from that user's connections until the user reads its answers.",
};

pub(in crate::config) static WAITERS_MAX: Setting = Setting {
    key: "waiters_max",
    kind: Kind::Integer(1, 1_000_000),
    default: Default::Is("10000"),
    help: "The maximum number of requests that may wait for one tag, shared between users as connections \
           are. Further requests fail at once.",
};

pub(in crate::config) static DRAWS_KEPT: Setting = Setting {
    key: "draws_kept",
    kind: Kind::Integer(0, 1 << 20),
    default: Default::Is("32768"),
    help: "How many recent draws to remember for `leafctl whose`, at 32 bytes each. They are lost on \
           restart. Ids that a process draws one after another within a second count as one draw. `whose` \
           searches all of them while other requests wait, so a large value delays answers by some \
           milliseconds. 0 turns this off.",
};

pub(in crate::config) static STOP_WITHIN: Setting = Setting {
    key: "stop_within",
    kind: Kind::Time(Duration::from_millis(100), secs(300)),
    default: Default::Is("5s"),
    help: "The maximum time a stop may take to answer pending requests and write exact marks.",
};

pub(in crate::config) static POLLING: Setting = Setting {
    key: "polling",
    kind: Kind::Boolean,
    default: Default::Is("true"),
    help: "Whether to poll for some microseconds before sleeping while requests keep coming. This lowers \
           latency and costs some CPU.",
};

pub(in crate::config) static MASK_KEY_FILE: Setting = Setting {
    key: "mask_key_file",
    kind: Kind::Text("the path of a file that `leafd mask-key new` wrote, UTF-8"),
    default: Default::Unset { example: "mask_key_file = \"/etc/leafd/mask_keys\"" },
    help: "The file with the keys of public ids. It must be the same on all hosts and readable only by \
           users who may know the keys. Without this setting the systemd credential `mask_key` is used, if \
           there is one. A reload reads the file again.",
};

pub(in crate::config) static LOG: Setting = Setting {
    key: "log",
    kind: Kind::Text(
        "off, error, warn, info, debug or trace; or a list such as \"info,leafd::store=debug\"",
    ),
    default: Default::Is("info"),
    help: "What to log to standard error: one level for everything, or a level per module. The ZooKeeper \
           client logs only errors unless it is named (zookeeper_client=info).",
};

pub(in crate::config) static LOG_FORMAT: Setting = Setting {
    key: "log_format",
    kind: Kind::Text("auto, human or json"),
    default: Default::Is("auto"),
    help: "The format of log lines. `human` is for people, in colour on a terminal. `json` writes one \
           object per line. `auto` is `human`, but without time and level in systemd's journal, which \
           records both itself.",
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
    help: "Whether root and the daemon's own user may administer from other containers than the daemon's. Set it to \
           false where containers that don't belong to you can connect: their root has the same number. A container is \
           recognized by its PID namespace. Before Linux 6.5 a daemon that can't see other processes in `/proc` trusts \
           only `admin_uids` and `admin_gids` then.",
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
    help: "Who may draw which tags. A tag that a rule names is reserved for the users and groups of those rules, for \
        root and for the daemon's own user. A tag that no rule names is open to everyone who can connect. A `*` at the \
        end of a name stands for any ending. `ids_per_second` is a quota: each of the rule's users may draw this many \
        ids of each tag, and `burst` at once (by default the same number). A rule with a quota and without users is a \
        quota for everyone. `unmask_uids` and `unmask_gids` name those who may mask and unmask ids of the tags, besides \
        administrators; that neither allows nor reserves drawing them.",
};

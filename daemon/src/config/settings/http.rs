//! The settings of HTTP, which leafd can serve besides its socket.

use super::{Default, Kind, Setting};

pub(in crate::config) static HTTP: Setting = Setting {
    key: "http",
    kind: Kind::Text("ADDRESS:PORT with a numeric address, or the absolute path of a Unix socket"),
    default: Default::Unset { example: "http = \"127.0.0.1:9644\"" },
    help: "Where to serve a status page, `/metrics`, `/livez` and `/readyz` over HTTP. Anyone who can connect \
           may read them, and the page and metrics show tags and volumes. Use 127.0.0.1 or a Unix socket (with \
           `socket_mode` and `socket_group`) unless you trust the network. If systemd passes a socket named \
           `leafd-http` to the daemon, the daemon uses it instead.",
};

pub(in crate::config) static METRICS_TAGS: Setting = Setting {
    key: "metrics_tags",
    kind: Kind::Integer(0, 1_000),
    default: Default::Is("50"),
    help: "How many tags get their own time series, busiest first. The tag `(others)` sums up the rest. Each \
           tag adds six series per host.",
};

pub(in crate::config) static LEAF_HTTP: Setting = Setting {
    key: "leaf_http",
    kind: Kind::Text("ADDRESS:PORT with a numeric address"),
    default: Default::Unset { example: "leaf_http = \"127.0.0.1:8080\"" },
    help: "Where to serve Leaf's own paths over HTTP, for callers that don't use a client yet. This lets the \
           network draw ids; restrict it with `leaf_http_allow` and `leaf_http_token_file`. `[[access]]` rules \
           can't name these callers. Tags reserved by a rule are refused unless `leaf_http_token_file` is set; \
           callers with the token may draw all tags. Only quotas from rules without users apply; all callers \
           share them. There is no TLS.",
};

pub(in crate::config) static LEAF_HTTP_ALLOW: Setting = Setting {
    key: "leaf_http_allow",
    kind: Kind::Toml("a list of addresses and networks, such as [\"127.0.0.1\", \"10.0.0.0/8\"]"),
    default: Default::Is("[\"127.0.0.0/8\", \"::1\"]"),
    help: "The addresses and networks that may request Leaf's paths.",
};

pub(in crate::config) static LEAF_HTTP_NAMES: Setting = Setting {
    key: "leaf_http_names",
    kind: Kind::Toml("a list of host names, such as [\"ids.example.com\"]"),
    default: Default::Is("[]"),
    help: "The host names by which callers without a token may reach Leaf's paths, besides localhost and IP \
           addresses. Requests with any other Host header are refused, because any web page can point a name at \
           this host.",
};

pub(in crate::config) static LEAF_HTTP_TOKEN_FILE: Setting = Setting {
    key: "leaf_http_token_file",
    kind: Kind::Text("the path of a file, UTF-8"),
    default: Default::Unset { example: "leaf_http_token_file = \"/etc/leafd/leaf_http_token\"" },
    help: "A file with a token that callers of Leaf's paths must send as `Authorization: Bearer TOKEN`. It is \
           read at start-up.",
};

pub(in crate::config) static LEAF_HTTP_REQUESTS_PER_SECOND: Setting = Setting {
    key: "leaf_http_requests_per_second",
    kind: Kind::Integer(1, 10_000_000),
    default: Default::Unset { example: "leaf_http_requests_per_second = 10000" },
    help: "How many requests per second each address, and each user of this host, may send to Leaf's paths. \
           Further requests get status 429.",
};

//! The settings of HTTP, which leafd can serve besides its socket.

use super::{Default, Kind, Setting};

pub(in crate::config) static HTTP: Setting = Setting {
    key: "http",
    kind: Kind::Text("ADDRESS:PORT with a numeric address, or the absolute path of a Unix socket"),
    default: Default::Unset { example: "http = \"127.0.0.1:9644\"" },
    help: "Where a page for people, `/metrics`, `/livez` and `/readyz` are served by HTTP. Whoever can connect may read \
           them, and page and metrics tell tags and volumes: keep to 127.0.0.1 or a Unix socket, which gets `socket_mode` and \
           `socket_group`, unless the network is yours. When systemd passes a socket called `leafd-http` to the daemon, \
           that one is served instead.",
};

pub(in crate::config) static METRICS_TAGS: Setting = Setting {
    key: "metrics_tags",
    kind: Kind::Integer(0, 1_000),
    default: Default::Is("50"),
    help: "How many tags the metrics tell one by one, the busiest first. The others are told together, as the tag \
           `(others)`: each tag makes six series on each host.",
};

pub(in crate::config) static LEAF_HTTP: Setting = Setting {
    key: "leaf_http",
    kind: Kind::Text("ADDRESS:PORT with a numeric address"),
    default: Default::Unset { example: "leaf_http = \"127.0.0.1:8080\"" },
    help: "Where Leaf's own paths are served by HTTP, for callers that have not moved to a client yet. It lets the network \
           draw ids: `leaf_http_allow` and `leaf_http_token_file` say who may. No rule of `[[access]]` can name such a caller: tags that a rule reserves, \
           and `/cache` and `/db` as soon as one does, are refused unless `leaf_http_token_file` is set; with it whoever has \
           the token may draw all tags. Of quotas those count whose rules name nobody, for all callers together. There is \
           no TLS.",
};

pub(in crate::config) static LEAF_HTTP_ALLOW: Setting = Setting {
    key: "leaf_http_allow",
    kind: Kind::Toml("a list of addresses and networks, such as [\"127.0.0.1\", \"10.0.0.0/8\"]"),
    default: Default::Is("[\"127.0.0.0/8\", \"::1\"]"),
    help: "From where Leaf's paths may be asked for.",
};

pub(in crate::config) static LEAF_HTTP_TOKEN_FILE: Setting = Setting {
    key: "leaf_http_token_file",
    kind: Kind::Text("the path of a file, UTF-8"),
    default: Default::Unset { example: "leaf_http_token_file = \"/etc/leafd/leaf_http_token\"" },
    help: "A file with a token that callers of Leaf's paths have to send, as `Authorization: Bearer TOKEN`. It is read at \
           the start.",
};

pub(in crate::config) static LEAF_HTTP_REQUESTS_PER_SECOND: Setting = Setting {
    key: "leaf_http_requests_per_second",
    kind: Kind::Integer(1, 10_000_000),
    default: Default::Unset { example: "leaf_http_requests_per_second = 10000" },
    help: "How often each address may ask by Leaf's paths; further requests get the status 429.",
};

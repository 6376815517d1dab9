//! The settings of what is served by HTTP, beside the socket.

use super::{Default, Kind, Setting};

pub(in crate::config) static HTTP: Setting = Setting {
    key: "http",
    kind: Kind::Text("ADDRESS:PORT with a numeric address, or the absolute path of a Unix socket"),
    default: Default::Unset { example: "http = \"127.0.0.1:9644\"" },
    help: "Where `/metrics`, `/livez` and `/readyz` are served by HTTP. Whoever can connect may read them, and the \
           metrics tell tags and volumes: keep to 127.0.0.1 or a Unix socket, which gets `socket_mode` and \
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

//! The store's address: one URL form for every kind of store. It is parsed here, because the database crates' parsers
//! don't support several hosts (MySQL) or certificate checks (PostgreSQL).
//!
//! A password in the URL is refused: URLs end up in process lists, unit files and logs.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::value::{ConfigNode, Instead, InvalidValue};

/// Where numbers are claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// The embedded store, a SQLite database at this path.
    Sqlite(PathBuf),
    /// A PostgreSQL database.
    Postgres(NetworkUrl),
    /// A MySQL or MariaDB database.
    Mysql(NetworkUrl),
}

/// A database on its own servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkUrl {
    /// The URL without its parameters, for messages.
    shown: String,
    /// The user that logs in.
    pub user: String,
    /// The servers' addresses in order of preference; never empty.
    pub endpoints: Vec<Endpoint>,
    /// The servers that failed, and when; the latest at the end.
    failed: Vec<(usize, Instant)>,
    /// The database's name.
    pub database: String,
    /// How the connection is protected; `None` for plain text.
    pub tls: Option<Tls>,
    /// Whether the URL asks for plain text.
    pub plain_text: bool,
}

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A host by name or address, and its port.
    Tcp(String, u16),
    /// A Unix socket: for PostgreSQL its directory, and the port that its name ends in.
    Unix(PathBuf, u16),
}

/// A TLS connection. The server's certificate and name are always checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The authorities trusted for the server's certificate, PEM; `None` for the system's.
    pub root_certificates: Option<PathBuf>,
    /// The client's own certificates and key, PEM.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// How long a server that has failed is tried after the others. After that it gets its normal place again, because
/// hosts that noticed no failure prefer it anyway.
const FAILED_LATELY: Duration = Duration::from_secs(60);

/// What distinguishes the kinds of network stores.
struct Scheme {
    port: u16,
    allowed: &'static str,
}

/// The supported kinds of URL.
pub(super) const ALLOWED: &str =
    "sqlite:PATH, postgres://USER@HOST[:PORT]/DATABASE or mysql://USER@HOST[:PORT]/DATABASE";

const POSTGRES: Scheme = Scheme {
    port: 5432,
    allowed: "postgres://USER@HOST[:PORT][,HOST[:PORT]..]/DATABASE[?sslmode=verify-full&..], a socket's directory \
              as HOST with / written as %2F",
};

const MYSQL: Scheme = Scheme {
    port: 3306,
    allowed: "mysql://USER@HOST[:PORT][,HOST[:PORT]..]/DATABASE[?sslmode=verify-full&..], a socket's path \
              as HOST with / written as %2F",
};

const PARAMETERS: &str = "sslmode=verify-full (the default for other hosts; require is the same here), sslmode=disable, \
                          sslrootcert=PATH (or system), sslcert=PATH with sslkey=PATH, target_session_attrs=read-write";

pub(super) fn parse(node: &ConfigNode) -> Result<StoreUrl, InvalidValue> {
    let text = node.text()?;
    let Some((scheme, rest)) = text.split_once(':') else { return Err(node.bad()) };
    match scheme {
        "sqlite" => sqlite(node, rest).map(StoreUrl::Sqlite),
        "postgres" | "postgresql" => network(text, rest, &POSTGRES)
            .map(StoreUrl::Postgres)
            .map_err(|allowed| node.bad_for(allowed)),
        "mysql" | "mariadb" => network(text, rest, &MYSQL)
            .map(StoreUrl::Mysql)
            .map_err(|allowed| node.bad_for(allowed)),
        _ => Err(node.bad()),
    }
}

fn sqlite(node: &ConfigNode, rest: &str) -> Result<PathBuf, InvalidValue> {
    // `sqlite:///PATH` is the same file written as a URL with an empty authority.
    let path = match rest.strip_prefix("//") {
        Some(path) if path.starts_with('/') => path,
        Some(_) => return Err(node.bad_for("sqlite:PATH or sqlite:///ABSOLUTE/PATH")),
        None => rest,
    };
    if path == ":memory:" {
        return Err(node
            .bad_for("sqlite:PATH; a store in memory would issue every id again after a restart"));
    }
    if path.contains('?') {
        return Err(node.bad_for("sqlite:PATH without parameters"));
    }
    if path.is_empty() || path.ends_with('/') || path.chars().any(char::is_control) {
        return Err(node.bad_for("sqlite:PATH, the path of a file"));
    }
    Ok(PathBuf::from(path))
}

/// Parses the part after the scheme; the error says what is allowed.
fn network(text: &str, rest: &str, scheme: &Scheme) -> Result<NetworkUrl, String> {
    let wrong = |what: &'static str| move || format!("{}; this one has {what}", scheme.allowed);
    let rest = rest.strip_prefix("//").ok_or_else(wrong("no // before the user"))?;
    let (address, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) =
        address.rsplit_once('/').ok_or_else(wrong("no /DATABASE at its end"))?;
    let (user, hosts) = authority.rsplit_once('@').ok_or_else(wrong("no USER@ before the host"))?;
    if user.contains(':') {
        return Err(format!(
            "{}, without a password: put it into store_password_file (for a named store: its password_file), the \
             systemd credential store_password, or the variable LEAFD_STORE_PASSWORD",
            scheme.allowed
        ));
    }
    let user = decoded(user).ok_or_else(wrong("an invalid user name"))?;
    let database = decoded(database).ok_or_else(wrong("an invalid database name"))?;
    let endpoints: Option<Vec<Endpoint>> =
        hosts.split(',').map(|host| endpoint(host, scheme)).collect();
    let endpoints = endpoints
        .ok_or_else(wrong("an invalid host or port (write internationalized names as xn--...)"))?;
    let (tls, plain_text) = tls(parameters, endpoints.iter().all(Endpoint::is_local))?;
    let is_unix = |endpoint: &Endpoint| matches!(endpoint, Endpoint::Unix(..));
    if tls.is_some() && endpoints.iter().any(is_unix) {
        return Err(
            "no TLS where a HOST is a Unix socket: write sslmode=disable, or leave out the socket or the TLS parameters"
                .to_owned(),
        );
    }
    let shown = text.split_once('?').map_or(text, |(before, _)| before).to_owned();
    Ok(NetworkUrl { shown, user, endpoints, failed: Vec::new(), database, tls, plain_text })
}

fn endpoint(text: &str, scheme: &Scheme) -> Option<Endpoint> {
    let (host, port) = host_and_port(text, scheme.port)?;
    let host = decoded(host)?;
    if host.starts_with('/') {
        return Some(Endpoint::Unix(PathBuf::from(host), port));
    }
    is_host(&host).then_some(Endpoint::Tcp(host, port))
}

/// Splits `HOST[:PORT]`. An IPv6 address stands in brackets, because it has colons of its own.
pub(super) fn host_and_port(text: &str, default: u16) -> Option<(&str, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    match port {
        Some(digits) => Some((host, digits.parse().ok().filter(|port| *port > 0)?)),
        None => Some((host, default)),
    }
}

/// Whether this can be a host's name or address.
pub(super) fn is_host(host: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
    !host.is_empty() && host.chars().all(plain)
}

/// The TLS parameters, and whether they request plain text. Unless they do, servers are verified if any of them is on
/// another host.
fn tls(parameters: &str, all_local: bool) -> Result<(Option<Tls>, bool), String> {
    let (mut asked, mut disabled) = (false, false);
    let (mut roots, mut certificate, mut key) = (None, None, None);
    for pair in parameters.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let path = || decoded(value).map(PathBuf::from);
        match (name, value) {
            ("sslmode", "disable") => disabled = true,
            ("sslmode", "require" | "verify-full") | ("sslrootcert", "system") => asked = true,
            ("sslrootcert", _) if !value.is_empty() => roots = path(),
            ("sslcert", _) if !value.is_empty() => certificate = path(),
            ("sslkey", _) if !value.is_empty() => key = path(),
            // Accepted without effect, because only a server that accepts writes can grant claims anyway.
            ("target_session_attrs", "read-write" | "primary") => {}
            _ => return Err(format!("after the ? only these, with & between them: {PARAMETERS}")),
        }
    }
    let named = roots.is_some() || certificate.is_some() || key.is_some();
    if disabled && (asked || named) {
        return Err("either sslmode=disable or certificates, not both".to_owned());
    }
    let client = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err("sslcert and sslkey together, or neither".to_owned()),
    };
    let protects = asked || named || !disabled && !all_local;
    Ok((protects.then_some(Tls { root_certificates: roots, client }), disabled))
}

/// The text without `%XX` escapes; `None` if it is empty, not UTF-8 or has control characters.
fn decoded(text: &str) -> Option<String> {
    percent_decoded(text).filter(|text| !text.is_empty() && !text.chars().any(char::is_control))
}

/// The text without `%XX` escapes; `None` if the result is not UTF-8.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

// === impl Endpoint ===

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp(host, port) => write!(f, "{host}:{port}"),
            Endpoint::Unix(path, _) => path.display().fmt(f),
        }
    }
}

impl NetworkUrl {
    /// Whether this server may get the password in clear text.
    pub fn may_send_password(&self, endpoint: &Endpoint) -> bool {
        self.tls.is_some() || self.plain_text || matches!(endpoint, Endpoint::Unix(..))
    }

    /// The servers in the order in which to try them: in order of preference, and then those that failed, the latest
    /// failure last. Hosts that lose a server together thus switch to the same one, and while no node of a cluster
    /// serves, no host returns to the server that failed first. A failure counts for a minute.
    pub fn in_turn(&self, now: Instant) -> impl Iterator<Item = &Endpoint> {
        let lately = move |(index, at): &(usize, Instant)| {
            (now.saturating_duration_since(*at) < FAILED_LATELY).then_some(*index)
        };
        let has_failed =
            move |index| self.failed.iter().filter_map(lately).any(|failed| failed == index);
        let others = (0..self.endpoints.len()).filter(move |index| !has_failed(*index));
        let failed = self.failed.iter().filter_map(lately);
        others.chain(failed).filter_map(|index| self.endpoints.get(index))
    }

    /// From `now` on this server, given as displayed, is tried last.
    pub fn has_failed(&mut self, endpoint: &str, now: Instant) {
        let Some(failed) = self.endpoints.iter().position(|one| one.to_string() == endpoint) else {
            return;
        };
        self.failed.retain(|(index, at)| {
            *index != failed && now.saturating_duration_since(*at) < FAILED_LATELY
        });
        self.failed.push((failed, now));
    }

    /// URLs with one server each: those that are tried after this one. The ones before it have just failed to answer.
    pub fn after(&self, endpoint: &str, now: Instant) -> impl Iterator<Item = NetworkUrl> {
        let from_it = self.in_turn(now).skip_while(move |one| one.to_string() != endpoint);
        from_it.skip(1).map(|one| NetworkUrl {
            endpoints: vec![one.clone()],
            failed: Vec::new(),
            ..self.clone()
        })
    }
}

impl Endpoint {
    /// Whether it is reached without a network: a Unix socket or a loopback address.
    fn is_local(&self) -> bool {
        match self {
            Endpoint::Unix(..) => true,
            Endpoint::Tcp(host, _) => {
                let address = host.parse::<IpAddr>();
                host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
            }
        }
    }
}

// === impl StoreUrl ===

impl fmt::Display for NetworkUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Display for StoreUrl {
    /// Without parameters. It never contains a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            StoreUrl::Postgres(url) | StoreUrl::Mysql(url) => url.fmt(f),
        }
    }
}

impl std::str::FromStr for StoreUrl {
    type Err = String;

    /// Parses the setting `store`; the error says what is allowed.
    fn from_str(text: &str) -> Result<StoreUrl, String> {
        parse(&ConfigNode::bare(text)).map_err(|bad| match bad.instead {
            Instead::OfSetting => ALLOWED.to_owned(),
            Instead::Allowed(words) | Instead::Because(words) => words.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network_of(text: &str) -> NetworkUrl {
        match text.parse().unwrap() {
            StoreUrl::Postgres(url) | StoreUrl::Mysql(url) => url,
            StoreUrl::Sqlite(path) => panic!("{path:?}"),
        }
    }

    #[test]
    fn several_hosts_ports_and_sockets() {
        let url = network_of("postgres://ann@h1,h2:6000,[::1]:7,%2Frun%2Fpg/ids?sslmode=disable");
        let tcp = |host: &str, port| Endpoint::Tcp(host.to_owned(), port);
        let socket = Endpoint::Unix("/run/pg".into(), 5432);
        assert_eq!(url.endpoints, [tcp("h1", 5432), tcp("h2", 6000), tcp("::1", 7), socket]);
        assert_eq!((&*url.user, &*url.database, url.tls), ("ann", "ids", None));
        assert_eq!(network_of("mysql://a@h/d").endpoints, [tcp("h", 3306)]);
    }

    #[test]
    fn servers_that_failed_are_tried_last() {
        let mut url = network_of("mysql://a@h1,h2,h3/d");
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let in_turn = |url: &NetworkUrl, seconds| {
            let ports: Vec<String> = url.in_turn(at(seconds)).map(ToString::to_string).collect();
            ports.join(" ")
        };
        assert_eq!(in_turn(&url, 0), "h1:3306 h2:3306 h3:3306");
        url.has_failed("h1:3306", at(0));
        assert_eq!(in_turn(&url, 0), "h2:3306 h3:3306 h1:3306");
        url.has_failed("h2:3306", at(3));
        assert_eq!(in_turn(&url, 3), "h3:3306 h1:3306 h2:3306");
        url.has_failed("h3:3306", at(6));
        url.has_failed("h1:3306", at(9));
        assert_eq!(in_turn(&url, 9), "h2:3306 h3:3306 h1:3306");
        assert_eq!(in_turn(&url, 69), "h1:3306 h2:3306 h3:3306", "all that was a minute ago");
        url.has_failed("unknown:3306", at(121));
        assert_eq!(in_turn(&url, 121), "h1:3306 h2:3306 h3:3306");
    }

    #[test]
    fn users_and_databases_are_decoded() {
        let url = network_of("mariadb://a%40b@h/d%2Fe");
        assert_eq!((&*url.user, &*url.database), ("a@b", "d/e"));
    }

    #[test]
    fn protection_is_all_or_nothing() {
        let tls = |rest: &str| network_of(&format!("postgres://a@h/d?{rest}")).tls;
        assert_eq!(tls("sslmode=disable"), None);
        assert_eq!(
            tls(""),
            Some(Tls::default()),
            "nothing is sent in plain text unless the URL says so"
        );
        for local in ["localhost", "127.0.0.1:7,[::1]", "127.1.2.3", "%2Frun%2Fpg,localhost"] {
            assert_eq!(network_of(&format!("mysql://a@{local}/d")).tls, None, "{local}");
        }
        let mixed = network_of("mysql://a@127.0.0.1,h/d").tls;
        assert_eq!(mixed, Some(Tls::default()), "one of them is on another host");
        assert_eq!(tls("sslmode=require&target_session_attrs=read-write"), Some(Tls::default()));
        let full = tls("sslrootcert=/ca.pem&sslcert=/c.pem&sslkey=/k.pem").unwrap();
        assert_eq!(full.root_certificates, Some("/ca.pem".into()));
        assert_eq!(full.client, Some(("/c.pem".into(), "/k.pem".into())));
    }

    #[test]
    fn what_can_t_be_used_is_said_without_secrets() {
        let refused = |text: &str, part: &str| {
            let allowed = text.parse::<StoreUrl>().unwrap_err();
            assert!(allowed.contains(part), "{text}: {allowed}");
            assert!(!allowed.contains("hunter2"), "{allowed}");
        };
        refused("postgres://ann:hunter2@h/d", "store_password_file");
        refused("postgres://h/d", "USER@HOST");
        refused("postgres://h/d", "no USER@");
        refused("postgres:d", "no //");
        refused("mysql://a@h", "mysql://USER@HOST");
        refused("mysql://a@h", "no /DATABASE");
        refused("mysql://a@h/", "an invalid database name");
        refused("mysql://@h/d", "an invalid user name");
        refused("mysql://a@h:0/d", "an invalid host or port");
        refused("mysql://a@/d", "an invalid host");
        refused("mysql://a@h%0A/d", "an invalid host");
        refused("mysql://a@h/d?password=hunter2", "sslmode=verify-full");
        refused("mysql://a@h/d?sslmode=prefer", "sslmode=disable");
        refused("mysql://a@h/d?sslcert=/c", "together");
        refused("mysql://a@h/d?sslmode=disable&sslrootcert=/c", "not both");
        refused("postgres://a@%2Frun/d?sslmode=require", "Unix socket");
        refused("postgres://a@%2Frun,h/d", "sslmode=disable");
    }
}

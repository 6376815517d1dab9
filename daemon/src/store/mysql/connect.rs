//! Sets up the connection to a server that accepts writes.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{ClientIdentity, Conn, DriverError, OptsBuilder, SslOpts};

use super::driver::{describe, io_cause};
use super::sql;
use crate::config::{Endpoint, Tls};
use crate::store::sql::engine::Engine;
use crate::store::sql::{APPLICATION_NAME, READABLE_PASSWORD, Signs, Target, is_of_tls};
use leafd_core::store::{Reason, Why};

/// The files in which systems keep the certificates that they trust.
const SYSTEM_ROOTS: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// A path at which there is no file.
const NO_FILE: &str = "";

/// If one of these variables is on, the server accepts no writes. No server has all of them.
const READ_ONLY: [&str; 5] =
    ["read_only", "super_read_only", "innodb_read_only", "transaction_read_only", "tx_read_only"];

/// The variables above, and those that identify the engine.
const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN
    ('read_only', 'super_read_only', 'innodb_read_only', 'transaction_read_only', 'tx_read_only',
     'version', 'version_comment', 'wsrep_on', 'wsrep_reject_queries', 'aurora_version', 'group_replication_group_name',
     'group_replication_single_primary_mode')";

/// Whether a node of a Galera cluster serves, its state if it doesn't, and the library by which it replicates, if that is
/// loaded.
const NODE: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN
    ('wsrep_ready', 'wsrep_local_state_comment', 'wsrep_provider_name')";

/// No statement and no row is as large.
const PACKET_BYTES_MAX: usize = 4 << 20;

fn options(target: &Target, endpoint: &Endpoint, password: Option<&str>) -> OptsBuilder {
    let attributes = HashMap::from([("program_name".to_owned(), APPLICATION_NAME.to_owned())]);
    let builder = OptsBuilder::new()
        .user(Some(&target.url.user))
        .pass(password)
        .db_name(Some(&target.url.database))
        .connect_attrs(Some(attributes))
        // Otherwise the crate would ask the server how large its own packets may be.
        .max_allowed_packet(Some(PACKET_BYTES_MAX))
        // Otherwise the crate would connect again through whatever socket the server names.
        .prefer_socket(false)
        .tcp_connect_timeout(Some(target.connect_timeout))
        .read_timeout(Some(target.statement_timeout))
        .write_timeout(Some(target.statement_timeout))
        // Otherwise the crate would encrypt the password with whatever key the server sends. It reads this file only
        // if the connection has no TLS.
        .server_key_path((!target.url.may_send_password(endpoint)).then(|| NO_FILE.into()));
    let builder = match endpoint {
        Endpoint::Tcp(host, port) => builder.ip_or_hostname(Some(host)).tcp_port(*port),
        Endpoint::Unix(path, _) => builder.socket(path.to_str()),
    };
    builder.ssl_opts(target.url.tls.as_ref().map(protection))
}

/// Opens a connection. The crate tries only the first address of a name, unless it is told from which address to
/// connect: then it tries all of that kind. Debian's `localhost` means `::1` first, where its MariaDB doesn't listen.
fn open(options: &OptsBuilder, endpoint: &Endpoint) -> mysql::Result<Conn> {
    let first = Conn::new(options.clone());
    let Endpoint::Tcp(host, _) = endpoint else { return first };
    if host.parse::<IpAddr>().is_ok() || !first.as_ref().is_err_and(is_unreachable) {
        return first;
    }
    for any in [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
        match Conn::new(options.clone().bind_address(Some(SocketAddr::new(any, 0)))) {
            Err(mysql::Error::DriverError(DriverError::CouldNotConnect(_))) => {}
            reached => return reached,
        }
    }
    first
}

/// Whether no server answers at an address, though others of the same name may.
fn is_unreachable(error: &mysql::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let mysql::Error::DriverError(DriverError::CouldNotConnect(Some((_, _, kind)))) = error else {
        return false;
    };
    [ConnectionRefused, HostUnreachable, NetworkUnreachable, AddrNotAvailable].contains(kind)
}

/// Checks the server's certificate and name, unless the configuration says otherwise. The crate trusts the public
/// authorities that it contains, and also the given file.
fn protection(tls: &Tls) -> SslOpts {
    // The crate uses the process's default provider of cryptography, and panics if there is none, or if there are two.
    // An error here means that one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let roots = tls.root_certificates.clone().or_else(|| {
        SYSTEM_ROOTS.into_iter().find(|path| Path::new(path).exists()).map(PathBuf::from)
    });
    let identity =
        tls.client.clone().map(|(certificate, key)| ClientIdentity::new(certificate, key));
    SslOpts::default().with_root_cert_path(roots).with_client_identity(identity)
}

/// How long MySQL keeps a connection that sends nothing, beyond a call's time limit. The monitor's probes mostly come
/// sooner; otherwise the next call connects again.
const SILENCE_BEYOND_A_CALL: Duration = Duration::from_secs(5);

/// Settings that the statements rely on. MariaDB aborts a statement a little before leafd abandons it, so that a lock
/// isn't held by a statement that nobody waits for. It also ends a transaction whose client has vanished. MySQL can do
/// neither: it limits the waits for locks, and ends the whole connection of a silent client, which would otherwise hold
/// its locks for hours. The last setting is for MySQL, which would otherwise report a table's creation time from its
/// cache for a day.
fn settings(target: &Target) -> Vec<String> {
    let seconds = target.statement_timeout.as_secs().max(1);
    let silent_seconds = (target.statement_timeout + SILENCE_BEYOND_A_CALL).as_secs();
    let a_little_less = target.statement_timeout.as_secs_f64() * 0.9;
    vec![
        "SET NAMES utf8mb4".to_owned(),
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
        format!(
            "SET SESSION autocommit = 1, time_zone = '+00:00',
             sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
             innodb_lock_wait_timeout = {seconds}, lock_wait_timeout = {seconds}
             /*!50700 , wait_timeout = {silent_seconds} */
             /*M!100303 , idle_transaction_timeout = {seconds}, max_statement_time = {a_little_less:.3} */
             /*!80003 , information_schema_stats_expiry = 0 */"
        ),
    ]
}

/// Connects to a server that accepts writes. The crate limits the time of each read and write.
pub(super) fn connect(
    target: &Target,
    endpoint: &Endpoint,
    password: Option<&str>,
) -> Result<(Conn, Engine, Signs), Reason> {
    let described = |error: mysql::Error| match io_cause(&error).map(io::Error::kind) {
        Some(io::ErrorKind::NotFound) if !target.url.may_send_password(endpoint) => {
            Reason::new(Why::ReadablePassword, READABLE_PASSWORD)
        }
        _ => refusal(&error),
    };
    let mut connection = open(&options(target, endpoint, password), endpoint).map_err(described)?;
    let variables: Vec<(String, String)> = connection.query(VARIABLES).map_err(described)?;
    let engine = Engine::of_mysql(&variables);
    engine.check(target.untested_engine)?;
    let is_read_only = |(name, value): &&(String, String)| {
        READ_ONLY.iter().any(|switch| name.eq_ignore_ascii_case(switch)) && is_on(value)
    };
    if let Some((name, value)) = variables.iter().find(is_read_only) {
        let words = format!("it is read-only, like a replica ({name} is {value})");
        return Err(Reason::new(Why::ReadOnly, words));
    }
    let rejects = variables.iter().find(|(name, value)| {
        name.eq_ignore_ascii_case("wsrep_reject_queries") && !value.eq_ignore_ascii_case("NONE")
    });
    if let Some((name, value)) = rejects {
        return Err(format!("the node rejects queries ({name} is {value})").into());
    }
    if variables.iter().any(|(name, _)| name.eq_ignore_ascii_case("wsrep_on")) {
        let node: Vec<(String, String)> = connection.query(NODE).map_err(described)?;
        let value = |name: &str| {
            let found = node.iter().find(|(is, _)| is.eq_ignore_ascii_case(name));
            found.map_or("", |(_, value)| value.as_str())
        };
        let replicates = engine == Engine::GALERA;
        if replicates && !is_on(value("wsrep_ready")) {
            let state = value("wsrep_local_state_comment");
            let words =
                format!("the node isn't serving: wsrep_ready is OFF, and its state is {state}");
            return Err(words.into());
        }
        // A cluster's node, in it or not, on which somebody has turned replication off.
        if !replicates && !value("wsrep_provider_name").is_empty() {
            return Err("the node doesn't replicate to its cluster: wsrep_on is OFF".into());
        }
    }
    for statement in settings(target) {
        connection.query_drop(statement).map_err(described)?;
    }
    // All nodes of a cluster that is one store have the same history.
    let is_one_store = engine.is_one_store();
    let server = if is_one_store { sql::CLUSTER } else { sql::SERVER };
    let server: Vec<(String, String)> = connection.query(server).map_err(described)?;
    Ok((connection, engine, sql::signs(is_one_store, &server)))
}

/// Why a server does not accept a connection.
fn refusal(error: &mysql::Error) -> Reason {
    let why = match error {
        // 1045, 1698: a wrong password. 1251: a plugin that can't be used. 1862: an expired password. 3118 on MySQL,
        // 4151 on MariaDB: a locked account.
        mysql::Error::MySqlError(said)
            if [1045, 1251, 1698, 1862, 3118, 4151].contains(&said.code) =>
        {
            Why::Login
        }
        // A database that the user may not use.
        mysql::Error::MySqlError(said) if said.code == 1044 => Why::MissingPrivileges,
        mysql::Error::MySqlError(said) if said.code == 1049 => Why::UnknownDatabase,
        mysql::Error::DriverError(DriverError::TlsNotSupported) => Why::NoTls,
        mysql::Error::TlsError(_) => Why::Certificate,
        error if io_cause(error).is_some_and(|cause| is_of_tls(cause)) => Why::Certificate,
        _ => Why::Other,
    };
    Reason::new(why, describe(error))
}

/// Whether a variable's value means that it is on, in the notation of any server.
fn is_on(value: &str) -> bool {
    !["OFF", "0", "NO"].contains(&value.to_ascii_uppercase().as_str())
}

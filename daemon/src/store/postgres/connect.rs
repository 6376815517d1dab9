//! Sets up the connection to a server that accepts writes.

use std::error::Error as _;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postgres::NoTls;
use postgres::error::SqlState;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, Config, Connection};

use super::driver::{classify, describe, say_without_log};
use super::socket::{Allowance, ServerSocket};
use super::sql;
use super::tls;
use crate::config::{Endpoint, StorePassword};
use crate::store::sql::engine::Engine;
use crate::store::sql::{APPLICATION_NAME, NO_TLS, READABLE_PASSWORD, SqlError, Target, is_of_tls};
use leafd_core::store::{Reason, Why};

/// A connection to a server, and the task that moves its bytes.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) mover: JoinHandle<()>,
    pub(super) unconfirmed: Unconfirmed,
    pub(super) allowance: Allowance,
    pub(super) settings: ServerSettings,
}

/// What is known about a server, and how a transaction begins on it.
pub(super) struct ServerSettings {
    /// Whether the functions for the write-ahead log work. On Aurora they may fail.
    pub(super) has_log: bool,
    pub(super) begin: String,
}

/// Whether the server answered a commit that its synchronous standby did not confirm.
///
/// The server commits, and then waits for the standby. If that wait is cancelled, it reports success all the same, with
/// a warning.
#[derive(Clone, Debug, Default)]
pub(super) struct Unconfirmed(Arc<AtomicBool>);

/// The function in the server's source that issues that warning. The warning's text depends on the server's language.
const WARNED_BY: &str = "SyncRepWaitForLSN";

/// The error text for such a commit.
pub(super) const UNCONFIRMED: &str = "it committed, but its synchronous standby did not confirm the commit, so a \
     fail-over could lose it: bring the standby back, or remove it from synchronous_standby_names";

/// Whether the server is a standby, whether it refuses writes for any reason, and whether a commit waits until the
/// standbys have applied it.
const STANDING: &str =
    "SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
    current_setting('synchronous_commit') = 'remote_apply'";

/// The query that identifies the engine. It comes first, because other engines may not support the later ones.
const ENGINE: &str =
    "SELECT version(), EXISTS (SELECT 1 FROM pg_proc WHERE proname = 'aurora_version')";

/// Connects to a server that accepts writes, within the time limit for the whole attempt. The crate's own limit covers
/// only the TCP connection.
pub(super) async fn connect(
    target: &Target,
    endpoint: &Endpoint,
    password: Option<&str>,
) -> Result<Connected, Reason> {
    let mut config = Config::new();
    config.user(&target.url.user).dbname(&target.url.database).application_name(APPLICATION_NAME);
    if let Some(password) = password {
        config.password(password);
    }
    let bound = target.connect_timeout;
    let attempt = tokio::time::timeout(bound, one(target, config, endpoint)).await;
    attempt.unwrap_or_else(|_| {
        Err(format!("no answer within {bound:?} (store_connect_timeout)").into())
    })
}

async fn one(
    target: &Target,
    mut config: Config,
    endpoint: &Endpoint,
) -> Result<Connected, Reason> {
    let (unconfirmed, allowance) = (Unconfirmed::default(), Allowance::new());
    let readable = target.url.may_send_password(endpoint);
    let socket = ServerSocket::connect(endpoint, readable, allowance.clone()).await;
    let socket = socket.map_err(|cause| Reason::from(cause.to_string()))?;
    let (client, mover) = match &target.url.tls {
        Some(tls) => {
            config.ssl_mode(tokio_postgres::config::SslMode::Require);
            let connector = tls::connector(tls, endpoint)
                .map_err(|words| Reason::new(Why::Certificate, words))?;
            let connected = config.connect_raw(socket, connector).await;
            let (client, connection) = connected.map_err(|error| refusal(target, &error))?;
            (client, tokio::spawn(carry(connection, unconfirmed.clone())))
        }
        None => {
            config.ssl_mode(tokio_postgres::config::SslMode::Disable);
            let connected = config.connect_raw(socket, NoTls).await;
            let (client, connection) = connected.map_err(|error| refusal(target, &error))?;
            (client, tokio::spawn(carry(connection, unconfirmed.clone())))
        }
    };
    match agree(&client, target, endpoint).await {
        Ok(settings) => Ok(Connected { client, mover, unconfirmed, allowance, settings }),
        Err(failure) => {
            mover.abort();
            Err(failure)
        }
    }
}

/// The crate's words for a server without TLS.
const OFFERS_NO_TLS: &str = "server does not support TLS";

/// Why a server does not accept a connection.
fn refusal(target: &Target, error: &tokio_postgres::Error) -> Reason {
    let why = match error.code() {
        // Invalid authorization: a wrong password, or a role that may not log in.
        Some(code) if code.code().starts_with("28") => Why::Login,
        Some(code) if *code == SqlState::INVALID_CATALOG_NAME => Why::UnknownDatabase,
        Some(_) => Why::Other,
        // Only the crate's error text says so.
        None if error.source().is_some_and(|cause| cause.to_string() == OFFERS_NO_TLS) => {
            return Reason::new(Why::NoTls, NO_TLS);
        }
        None if is_of_tls(error) => Why::Certificate,
        None if ServerSocket::has_refused(error) => {
            return Reason::new(Why::ReadablePassword, READABLE_PASSWORD);
        }
        // Only the crate's error text says that the server wants a password.
        None if target.password == StorePassword::None && !is_of_io(error) => Why::Login,
        None => Why::Other,
    };
    Reason::new(why, describe(error))
}

fn is_of_io(error: &tokio_postgres::Error) -> bool {
    error.source().is_some_and(|cause| cause.is::<std::io::Error>())
}

/// Moves the connection's bytes until the connection ends.
async fn carry<T>(mut connection: Connection<ServerSocket, T>, unconfirmed: Unconfirmed)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message
            && notice.routine() == Some(WARNED_BY)
        {
            unconfirmed.0.store(true, Ordering::Relaxed);
        }
    }
}

impl Unconfirmed {
    /// Whether there was such a commit since the last call.
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Refuses a server that accepts no writes, and decides on the settings that the statements rely on.
async fn agree(
    client: &Client,
    target: &Target,
    endpoint: &Endpoint,
) -> Result<ServerSettings, Reason> {
    let engine = client.query_typed(ENGINE, &[]).await.map_err(|error| refusal(target, &error))?;
    if let Some(row) = engine.first() {
        let (version, is_aurora): (&str, bool) = (row.get(0), row.get(1));
        Engine::of_postgres(version, is_aurora).check(target.untested_engine)?;
    }
    let row = client.query_typed(STANDING, &[]).await.map_err(|error| refusal(target, &error))?;
    let flag = |index: usize| row.first().is_some_and(|row| row.get::<_, bool>(index));
    if flag(0) {
        return Err(Reason::new(Why::ReadOnly, "it is a standby, which accepts no writes"));
    }
    if flag(1) {
        return Err(Reason::new(Why::ReadOnly, "it is read-only"));
    }
    let has_log = match client.query_typed(&sql::try_log(), &[]).await {
        Ok(_) => true,
        Err(error) => match classify(&error) {
            SqlError::Unsupported(words) => {
                say_without_log(endpoint, &words);
                false
            }
            SqlError::Lost(words) => return Err(words.into()),
            _ => return Err(describe(&error).into()),
        },
    };
    // Poolers adopt a client's time zone.
    client
        .batch_execute("SET TimeZone = 'UTC'")
        .await
        .map_err(|error| Reason::from(describe(&error)))?;
    // The server aborts a statement a little before leafd abandons it, so that a lock isn't held by a statement that
    // nobody waits for. It must also write a commit to disk, and wait for its synchronous standbys, before it answers;
    // otherwise the commit could be lost. The server's setting may change at any time, so each transaction sets its
    // own. Whatever the server's default is, each statement sees everything that was committed before it.
    let ms = (target.statement_timeout.as_millis() * 9 / 10).max(1);
    let durable = if flag(2) { "remote_apply" } else { "on" };
    let begin = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL statement_timeout = {ms};
         SET LOCAL idle_in_transaction_session_timeout = {}; SET LOCAL synchronous_commit = {durable};",
        ms * 2
    );
    Ok(ServerSettings { has_log, begin })
}

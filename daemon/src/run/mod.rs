//! A daemon's life cycle: lock what belongs to this host alone, recover, serve, and stop with exact marks.

pub(crate) mod backends;
pub(crate) mod embedded;
mod http;
mod layouts;
mod lease;
mod static_worker;
mod stop;
pub(crate) mod stores;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::UnixListener;
use tokio::runtime::LocalOptions;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use crate::blocking::Backend as _;
use crate::config::{Args, Config, ConfigError, Source, WorkerSpec};
use crate::engine::masks::Masks;
use crate::engine::segments::{ClaimLog, Losses, Past, SegmentSettings, Segments};
use crate::engine::snowflakes::Snowflakes;
use crate::engine::writer::Writer;
use crate::health::Remedies;
use crate::journal::{Identity, Journal, Outside, Recovered, SetAside};
use crate::logging::LogHandle;
use crate::output;
use crate::registry::Registry;
use crate::registry::static_worker::StaticWorker;
use crate::requests::{About, Dispatcher};
use crate::server::Server;
use crate::server::busy_poll::BusyPoll;
use crate::server::limits::{Limits, REFUSALS_MAX};
use crate::server::socket::Socket;
use crate::state_dir::{StateDir, beside};
use crate::store::Store;
use crate::systemd::activation::{self, HandedOver, PassedSocket};
use crate::systemd::notify::Service;
use crate::systemd::reload::Reload;
use crate::{clock, logging};
use leafd_core::upstream::Condition;
use stop::Daemon;

/// The configuration can't be used; `EX_USAGE` of sysexits.h.
const EXIT_CONFIG: u8 = 64;

/// The daemon's whole life, from its arguments to its exit status: 0 after a requested stop, 64 if the configuration
/// can't be used, 1 for everything else.
pub fn start(args: &Args) -> ExitCode {
    let config = match Config::load(args) {
        Ok(config) => config,
        Err(error) => return refuse_config(&error),
    };
    end_on_panic();
    let outcome = logging::init(&config.log, config.log_format)
        .map_err(anyhow::Error::from)
        .and_then(|log| run(&config, Some((args, log))));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}leafd: {error:#}", logging::error_prefix());
            ExitCode::FAILURE
        }
    }
}

/// Prints the effective configuration, unless `quiet`; the exit status is that of [`start`].
pub fn check_config(args: &Args, quiet: bool) -> ExitCode {
    match Config::load(args) {
        Ok(_) if quiet => ExitCode::SUCCESS,
        Ok(config) => output::print(&config.render()),
        Err(error) => refuse_config(&error),
    }
}

/// A panic is a broken assertion. No daemon is better than one in an unforeseen state, and the next start continues
/// from the journal. Only threads of stores and registries contain their backend's panics.
fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        let contained = [
            Store::THREAD_NAME,
            <dyn Registry>::THREAD_NAME,
            #[cfg(feature = "zookeeper")]
            crate::registry::zookeeper::THREAD_NAME,
        ];
        if !std::thread::current().name().is_some_and(|name| contained.contains(&name)) {
            std::process::abort();
        }
    }));
}

pub(crate) fn refuse_config(error: &ConfigError) -> ExitCode {
    eprintln!("{}leafd: {error}", logging::error_prefix());
    ExitCode::from(EXIT_CONFIG)
}

/// Runs the daemon until a signal stops it. `reloads`: the arguments and the log with which SIGHUP reloads the
/// configuration; `None`: it doesn't.
///
/// # Errors
/// Why it can't start, or can't write exact marks when it stops.
pub fn run(config: &Config, reloads: Option<(&Args, LogHandle)>) -> Result<()> {
    // Before anything else opens files.
    let handed_over = activation::handed_over()?;
    // A core would hold the database's password and the mask keys.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    // One thread answers requests; the threads of the stores and the journal do the blocking work.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build_local(LocalOptions::default())
        .context("cannot start the asynchronous runtime")?;
    let outcome = runtime.block_on(live(config, handed_over, reloads));
    // A thread that waits for a hanging store must not delay the end.
    runtime.shutdown_timeout(Duration::ZERO);
    outcome
}

/// Everything that was locked, opened and recovered, before requests are served.
struct Opened {
    state_dir: StateDir,
    socket: Socket,
    http: http::Listeners,
    journal: Journal,
    recovered: Recovered,
    dispatcher: Rc<Dispatcher>,
    /// The worker number that the operator assigned.
    fixed: Option<Result<Rc<StaticWorker>, String>>,
    /// What follows the stores' changes.
    watching: JoinSet<()>,
}

async fn live(
    config: &Config,
    handed_over: HandedOver,
    reloads: Option<(&Args, LogHandle)>,
) -> Result<()> {
    // Signals come first, so that a signal during the start takes effect after it.
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for signals")?;
    let hangup = signal(SignalKind::hangup()).context("cannot wait for signals")?;
    let connections_max = connections_max(config)?;
    let daemon = Opened::start(config, handed_over).await?.serve(config, connections_max)?;
    if let Some((args, log)) = reloads {
        let dispatcher = Rc::clone(&daemon.dispatcher);
        let reload = Reload::new(args.clone(), log, dispatcher, config);
        tokio::task::spawn_local(reload.run(hangup, Rc::clone(&daemon.service)));
    }
    announce(config, daemon.socket.path(), &daemon.dispatcher.segments);
    tokio::task::spawn_local(note_delays(Rc::clone(&daemon.dispatcher.segments)));
    let name = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    info!("{name}: stopping");
    daemon.stop(config.stop_within).await
}

impl Opened {
    /// Locks what belongs to this host alone, opens everything and recovers.
    async fn start(config: &Config, handed_over: HandedOver) -> Result<Opened> {
        let started = clock::boot();
        let state_dir = StateDir::open(&config.state_dir)?;
        let socket = open_socket(config, handed_over.ids)?;
        let http = http::bind(config, handed_over.http)?;
        let socket_path = socket.path().to_owned();
        let fixed = claim_worker(config);
        let identity = Identity::of_host(config.identity.as_deref());
        let may_begin_anew = |old: &SetAside| embedded::refuse_doubtful(config, &state_dir, old);
        let memory = memory_file(&socket_path);
        let outside = Outside { memory: Some(&memory), may_begin_anew: &may_begin_anew };
        let (journal, recovered) = Journal::open(&state_dir, &identity, outside)?;
        embedded::report_lost(config, &recovered);
        let mut layouts = layouts::recorded(config, &recovered)?;
        // This precedes everything that can fail, because the next start must not assume that this journal has always
        // existed.
        let doubtful = recovered.begun || recovered.unvouched;
        layouts::record_floors(&journal, &mut layouts, fixed.as_ref(), doubtful, config.max_drift)
            .await?;
        let upstreams = stores::open(config, &recovered)?;

        let worker = lease::open(config, fixed.as_ref(), &upstreams, &journal, &recovered).await?;
        let writer = Rc::new(Writer::new(journal.clone()));
        let mask_keys = config.mask_keys().map_err(anyhow::Error::msg)?;
        let masks = Masks::new(Rc::clone(&upstreams[0]), mask_keys);
        let urls = config.routing.stores().iter().map(|spec| spec.url.to_string());
        let former_stores = recovered.former_stores(&urls.collect::<Vec<_>>());
        let crashed = !recovered.stopped_cleanly && !recovered.begun;
        let segments = Segments::new(
            SegmentSettings {
                provision: config.provision(),
                waiters_max: config.waiters_max,
                tag_idle: config.tag_idle,
            },
            upstreams,
            config.routing.clone(),
            Past { host: recovered.host.clone(), former_stores },
            (
                ClaimLog::new(lease::host_name(config).into(), config.claims_kept),
                Losses::open(state_dir.path(), crashed),
            ),
            Rc::clone(&writer),
            Rc::clone(&masks),
        );
        let watching = stores::watch(&segments, &journal, recovered.clone()).await;
        if segments.upstreams.iter().any(|upstream| upstream.stale.get()) {
            layouts::record_floors(&journal, &mut layouts, fixed.as_ref(), true, config.max_drift)
                .await?;
        }
        let snowflakes = Snowflakes::new(
            layouts,
            &recovered.layouts,
            worker,
            clock::millis(config.max_drift),
            config.waiters_max,
            Rc::clone(&writer),
        );
        let about = About {
            started,
            socket: socket_path.display().to_string(),
            state_dir: state_dir.path().display().to_string(),
            worker: lease::worker_text(config),
            metrics_tags: config.metrics_tags,
            draws_kept: config.draws_kept,
            set_aside: recovered.set_aside.as_ref().map(|path| path.display().to_string()),
        };
        let dispatcher = Dispatcher::new(
            Rc::clone(&segments),
            snowflakes,
            masks,
            Rc::clone(&writer),
            config.access.clone(),
            about,
            Remedies::of_config(config),
        );
        Ok(Opened { state_dir, socket, http, journal, recovered, dispatcher, fixed, watching })
    }

    /// Begins to serve.
    fn serve(self, config: &Config, connections_max: u64) -> Result<Daemon> {
        let Opened { state_dir, mut socket, http, journal, recovered, dispatcher, fixed, watching } =
            self;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let wakefulness = BusyPoll::new(config.polling, cores);
        let (stop, stopping) = watch::channel(false);
        let server = Server::new(
            UnixListener::from_std(socket.take_listener()?).context("cannot listen")?,
            Rc::clone(&dispatcher),
            Rc::clone(&wakefulness),
            Limits::new(connections_max, config.peer_memory_bytes),
            stopping,
        );
        let serving = tokio::task::spawn_local(server.run());
        let http = http::serve(http, config, &dispatcher)?;
        let check_removed = config.removed_tag_check;
        let background = tokio::task::spawn_local({
            let dispatcher = Rc::clone(&dispatcher);
            async move {
                tokio::join!(dispatcher.run(check_removed), wakefulness.run());
            }
        });
        if let Some(Ok(worker)) = &fixed {
            let store = Rc::clone(&dispatcher.segments.upstreams[0]);
            let name = lease::host_name(config).into();
            let noting =
                static_worker::note_use(Rc::clone(worker), store, recovered.token.clone(), name);
            tokio::task::spawn_local(noting);
        }
        let guarding = tokio::task::spawn_local(lease::guard_worker(fixed, Rc::clone(&dispatcher)));
        let service = Rc::new(Service::default());
        let attending = tokio::task::spawn_local({
            let (service, dispatcher) = (Rc::clone(&service), Rc::clone(&dispatcher));
            async move { service.report(&dispatcher).await }
        });
        Ok(Daemon {
            _state_dir: state_dir,
            socket,
            _http: http,
            journal,
            recovered,
            dispatcher,
            service,
            stop,
            serving,
            background,
            watching,
            guarding,
            attending,
        })
    }
}

/// The file that notes the journal's last commit: beside the socket, in the runtime directory.
pub(crate) fn memory_file(socket: &Path) -> PathBuf {
    beside(socket, ".last-commit")
}

/// The passed socket, or else the configured one.
fn open_socket(config: &Config, handed_over: Option<PassedSocket>) -> Result<Socket> {
    let Some(given) = handed_over else {
        let group = config.socket_group.as_ref().map(|group| group.gid);
        return Socket::bind(&config.socket, config.socket_mode, group);
    };
    if given.path != config.socket {
        warn!(
            "serving on {}, the socket passed by systemd; the setting socket ({}) is not used",
            given.path.display(),
            config.socket.display()
        );
    }
    Ok(Socket::handed_over(given))
}

/// Locks a static worker number. If that fails, only snowflake ids stop.
fn claim_worker(config: &Config) -> Option<Result<Rc<StaticWorker>, String>> {
    let WorkerSpec::Static(worker) = config.worker else { return None };
    let claimed = StaticWorker::claim(worker, &config.worker_lock_dir);
    Some(claimed.map(Rc::new).map_err(|error| {
        error!("{error}; snowflake ids are refused until leafd is restarted; segment ids continue");
        error
    }))
}

/// The number of connections: as many as configured, as far as descriptors allow.
fn connections_max(config: &Config) -> Result<u64> {
    /// The daemon's own needs, with a margin, and refused connections.
    const OWN_DESCRIPTORS: u64 = 64 + REFUSALS_MAX;
    let connections = u64::try_from(config.connections_max).unwrap_or(u64::MAX);
    let wanted = connections.saturating_add(OWN_DESCRIPTORS);
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return Ok(connections);
    };
    let raised = wanted.min(hard);
    let is_raised = soft < raised && setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok();
    if soft >= wanted || is_raised && raised >= wanted {
        return Ok(connections);
    }
    let possible = soft.max(hard).saturating_sub(OWN_DESCRIPTORS);
    anyhow::ensure!(
        possible > 0,
        "the open-file limit of {hard} leaves no room for connections: raise it to {wanted} (LimitNOFILE=, ulimit -n)"
    );
    warn!(
        "connections_max is {connections}, but the open-file limit leaves room for only {possible}; raise that limit \
         (LimitNOFILE=, ulimit -n)"
    );
    Ok(possible)
}

/// Reports first claims that are still delayed a while after the start. That is not a problem, but explains waiting
/// requests.
async fn note_delays(segments: Rc<Segments>) {
    tokio::time::sleep(clock::TICK).await;
    for upstream in &segments.upstreams {
        if let Some((condition @ Condition::Crowded, _)) = upstream.condition() {
            info!("{}", condition.describe(&upstream.url));
        }
    }
}

/// Reports where the daemon listens: in the log, and on standard output for a person who started it.
fn announce(config: &Config, socket: &Path, segments: &Segments) {
    let stores =
        segments.upstreams.iter().map(|upstream| &*upstream.url).collect::<Vec<_>>().join(", ");
    let trouble = |index| Some(segments.store_trouble(index, clock::boot())?.message);
    let away: Vec<String> = (0..segments.upstreams.len()).filter_map(trouble).collect();
    let ready = match away.is_empty() {
        true => "ready".to_owned(),
        false => format!("started, but not ready for every tag: {}", away.join("; ")),
    };
    let (state_dir, worker) = (config.state_dir.display(), lease::worker_text(config));
    // A variable exported for clients also moves the daemon.
    let variable = config.source_of("socket").filter(|from| matches!(from, Source::Variable(_)));
    let from = variable.map_or(String::new(), |from| format!(" ({from})"));
    let (socket_path, pid) = (format!("{}{from}", socket.display()), std::process::id());
    match away.is_empty() {
        true => info!(socket = %socket_path, %state_dir, stores, worker, pid, "{ready}"),
        false => warn!(socket = %socket_path, %state_dir, stores, worker, pid, "{ready}"),
    }
    if logging::is_journal(std::io::stdout()) {
        // This was just printed.
        return;
    }
    let text = format!(
        "leafd {} is {ready}\n  socket  {}\n  state   {}\n  store   {stores}\n  worker  {}\n",
        env!("CARGO_PKG_VERSION"),
        socket_path,
        config.state_dir.display(),
        lease::worker_text(config),
    );
    // It doesn't matter if nobody reads it.
    let _ = std::io::stdout().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
}

//! A daemon's life: take what is this host's alone, recover, serve, and leave everything exact.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::LocalSet;
use tracing::{error, info, warn};

use crate::activation::{self, HandedOver};
use crate::config::{Args, Config, ConfigError, WorkerSpec};
use crate::dispatch::segments::{SegmentSettings, Segments};
use crate::dispatch::snowflakes::Snowflakes;
use crate::dispatch::worker::Worker;
use crate::dispatch::writer::Writer;
use crate::dispatch::{About, Dispatcher};
use crate::id::UnixMs;
use crate::journal::{Identity, Journal, LayoutRecord, MACHINE_ID_FILE, Recovered, Write};
use crate::logging::LogHandle;
use crate::polling::Wakefulness;
use crate::registry::fixed::FixedWorker;
use crate::reload::Reload;
use crate::server::Server;
use crate::service::Service;
use crate::socket::Socket;
use crate::state_dir::StateDir;
use crate::store::network;
use crate::{clock, logging, output, registry, store, stores, workers};

/// Of the time that a stop may take, the share for connections; the rest is the journal's.
const STOP_SHARE: u32 = 2;

/// Of that rest: a share for the stores' answers, one for the worker registry's, and one that is left to the journal
/// when neither comes.
const LEFT_SHARES: u32 = 3;

/// The configuration can't be used; `EX_USAGE` of sysexits.h.
const EXIT_CONFIG: u8 = 64;

/// The daemon's whole life, from its arguments to its exit status: 0 after a stop that was asked for, 64 when
/// the configuration can't be used, 1 for everything else.
#[must_use]
pub fn start(args: &Args) -> ExitCode {
    let config = match Config::load(args) {
        Ok(config) => config,
        Err(error) => return refuse_config(&error),
    };
    end_on_panic();
    network::install_tls_provider();
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
#[must_use]
pub fn check_config(args: &Args, quiet: bool) -> ExitCode {
    match Config::load(args) {
        Ok(_) if quiet => ExitCode::SUCCESS,
        Ok(config) => output::print(&config.render()),
        Err(error) => refuse_config(&error),
    }
}

/// A panic is a broken assertion: better no daemon than one that goes on in a state nobody thought of. The next
/// start goes on from the journal. Only threads of stores and registries contain their panics, a backend's.
fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        let contained = [
            store::thread::THREAD_NAME,
            registry::thread::THREAD_NAME,
            registry::zookeeper::THREAD_NAME,
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

/// Runs the daemon until a signal stops it. `reloads`: by which arguments and into which log SIGHUP has the
/// configuration read again, if it does.
///
/// # Errors
/// What keeps it from starting, or from writing exact marks when it stops.
pub fn run(config: &Config, reloads: Option<(&Args, LogHandle)>) -> Result<()> {
    // Before anything else opens files.
    let handed_over = activation::handed_over()?;
    // One thread answers; the store's and the journal's threads do what blocks.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("cannot start the asynchronous runtime")?;
    let tasks = LocalSet::new();
    let outcome = tasks.block_on(&runtime, live(config, handed_over, reloads));
    // What is still waiting for a store that hangs must not hold up the end.
    runtime.shutdown_timeout(Duration::ZERO);
    outcome
}

async fn live(
    config: &Config,
    handed_over: Option<HandedOver>,
    reloads: Option<(&Args, LogHandle)>,
) -> Result<()> {
    let started = clock::boot();
    // Signals first: one that comes during the start is obeyed after it.
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for signals")?;
    let hangup = signal(SignalKind::hangup()).context("cannot wait for signals")?;

    let state_dir = StateDir::open(&config.state_dir)?;
    let mut socket = open_socket(config, handed_over)?;
    let socket_path = socket.path().to_owned();
    let fixed = claim_worker(config)?;
    let identity = Identity::of_host(MACHINE_ID_FILE.as_ref(), config.identity.as_deref());
    let (journal, recovered) = Journal::open(&state_dir, &identity)?;
    let mut layouts = layouts(config, &recovered)?;
    // Before anything else can fail: the next start must not think that this journal was always here.
    let doubtful = recovered.begun;
    record_floors(&journal, &mut layouts, fixed.is_some(), doubtful, config.max_drift).await?;
    let homes = stores::open(config, &recovered)?;

    let worker = workers::open(config, fixed.as_ref(), &homes, &journal, &recovered).await?;
    let writer = Rc::new(Writer::new(journal.clone()));
    let segments = Segments::new(
        segment_settings(config),
        homes,
        config.routing.clone(),
        recovered.clone(),
        Rc::clone(&writer),
    );
    let watching = stores::watch(&segments).await;
    if segments.homes().iter().any(|home| home.stale()) {
        record_floors(&journal, &mut layouts, fixed.is_some(), true, config.max_drift).await?;
    }
    let snowflakes = Snowflakes::new(
        layouts,
        &recovered.layouts,
        worker,
        millis(config.max_drift),
        config.waiters_max,
        Rc::clone(&writer),
    );
    let about = About {
        started,
        socket: socket_path.display().to_string(),
        state_dir: state_dir.path().display().to_string(),
        worker: worker_text(config),
        host: recovered.host.to_string(),
        set_aside: recovered.set_aside.as_ref().map(|path| path.display().to_string()),
    };
    let dispatcher = Dispatcher::new(
        Rc::clone(&segments),
        snowflakes,
        Rc::clone(&writer),
        config.access.clone(),
        about,
    );
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wakefulness = Wakefulness::new(config.polling, cores);
    let (stop, stopping) = watch::channel(false);
    let connections_max = u64::try_from(connections_max(config)).unwrap_or(u64::MAX);
    let server = Server::new(
        socket.listen().context("cannot listen")?,
        Rc::clone(&dispatcher),
        Rc::clone(&wakefulness),
        connections_max,
        stopping,
    );
    let serving = tokio::task::spawn_local(server.run());
    let check_removed = config.removed_tag_check;
    let background = tokio::task::spawn_local({
        let dispatcher = Rc::clone(&dispatcher);
        async move {
            tokio::join!(dispatcher.run(check_removed), wakefulness.run());
        }
    });
    let guarding = tokio::task::spawn_local(guard_worker(fixed, Rc::clone(&dispatcher)));
    let service = Rc::new(Service::default());
    let attending = tokio::task::spawn_local({
        let (service, dispatcher) = (Rc::clone(&service), Rc::clone(&dispatcher));
        async move { service.report(&dispatcher).await }
    });
    if let Some((args, log)) = reloads {
        let reload = Reload::new(args.clone(), log, Rc::clone(&dispatcher), config.clone());
        tokio::task::spawn_local(reload.run(hangup, Rc::clone(&service)));
    }
    announce(config, &socket_path, &segments);

    let name = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    info!("{name}: stopping");
    attending.abort();
    service.stopping(config.stop_within);
    // A receiver is always there: the server's.
    let _ = stop.send(true);
    if tokio::time::timeout(config.stop_within / STOP_SHARE, serving).await.is_err() {
        warn!("some clients took no answer in time; their connections are cut");
    }
    let left = config.stop_within - config.stop_within / STOP_SHARE;
    let written = tokio::time::timeout(left, async {
        // Claims under way first, so that their numbers are not lost; but a store that hangs costs only them.
        if tokio::time::timeout(left / LEFT_SHARES, dispatcher.segments.claims_ended())
            .await
            .is_err()
        {
            warn!("the store has not answered; what it may have claimed for this host is skipped");
        }
        // Then what is on its way to the journal; then nothing more may be, and every mark is made exact.
        dispatcher.writer.drained().await;
        let exact_bounds = dispatcher.snowflakes.exact_bounds();
        if let Worker::Kept(keeper) = &dispatcher.snowflakes.worker {
            keeper.stop(dispatcher.snowflakes.issued_below());
            if tokio::time::timeout(left / LEFT_SHARES, keeper.ended()).await.is_err() {
                warn!("the worker registry has not answered; the next start goes by the journal");
            }
        }
        background.abort();
        drop(watching);
        write_exact(&dispatcher, exact_bounds, &journal).await
    })
    .await;
    drop(socket);
    guarding.abort();
    match written {
        Ok(Ok(())) => {
            journal.close().await;
            // Folds the embedded store into its one file; a store that hangs is left as it is.
            for home in segments.homes() {
                let _ = tokio::time::timeout(left, home.store.close()).await;
            }
            if let Worker::Kept(keeper) = &dispatcher.snowflakes.worker {
                let _ = tokio::time::timeout(left, keeper.close()).await;
            }
            info!("stopped; marks are exact");
            Ok(())
        }
        Ok(Err(error)) => {
            Err(error).context("stopped without exact marks: the next start skips some numbers")
        }
        Err(_) => bail!(
            "stopped without exact marks, the journal did not answer within {left:?}: the next start skips some numbers"
        ),
    }
}

/// The socket that was handed over, else the configured one.
fn open_socket(config: &Config, handed_over: Option<HandedOver>) -> Result<Socket> {
    let Some(given) = handed_over else {
        let group = config.socket_group.as_ref().map(|group| group.gid);
        return Ok(Socket::bind(&config.socket, config.socket_mode, group)?);
    };
    if given.path != config.socket {
        warn!(
            "serving on {}, the socket that systemd handed over; the setting socket, {}, is not used",
            given.path.display(),
            config.socket.display()
        );
    }
    Ok(Socket::handed_over(given))
}

/// Makes every mark and bound exact.
async fn write_exact(
    dispatcher: &Rc<Dispatcher>,
    exact_bounds: Vec<Write>,
    journal: &Journal,
) -> Result<()> {
    let mut writes = dispatcher.segments.exact_marks();
    writes.extend(exact_bounds);
    writes.push(Write::StoppedCleanly);
    journal.commit(writes).await?;
    Ok(())
}

fn claim_worker(config: &Config) -> Result<Option<FixedWorker>> {
    match config.worker {
        WorkerSpec::Static(worker) => {
            Ok(Some(FixedWorker::claim(worker, &config.worker_lock_dir)?))
        }
        _ => Ok(None),
    }
}

/// How often the worker's lock is looked at.
const GUARD_EVERY: Duration = Duration::from_secs(1);

/// Gives the worker number up when its lock file is gone or another: then nothing keeps a second daemon out.
async fn guard_worker(worker: Option<FixedWorker>, dispatcher: Rc<Dispatcher>) {
    let Some(worker) = worker else { return };
    while worker.still_held() {
        tokio::time::sleep(GUARD_EVERY).await;
    }
    error!(
        worker = %worker.worker(),
        "the lock file of the worker number was removed or replaced; snowflake ids are refused until leafd is started again"
    );
    dispatcher.snowflakes.give_up_worker();
}

fn worker_text(config: &Config) -> String {
    match &config.worker {
        WorkerSpec::None => "none".to_owned(),
        WorkerSpec::Static(worker) => format!("static:{worker}"),
        WorkerSpec::Store(index) => {
            let name = &config.routing.stores()[*index].name;
            if name.is_empty() { "store".to_owned() } else { format!("store:{name}") }
        }
        WorkerSpec::Zookeeper(servers) => format!("zookeeper at {servers}"),
    }
}

/// Each configured layout with its recorded bound, 0 where none is recorded.
fn layouts(config: &Config, recovered: &Recovered) -> Result<Vec<LayoutRecord>> {
    let mut records = Vec::new();
    for (name, layout) in config.layouts.iter() {
        let recorded = recovered.layouts.iter().find(|record| record.name == *name);
        if let Some(recorded) = recorded
            && recorded.layout != *layout
        {
            bail!(
                "layout {name:?} is configured as {layout:?}, but ids were issued as {:?}: both in one column could \
                 collide; give the new layout a name of its own",
                recorded.layout
            );
        }
        let bound = recorded.map_or(UnixMs(0), |record| record.bound);
        records.push(LayoutRecord { name: name.clone(), layout: *layout, bound });
    }
    Ok(records)
}

/// Lifts bounds that are not known (all of them if `doubtful`) above everything that an earlier life with the
/// same worker number may have issued: as far ahead of the clock as ids may run. Durable when this returns. Only for a
/// number that outlives the journal: a registry knows where each claim starts, and a clock that is years ahead must
/// not burn the journal.
async fn record_floors(
    journal: &Journal,
    layouts: &mut [LayoutRecord],
    fixed: bool,
    doubtful: bool,
    max_drift: Duration,
) -> Result<()> {
    if !fixed {
        return Ok(());
    }
    let floor = UnixMs(clock::now().unix.0.saturating_add(millis(max_drift)));
    let unknown = layouts.iter_mut().filter(|record| doubtful || record.bound == UnixMs(0));
    let mut writes = Vec::new();
    for record in unknown {
        record.bound = record.bound.max(floor);
        writes.push(Write::Bound(record.clone()));
    }
    if !writes.is_empty() {
        journal.commit(writes).await?;
    }
    Ok(())
}

fn segment_settings(config: &Config) -> SegmentSettings {
    SegmentSettings {
        provision: config.provision(),
        waiters_max: config.waiters_max,
        failover_settle: config.failover_settle,
        look_every: config.store_check_interval(),
    }
}

/// As many connections as are wanted and as descriptors allow.
fn connections_max(config: &Config) -> usize {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    /// What the daemon itself needs, with room.
    const OWN_DESCRIPTORS: u64 = 64;
    let wanted =
        u64::try_from(config.connections_max).unwrap_or(u64::MAX).saturating_add(OWN_DESCRIPTORS);
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return config.connections_max;
    };
    if soft >= wanted
        || setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard).is_ok() && hard >= wanted
    {
        return config.connections_max;
    }
    let possible =
        usize::try_from(soft.max(hard).saturating_sub(OWN_DESCRIPTORS)).unwrap_or(usize::MAX);
    warn!(
        "connections_max is {}, but the limit of open files leaves room for {possible}; raise it (LimitNOFILE=, ulimit -n)",
        config.connections_max
    );
    possible
}

/// Tells where it is to be found: in the log, and on standard output for whoever started it by hand.
fn announce(config: &Config, socket: &Path, segments: &Segments) {
    let stores = segments.homes().iter().map(|home| &*home.url).collect::<Vec<_>>().join(", ");
    let away = segments.store_failure();
    let ready = match &away {
        None => "ready".to_owned(),
        Some(why) => format!("up, but not ready for every tag: {why}"),
    };
    info!(
        socket = %socket.display(), state_dir = %config.state_dir.display(), stores,
        worker = worker_text(config), pid = std::process::id(), "{ready}"
    );
    if logging::is_journal(std::io::stdout()) {
        // It has just been told.
        return;
    }
    let text = format!(
        "leafd {} is {ready}\n  socket  {}\n  state   {}\n  store   {stores}\n  worker  {}\n",
        env!("CARGO_PKG_VERSION"),
        socket.display(),
        config.state_dir.display(),
        worker_text(config),
    );
    // Nobody may be reading.
    let _ = std::io::stdout().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

//! `leafd doctor`: checks everything that ids depend on, and reports each problem with a remedy. It writes nothing, and
//! can run beside a daemon.
//!
//! - `state`: the state directory, the journal and the embedded store.
//! - `store`: a database: the login, its clock, privileges and tables.
//! - `workers`: the pool of snowflake workers.
//! - `unit`: the service's unit.

mod state;
mod store;
mod unit;
mod workers;

use std::net::{TcpStream, ToSocketAddrs as _};
use std::process::ExitCode;

use leafd_checkup::{Expected, Report, check_daemon};
use leafd_core::registry::Mode;

use self::workers::Ourselves;
use crate::cli::{finish, service};
use crate::config::{Args, Config, WorkerSpec};
use crate::health::Remedies;
use crate::output;
use crate::store::sql::WorkersWish;

/// Arguments of `leafd doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each check reports ok, warning or failed, and each problem is followed by its remedy. The doctor
writes nothing, and also queries the daemon if one is running. Run as root without arguments, it
uses the settings and the user of leafd.service.

Exit status: 0 no check failed, 1 a check failed, 64 the configuration is invalid.")]
pub struct DoctorArgs {
    #[command(flatten)]
    args: Args,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the checks and prints the findings.
pub fn run(args: &DoctorArgs) -> ExitCode {
    let examined = || {
        let config = service::load(&args.args)?;
        service::become_owner(&config.state_dir)?;
        Ok(examine(&config))
    };
    match examined() {
        Ok(report) => {
            let text = if args.json { format!("{}\n", report.json()) } else { report.text() };
            let printed = output::print(&text);
            if report.has_failed() { ExitCode::FAILURE } else { printed }
        }
        Err(error) => finish(Err(error)),
    }
}

fn examine(config: &Config) -> Report {
    let mut report = Report::default();
    check_config(&mut report, config);
    let state = state::check(&mut report, config);
    let status = check_daemon(
        &mut report,
        &config.socket,
        Expected {
            release: env!("CARGO_PKG_VERSION"),
            running: state.daemon.is_some(),
            mode: Some(config.socket_mode),
            gid: config.socket_group.as_ref().map(|group| group.gid),
        },
    );
    unit::check(&mut report, config);
    let asked = status.as_ref().map(|status| &*status.host.host).filter(|host| !host.is_empty());
    let ourselves = Ourselves { host: asked.or(state.host.as_deref()), status: status.as_ref() };
    let remedies = Remedies::of_config(config);
    for (index, spec) in config.routing.stores().iter().enumerate() {
        let role = config.routing.role(index);
        let wish = workers_wish(config, index);
        let found = store::check(&mut report, config, spec, &role, &remedies, wish);
        if let Some(found) = found.and_then(|found| found.workers) {
            let remedy = |why| remedies.of_error(spec, why);
            workers::check(&mut report, config, &found, ourselves, remedy);
        }
    }
    if let WorkerSpec::Zookeeper(servers) = &config.worker {
        for (host, port) in &servers.hosts {
            check_port(&mut report, host, *port, config);
        }
    }
    report
}

fn check_config(report: &mut Report, config: &Config) {
    match config.mask_keys() {
        Ok(_) => report.ok("configuration", "valid; leafd check-config shows it"),
        Err(words) => {
            report.failed("configuration", words, "install the key file that all other hosts use")
        }
    }
}

/// Whether a server of ZooKeeper accepts connections.
fn check_port(report: &mut Report, host: &str, port: u16, config: &Config) {
    let connect = || {
        let mut failure = std::io::Error::other("the name resolves to no address");
        for at in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&at, config.store_connect_timeout) {
                Ok(_) => return Ok(at),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    };
    match connect() {
        Ok(at) => report.ok("zookeeper", format!("{at} accepts connections")),
        Err(error) => report.failed(
            "zookeeper",
            format!("{host}:{port}: {error}"),
            "check that the server is running, that name and port are correct, and that no firewall blocks it",
        ),
    }
}

/// The workers to ask a store for: those of the pool or, if the operator assigns the number, all that other hosts may
/// have leased in the first store.
fn workers_wish(config: &Config, store: usize) -> Option<WorkersWish> {
    match &config.worker {
        WorkerSpec::Store(index) if *index == store => Some(WorkersWish {
            mode: config.worker_mode,
            pool: config.worker_range.clone(),
            is_registry: true,
        }),
        WorkerSpec::Static(worker) if store == 0 => {
            let pool = worker.0..worker.0.saturating_add(1);
            Some(WorkersWish { mode: Mode::Leased, pool, is_registry: false })
        }
        _ => None,
    }
}

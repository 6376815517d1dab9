//! A reload: the configuration is read again on SIGHUP. Settings that can change while ids are issued take effect; for
//! the others, the log says that they need a restart.

use std::rc::Rc;

use anyhow::{Error, Result, anyhow};
use tokio::signal::unix::Signal;
use tracing::{error, info, warn};

use crate::config::{Args, Config, Effective, is_reloaded};
use crate::logging::LogHandle;
use crate::requests::Dispatcher;
use crate::systemd::notify::Service;
use leafd_core::segment::PrefetchPolicy;

/// Reads the configuration again.
pub struct Reload {
    args: Args,
    log: LogHandle,
    dispatcher: Rc<Dispatcher>,
    /// The settings in force. Those that need a restart stay as they were at the start.
    effective: Vec<Effective>,
    /// How long strict tags are held, which depends on settings that need a restart.
    hold_ms: u64,
}

impl Reload {
    /// A reloader for a daemon whose `config` was just read from `args` and the environment.
    pub fn new(args: Args, log: LogHandle, dispatcher: Rc<Dispatcher>, config: &Config) -> Reload {
        let (effective, hold_ms) = (config.effective.clone(), config.provision().hold_ms);
        Reload { args, log, dispatcher, effective, hold_ms }
    }

    /// Reads the configuration again at each signal, and notifies the service manager. A configuration that can't be
    /// used changes nothing.
    pub async fn run(mut self, mut hangup: Signal, service: Rc<Service>) {
        while hangup.recv().await.is_some() {
            service.reloading();
            let outcome = self.apply().await;
            self.dispatcher.counters.reloaded(outcome.is_ok());
            if let Err(cause) = outcome {
                error!("reload failed, nothing was changed: {cause}");
            }
            service.reloaded();
        }
    }

    async fn apply(&mut self) -> Result<()> {
        let args = self.args.clone();
        // Looking up a group's name may require a remote service.
        let read = tokio::task::spawn_blocking(move || {
            let new = Config::load(&args)?;
            // The file may contain other keys under the same name.
            let keys = new.mask_keys().map_err(Error::msg)?;
            Ok::<_, Error>((new, keys))
        });
        let read = read.await.map_err(|error| anyhow!("it could not be read: {error}"))?;
        let (new, keys) = read?;
        let pairs = self.effective.iter().zip(&new.effective);
        let changed = pairs.filter(|(old, new)| old.value != new.value).map(|(old, _)| old.key);
        let (now, later): (Vec<_>, Vec<_>) = changed.partition(|key| is_reloaded(key));
        self.log.set(&new.log)?;
        self.dispatcher.set_access(new.access.clone());
        self.dispatcher.masks.renew(keys);
        let provision = PrefetchPolicy { hold_ms: self.hold_ms, ..new.provision() };
        self.dispatcher.segments.set_provision(provision);
        for (known, new) in self.effective.iter_mut().zip(new.effective) {
            if is_reloaded(known.key) {
                *known = new;
            }
        }
        match now.as_slice() {
            [] => info!("reload: no reloadable setting has changed"),
            now => info!("reload: applied: {}", now.join(", ")),
        }
        if !later.is_empty() {
            warn!("reload: changed settings that need a restart: {}", later.join(", "));
        }
        Ok(())
    }
}

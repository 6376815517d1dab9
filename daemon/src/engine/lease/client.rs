//! Calls the registry behind the lease. A registry in a store uses the store's thread; any other has its own thread.
//!
//! A store's registry counts only while the store is the one from which this host also claims segments: both are
//! checked together. While the store doesn't answer, only its monitor retries, and the lease waits for the result.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use leafd_wire::Layout;

use crate::engine::upstream::Upstream;
use crate::registry::{Registry, RegistryHandle};
use crate::store::Store;
use leafd_core::registry::{
    CompareAndSet, Entry, LeaseRecord, Mode, RegistryError, RegistryId, Snapshot,
};
use leafd_core::{Tag, UnixMs};

pub struct RegistryClient {
    backend: Backend,
    /// The layouts. Every host of the registry must define them in the same way.
    layouts: Arc<[(Tag, Layout)]>,
    /// The registry with which the layouts were agreed on.
    agreed: RefCell<Option<RegistryId>>,
    /// The other stores of this host, which must not lease the same workers.
    others: Vec<Rc<Upstream>>,
}

/// Where a registry is.
pub enum Backend {
    Store(Rc<Upstream>, Mode),
    /// On a thread of its own.
    Thread(RegistryHandle),
}

impl RegistryClient {
    /// A client of this registry. `others` must not lease the same workers.
    pub fn new(
        backend: Backend,
        layouts: Arc<[(Tag, Layout)]>,
        others: Vec<Rc<Upstream>>,
    ) -> RegistryClient {
        RegistryClient { backend, layouts, agreed: RefCell::default(), others }
    }

    /// Reads the entries of these workers.
    ///
    /// # Errors
    /// See [`Registry::snapshot`]; also an error when the store behind the registry is not the configured one.
    pub async fn snapshot(&self, pool: Range<u64>) -> Result<Snapshot, RegistryError> {
        let look = self.call(move |registry| registry.snapshot(pool)).await?;
        self.verify(&look.registry)?;
        Ok(look)
    }

    /// The same, once the layouts are agreed on with this registry.
    ///
    /// # Errors
    /// As there, and if another host defines a layout differently.
    pub async fn agreed_snapshot(&self, pool: Range<u64>) -> Result<Snapshot, RegistryError> {
        let look = self.snapshot(pool.clone()).await?;
        if self.agreed.borrow().as_ref() != Some(&look.registry) {
            let layouts = Arc::clone(&self.layouts);
            self.call(move |registry| registry.register_layouts(&layouts)).await?;
            self.check_others(&pool).await?;
            self.agreed.replace(Some(look.registry.clone()));
        }
        Ok(look)
    }

    /// Replaces an entry.
    ///
    /// # Errors
    /// See [`Registry::compare_and_set`] and [`RegistryClient::snapshot`].
    pub async fn compare_and_set(
        &self,
        under: RegistryId,
        swap: CompareAndSet,
    ) -> Result<UnixMs, RegistryError> {
        self.verify(&under)?;
        self.call(move |registry| registry.compare_and_set(&under, &swap)).await
    }

    /// Assigns a permanent worker to a holder.
    ///
    /// # Errors
    /// See [`Registry::assign`] and [`RegistryClient::snapshot`].
    pub async fn assign(
        &self,
        under: RegistryId,
        pool: Range<u64>,
        holding: LeaseRecord,
    ) -> Result<Entry, RegistryError> {
        self.verify(&under)?;
        self.call(move |registry| registry.assign(&under, pool, &holding)).await
    }

    /// See [`Upstream::verify`].
    fn verify(&self, found: &RegistryId) -> Result<(), RegistryError> {
        match &self.backend {
            Backend::Store(upstream, _) => Ok(upstream.verify(found)?),
            Backend::Thread(_) => Ok(()),
        }
    }

    /// Checks that no other store of this host leases workers of the same pool, because two registries don't know about
    /// each other. A store that doesn't answer, or has no workers, is skipped.
    async fn check_others(&self, pool: &Range<u64>) -> Result<(), RegistryError> {
        for Upstream { name, store, .. } in self.others.iter().map(|other| &**other) {
            let range = pool.clone();
            let look = move |store: &mut Store| Ok(store.workers(Mode::Leased).snapshot(range));
            let Ok(Ok(look)) = store.call(look).await else { continue };
            if let Some(entry) = look.entries.iter().find(|entry| entry.holding.expires > look.now)
            {
                return Err(RegistryError::Refused(format!(
                    "the store {name} can lease worker {} too, because its worker_range is {}..{}: independent \
                     registries need ranges that don't overlap; correct worker or worker_range",
                    entry.worker, pool.start, pool.end
                ).into()));
            }
        }
        Ok(())
    }

    /// Runs `work` on the registry, on its thread.
    ///
    /// # Errors
    /// Those of `work`, and [`RegistryError::Unavailable`] when the thread can't run it.
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Registry) -> Result<T, RegistryError> + Send + 'static,
    ) -> Result<T, RegistryError> {
        match &self.backend {
            Backend::Store(upstream, mode) => {
                upstream.reachable().await?;
                let mode = *mode;
                let call = move |store: &mut Store| Ok(work(&mut *store.workers(mode)));
                let done = upstream.store.call(call).await;
                let done = done.unwrap_or_else(|error| Err(error.into()));
                if let Err(RegistryError::Unavailable { .. }) = &done {
                    upstream.probe_soon();
                }
                done
            }
            Backend::Thread(registry) => registry.call(|registry| work(registry)).await,
        }
    }

    /// Closes the registry if it has a thread of its own.
    pub async fn close(&self) {
        if let Backend::Thread(registry) = &self.backend {
            registry.close().await;
        }
    }
}

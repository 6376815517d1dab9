//! The registry behind the lease: in the store, on the store's own thread, or on a thread of its own.
//!
//! A store's registry counts only while the store is the one that this host claims segments from too: both sides judge
//! it as one.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use leafd_wire::Layout;

use crate::dispatch::segments::Home;
use crate::id::worker::{Answer, Ask};
use crate::id::{Tag, UnixMs};
use crate::registry::{
    Entry, Holding, Look, Mode, Registry, RegistryError, RegistryHandle, RegistryId, Swap,
};
use crate::store::{StoreHandle, StoreId};

/// Calls a registry.
#[derive(Clone)]
pub struct Link {
    place: Place,
    /// The layouts that every host of the registry must mean the same by.
    layouts: Arc<[(Tag, Layout)]>,
    /// Other stores that this host sees: nobody may claim the same workers there.
    others: Vec<(Arc<str>, StoreHandle)>,
}

#[derive(Clone)]
enum Place {
    Store(Rc<Home>, Mode),
    Thread(RegistryHandle),
}

impl Link {
    /// A registry in a store.
    #[must_use]
    pub fn store(home: Rc<Home>, mode: Mode, layouts: Vec<(Tag, Layout)>) -> Link {
        Link { place: Place::Store(home, mode), layouts: layouts.into(), others: Vec::new() }
    }

    /// With other stores, by name, that must not give the same workers.
    #[must_use]
    pub fn beside(self, others: Vec<(Arc<str>, StoreHandle)>) -> Link {
        Link { others, ..self }
    }

    /// A registry on a thread of its own.
    #[must_use]
    pub fn thread(registry: RegistryHandle, layouts: Vec<(Tag, Layout)>) -> Link {
        Link { place: Place::Thread(registry), layouts: layouts.into(), others: Vec::new() }
    }

    /// Makes a call. `agreed` is the registry that the layouts were agreed on with last.
    pub async fn ask(self: Rc<Self>, ask: Ask, agreed: Option<RegistryId>) -> Answer {
        match ask {
            Ask::Look(pool) => Answer::Look(self.look_agreed(pool, agreed.as_ref()).await),
            Ask::Swap(under, swap) => Answer::Swap(self.swap(under, swap).await),
            Ask::Bind(under, pool, holding) => Answer::Bind(self.bind(under, pool, holding).await),
        }
    }

    /// Looks at these workers.
    ///
    /// # Errors
    /// See [`Registry::look`]; also when it is the registry of another store than the one that is meant.
    pub async fn look(&self, pool: Range<u64>) -> Result<Look, RegistryError> {
        let look = self.call(move |registry| registry.look(pool)).await?;
        self.vouch(&look.registry.id)?;
        Ok(look)
    }

    async fn look_agreed(
        &self,
        pool: Range<u64>,
        agreed: Option<&RegistryId>,
    ) -> Result<Look, RegistryError> {
        let look = self.look(pool.clone()).await?;
        if agreed != Some(&look.registry) {
            let layouts = Arc::clone(&self.layouts);
            self.call(move |registry| registry.agree(&layouts)).await?;
            self.check_others(&pool).await?;
        }
        Ok(look)
    }

    /// Replaces an entry.
    ///
    /// # Errors
    /// See [`Registry::swap`] and [`Link::look`].
    pub async fn swap(&self, under: RegistryId, swap: Swap) -> Result<UnixMs, RegistryError> {
        self.vouch(&under.id)?;
        self.call(move |registry| registry.swap(&under, &swap)).await
    }

    async fn bind(
        &self,
        under: RegistryId,
        pool: Range<u64>,
        holding: Holding,
    ) -> Result<Entry, RegistryError> {
        self.vouch(&under.id)?;
        self.call(move |registry| registry.bind(&under, pool, &holding)).await
    }

    /// See [`Home::vouch`].
    fn vouch(&self, found: &StoreId) -> Result<(), RegistryError> {
        match &self.place {
            Place::Store(home, _) => Ok(home.vouch(found)?),
            Place::Thread(_) => Ok(()),
        }
    }

    /// Sees to it that no other store which this host knows gives workers of the same pool: two registries know nothing
    /// of each other. One that can't be asked, or has no workers, tells nothing.
    async fn check_others(&self, pool: &Range<u64>) -> Result<(), RegistryError> {
        for (name, store) in &self.others {
            let range = pool.clone();
            let look = store.workers(Mode::Leased, move |registry| registry.look(range)).await;
            let Ok(look) = look else { continue };
            if let Some(entry) = look.entries.iter().find(|entry| entry.holding.bound > look.now) {
                return Err(RegistryError::Refused(format!(
                    "the store {name} gives worker {} too, which lies in worker_range {}..{}: registries that know nothing of \
                     each other must have ranges that share no number; correct worker or worker_range",
                    entry.worker, pool.start, pool.end
                )));
            }
        }
        Ok(())
    }

    /// Does something with the registry, on its thread. Errors are those of `work`, and
    /// [`RegistryError::Unavailable`] when the thread can't do it.
    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Registry) -> Result<T, RegistryError> + Send + 'static,
    ) -> Result<T, RegistryError> {
        match &self.place {
            Place::Store(home, mode) => home.store.workers(*mode, work).await,
            Place::Thread(registry) => registry.call(work).await,
        }
    }

    /// Closes a registry that has a thread of its own.
    pub async fn close(&self) {
        if let Place::Thread(registry) = &self.place {
            registry.close().await;
        }
    }
}

//! The registry behind the lease: in the store, on the store's own thread, or on a thread of its own.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use leafd_wire::Layout;

use crate::id::Tag;
use crate::id::worker::{Answer, Ask};
use crate::registry::{Look, Mode, Registry, RegistryError, RegistryHandle, RegistryId};
use crate::store::StoreHandle;

/// Calls a registry.
#[derive(Clone, Debug)]
pub struct Link {
    place: Place,
    /// The layouts that every host of the registry must mean the same by.
    layouts: Arc<[(Tag, Layout)]>,
    /// Other stores that this host sees: nobody may claim the same workers there.
    others: Vec<(Arc<str>, StoreHandle)>,
}

#[derive(Clone, Debug)]
enum Place {
    Store(StoreHandle, Mode),
    Thread(RegistryHandle),
}

impl Link {
    /// A registry in a store.
    #[must_use]
    pub fn store(store: StoreHandle, mode: Mode, layouts: Vec<(Tag, Layout)>) -> Link {
        Link { place: Place::Store(store, mode), layouts: layouts.into(), others: Vec::new() }
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
            Ask::Look(pool) => {
                let layouts = Arc::clone(&self.layouts);
                let known = agreed.clone();
                let range = pool.clone();
                let look = self.call(move |registry| {
                    let look = registry.look(range)?;
                    if agreed.as_ref() != Some(&look.registry) {
                        registry.agree(&layouts)?;
                    }
                    Ok(look)
                });
                let look = match look.await {
                    Ok(look) if known.as_ref() != Some(&look.registry) => {
                        self.check_others(&pool).await.map(|()| look)
                    }
                    answer => answer,
                };
                Answer::Look(look)
            }
            Ask::Swap(under, swap) => {
                Answer::Swap(self.call(move |registry| registry.swap(&under, &swap)).await)
            }
            Ask::Bind(under, pool, holding) => {
                Answer::Bind(self.call(move |registry| registry.bind(&under, pool, &holding)).await)
            }
        }
    }

    /// Looks at these workers.
    ///
    /// # Errors
    /// See [`Registry::look`].
    pub async fn look(&self, pool: Range<u64>) -> Result<Look, RegistryError> {
        self.call(move |registry| registry.look(pool)).await
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

    /// Does something with the registry, on its thread.
    ///
    /// # Errors
    /// Those of `work`, and [`RegistryError::Unavailable`] when the thread can't do it.
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Registry) -> Result<T, RegistryError> + Send + 'static,
    ) -> Result<T, RegistryError> {
        match &self.place {
            Place::Store(store, mode) => store.workers(*mode, work).await,
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

//! Runs a store on a thread of its own, and offers each of its calls as an asynchronous method.

use std::sync::Arc;
use std::time::Duration;

use super::{
    CheckIn, Claim, ClaimRecord, ClaimWish, ClaimedBy, Generation, History, HostId, Identity,
    NewTag, Role, StartToken, StaticUser, Store, StoreError, TagChange, TagRow, TagTerms,
};
use crate::blocking::{Backend, Handle};
use crate::registry::Registry;
use leafd_core::mask::KeyNumber;
use leafd_core::registry::{Mode, RegistryError};
use leafd_core::{Tag, WorkerId};

/// Calls a store that runs on its own thread. When the future of a claim is dropped, the ids of that claim are lost.
pub type StoreHandle = Handle<dyn Store>;

impl Backend for dyn Store + '_ {
    type Error = StoreError;

    const THREAD_NAME: &'static str = "leafd-store";
    const CALLS_WAITING_MAX: usize = 1024;

    fn unavailable(name: &str, cause: String) -> StoreError {
        StoreError::Unavailable { store: name.to_owned(), cause: cause.into() }
    }

    fn overloaded(name: &str) -> StoreError {
        StoreError::Overloaded { store: name.to_owned(), waiting_max: Self::CALLS_WAITING_MAX }
    }
}

impl StoreHandle {
    /// See [`Store::identity`].
    ///
    /// # Errors
    /// As for [`Store::identity`]. Every call may also fail with [`StoreError::Overloaded`], and with
    /// [`StoreError::Unavailable`] when the store is closed or its backend panicked.
    pub async fn identity(&self) -> Result<Identity, StoreError> {
        self.call(|store| store.identity()).await
    }

    /// See [`Store::take_role`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn take_role(&self, under: &Identity, role: &Role) -> Result<(), StoreError> {
        let (under, role) = (under.clone(), role.clone());
        self.call(move |store| store.take_role(&under, &role)).await
    }

    /// See [`Store::replace_role`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn replace_role(&self, under: &Identity, role: &Role) -> Result<(), StoreError> {
        let (under, role) = (under.clone(), role.clone());
        self.call(move |store| store.replace_role(&under, &role)).await
    }

    /// See [`Store::claim_as`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn claim_as(
        &self,
        by: Option<ClaimedBy>,
        under: &Identity,
        tag: &Tag,
        wish: ClaimWish,
    ) -> Result<Claim, StoreError> {
        let (under, tag) = (under.clone(), tag.clone());
        self.call(move |store| store.claim_as(by.as_ref(), &under, &tag, wish)).await
    }

    /// See [`Store::claims_after`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn claims_after(
        &self,
        tag: &Tag,
        id: u64,
        limit: u32,
    ) -> Result<Vec<ClaimRecord>, StoreError> {
        let tag = tag.clone();
        self.call(move |store| store.claims_after(&tag, id, limit)).await
    }

    /// See [`Store::forget_claims`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn forget_claims(&self, age: Duration, limit: u32) -> Result<u64, StoreError> {
        self.call(move |store| store.forget_claims(age, limit)).await
    }

    /// See [`Store::show`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn show(&self, tag: &Tag) -> Result<TagRow, StoreError> {
        let tag = tag.clone();
        self.call(move |store| store.show(&tag)).await
    }

    /// See [`Store::list`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn list(&self, after: Option<&Tag>, limit: u32) -> Result<Vec<TagRow>, StoreError> {
        let after = after.cloned();
        self.call(move |store| store.list(after.as_ref(), limit)).await
    }

    /// See [`Store::ends`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn ends(
        &self,
        after: Option<&Tag>,
        limit: u32,
    ) -> Result<Vec<(Tag, u64)>, StoreError> {
        let after = after.cloned();
        self.call(move |store| store.ends(after.as_ref(), limit)).await
    }

    /// See [`Store::claimed_end`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn claimed_end(&self, tag: &Tag) -> Result<u64, StoreError> {
        let tag = tag.clone();
        self.call(move |store| store.claimed_end(&tag)).await
    }

    /// See [`Store::create`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn create(&self, under: &Identity, new: NewTag) -> Result<TagRow, StoreError> {
        let under = under.clone();
        self.call(move |store| store.create(&under, &new)).await
    }

    /// See [`Store::set`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn set(&self, tag: &Tag, change: TagChange) -> Result<TagRow, StoreError> {
        let tag = tag.clone();
        self.call(move |store| store.set(&tag, &change)).await
    }

    /// See [`Store::delete`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn delete(&self, tag: &Tag, generation: Generation) -> Result<TagRow, StoreError> {
        let tag = tag.clone();
        self.call(move |store| store.delete(&tag, generation)).await
    }

    /// See [`Store::look_up`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn look_up(
        &self,
        under: &Identity,
        tags: Vec<Tag>,
    ) -> Result<Vec<Option<TagTerms>>, StoreError> {
        let under = under.clone();
        self.call(move |store| store.look_up(&under, &tags)).await
    }

    /// See [`Store::is_settled`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn is_settled(&self, under: &Identity) -> Result<Option<bool>, StoreError> {
        let under = under.clone();
        self.call(move |store| store.is_settled(&under)).await
    }

    /// See [`Store::renew`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn renew(
        &self,
        under: &Identity,
        known: Option<History>,
    ) -> Result<bool, StoreError> {
        let under = under.clone();
        self.call(move |store| store.renew(&under, known.as_ref())).await
    }

    /// See [`Store::identity`], [`Store::trust`] and [`Store::written`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn identity_after(
        &self,
        known: Option<(History, u64)>,
    ) -> Result<(Identity, u64), StoreError> {
        self.call(move |store| {
            if let Some((known, written)) = &known {
                store.trust(known, *written);
            }
            let found = store.identity()?;
            let written = store.written(&found.history);
            Ok((found, written))
        })
        .await
    }

    /// See [`Store::note_mask_key`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn note_mask_key(
        &self,
        under: &Identity,
        key: KeyNumber,
        check_value: u64,
    ) -> Result<u64, StoreError> {
        let under = under.clone();
        self.call(move |store| store.note_mask_key(&under, key, check_value)).await
    }

    /// See [`Store::raise`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn raise(
        &self,
        under: &Identity,
        ends: Vec<(Tag, u64)>,
        masking: bool,
    ) -> Result<Vec<bool>, StoreError> {
        let under = under.clone();
        self.call(move |store| store.raise(&under, &ends, masking)).await
    }

    /// See [`Store::check_in`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn check_in(
        &self,
        under: &Identity,
        host: &HostId,
        known: Vec<StartToken>,
        next: &StartToken,
    ) -> Result<CheckIn, StoreError> {
        let (under, host, next) = (under.clone(), host.clone(), next.clone());
        self.call(move |store| store.check_in(&under, &host, &known, &next)).await
    }

    /// See [`Store::note_static_worker`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn note_static_worker(
        &self,
        under: &Identity,
        worker: WorkerId,
        start: &StartToken,
        name: &Arc<str>,
    ) -> Result<Vec<StaticUser>, StoreError> {
        let (under, start, name) = (under.clone(), start.clone(), Arc::clone(name));
        self.call(move |store| store.note_static_worker(&under, worker, &start, &name)).await
    }

    /// Runs `work` on the store as a registry of workers, see [`Store::workers`].
    ///
    /// # Errors
    /// Those of `work`; and [`RegistryError::Unavailable`] in the cases in which other calls fail with
    /// [`StoreError::Overloaded`] or [`StoreError::Unavailable`].
    pub async fn workers<T: Send + 'static>(
        &self,
        mode: Mode,
        work: impl FnOnce(&mut dyn Registry) -> Result<T, RegistryError> + Send + 'static,
    ) -> Result<T, RegistryError> {
        self.call(move |store| Ok(work(&mut *store.workers(mode)))).await?
    }
}

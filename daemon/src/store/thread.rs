//! Runs a blocking store on a thread of its own, for the asynchronous side: the runtime never waits for
//! a disk or a database.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::{
    CheckIn, Claim, ClaimWish, Generation, HostId, Identity, NewTag, Role, StartToken, Store,
    StoreError, TagChange, TagRow, TagTerms,
};
use crate::id::Tag;
use crate::registry::{Mode, Registry, RegistryError};

/// Most calls that wait for the store; a further one gets [`StoreError::Overloaded`].
pub const CALLS_WAITING_MAX: usize = 1024;

/// What a store's thread is called.
pub const THREAD_NAME: &str = "leafd-store";

/// Starts threads that run stores.
#[derive(Debug)]
pub struct StoreThread;

/// Calls a store that runs on its thread. Clones share it. When the last one is dropped, the calls that
/// wait are still made and then the store is closed.
///
/// A call whose future is dropped before its turn is not made; one dropped later is made, and what it
/// claimed is lost.
#[derive(Clone, Debug)]
pub struct StoreHandle {
    name: Arc<str>,
    messages: mpsc::Sender<Message>,
}

type Call = Box<dyn FnOnce(&mut dyn Store) + Send>;

enum Message {
    Call(Call),
    Close(oneshot::Sender<()>),
}

impl StoreThread {
    /// Starts a thread named [`THREAD_NAME`] for this store; `name` is what errors call the store.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the system gives no thread.
    pub fn spawn(name: &str, store: Box<dyn Store>) -> Result<StoreHandle, StoreError> {
        let (messages, inbox) = mpsc::channel(CALLS_WAITING_MAX);
        std::thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            .spawn(move || serve(store, inbox))
            .map_err(|cause| StoreError::Unavailable {
                store: name.to_owned(),
                cause: format!("the system gave no thread for it: {cause}"),
            })?;
        Ok(StoreHandle { name: name.into(), messages })
    }
}

fn serve(mut store: Box<dyn Store>, mut inbox: mpsc::Receiver<Message>) {
    while let Some(message) = inbox.blocking_recv() {
        match message {
            Message::Call(call) => call(&mut *store),
            Message::Close(closed) => {
                // Calls that came after are dropped, which tells their callers.
                drop(inbox);
                drop(store);
                // Nobody waiting for it is no reason to fail.
                let _ = closed.send(());
                return;
            }
        }
    }
}

impl StoreHandle {
    /// See [`Store::identity`].
    ///
    /// # Errors
    /// As there; for every call also [`StoreError::Overloaded`], and [`StoreError::Unavailable`] when
    /// the store is closed or its backend panicked.
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

    /// See [`Store::claim`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn claim(
        &self,
        under: &Identity,
        tag: &Tag,
        wish: ClaimWish,
    ) -> Result<Claim, StoreError> {
        let (under, tag) = (under.clone(), tag.clone());
        self.call(move |store| store.claim(&under, &tag, wish)).await
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

    /// See [`Store::create`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn create(&self, new: NewTag) -> Result<TagRow, StoreError> {
        self.call(move |store| store.create(&new)).await
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

    /// See [`Store::note_history`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn note_history(&self, under: &Identity) -> Result<Option<Duration>, StoreError> {
        let under = under.clone();
        self.call(move |store| store.note_history(&under)).await
    }

    /// See [`Store::declare_loss`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn declare_loss(&self, under: &Identity) -> Result<bool, StoreError> {
        let under = under.clone();
        self.call(move |store| store.declare_loss(&under)).await
    }

    /// See [`Store::raise`].
    ///
    /// # Errors
    /// See [`StoreHandle::identity`].
    pub async fn raise(
        &self,
        under: &Identity,
        ends: Vec<(Tag, u64)>,
    ) -> Result<Vec<bool>, StoreError> {
        let under = under.clone();
        self.call(move |store| store.raise(&under, &ends)).await
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

    /// Calls the store as a registry, see [`Store::workers`].
    ///
    /// # Errors
    /// Those of `work`; and [`RegistryError::Unavailable`] where other calls have [`StoreError::Overloaded`] or
    /// [`StoreError::Unavailable`].
    pub async fn workers<T: Send + 'static>(
        &self,
        mode: Mode,
        work: impl FnOnce(&mut dyn Registry) -> Result<T, RegistryError> + Send + 'static,
    ) -> Result<T, RegistryError> {
        self.call(move |store| Ok(work(&mut *store.workers(mode)))).await?
    }

    /// Closes the store after the calls that came before, and waits until it is closed. Later calls
    /// fail.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        // An error of either means that it is closed already.
        if self.messages.send(Message::Close(done)).await.is_ok() {
            let _ = closed.await;
        }
    }

    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let name = Arc::clone(&self.name);
        let call = move |store: &mut dyn Store| {
            if reply.is_closed() {
                return;
            }
            // A backend that panicked has rolled back by unwinding, and opens anew if it has to.
            let result = catch_unwind(AssertUnwindSafe(|| work(store)));
            let result = result.unwrap_or_else(|panic| Err(panicked(&name, &*panic)));
            // The caller may have gone meanwhile.
            let _ = reply.send(result);
        };
        self.messages.try_send(Message::Call(Box::new(call))).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Overloaded {
                store: self.name.to_string(),
                waiting_max: CALLS_WAITING_MAX,
            },
            mpsc::error::TrySendError::Closed(_) => self.closed(),
        })?;
        answer.await.unwrap_or_else(|_| Err(self.closed()))
    }

    fn closed(&self) -> StoreError {
        StoreError::Unavailable { store: self.name.to_string(), cause: "it is closed".to_owned() }
    }
}

fn panicked(store: &str, panic: &(dyn Any + Send)) -> StoreError {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let cause = format!("its backend failed from a bug: {}", words.unwrap_or("no message"));
    tracing::error!(store, %cause, "a store call panicked");
    StoreError::Unavailable { store: store.to_owned(), cause }
}

//! Runs a blocking registry on a thread of its own, for the asynchronous side: the runtime never waits for an
//! ensemble.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use leafd_wire::Layout;
use tokio::sync::{mpsc, oneshot};

use super::{Entry, Holding, Look, Registry, RegistryError, RegistryId, Swap};
use crate::id::{Tag, UnixMs};

/// Most calls that wait for the registry; a further one gets [`RegistryError::Unavailable`].
pub const CALLS_WAITING_MAX: usize = 64;

/// What a registry's thread is called.
pub const THREAD_NAME: &str = "leafd-registry";

/// Starts threads that run registries.
#[derive(Debug)]
pub struct RegistryThread;

/// Calls a registry that runs on its thread. Clones share it. When the last one is dropped, the calls that wait are
/// still made and then the registry is closed.
///
/// A call whose future is dropped before its turn is not made; one dropped later is made.
#[derive(Clone, Debug)]
pub struct RegistryHandle {
    name: Arc<str>,
    messages: mpsc::Sender<Message>,
}

type Call = Box<dyn FnOnce(&mut dyn Registry) + Send>;

enum Message {
    Call(Call),
    Close(oneshot::Sender<()>),
}

impl RegistryThread {
    /// Starts a thread named [`THREAD_NAME`] for this registry; `name` is what errors call it.
    ///
    /// # Errors
    /// [`RegistryError::Unavailable`] when the system gives no thread.
    pub fn spawn(name: &str, registry: Box<dyn Registry>) -> Result<RegistryHandle, RegistryError> {
        let (messages, inbox) = mpsc::channel(CALLS_WAITING_MAX);
        std::thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            .spawn(move || serve(registry, inbox))
            .map_err(|cause| {
                unavailable(name, format!("the system gave no thread for it: {cause}"))
            })?;
        Ok(RegistryHandle { name: name.into(), messages })
    }
}

fn serve(mut registry: Box<dyn Registry>, mut inbox: mpsc::Receiver<Message>) {
    while let Some(message) = inbox.blocking_recv() {
        match message {
            Message::Call(call) => call(&mut *registry),
            Message::Close(closed) => {
                // Calls that came after are dropped, which tells their callers.
                drop(inbox);
                drop(registry);
                // Nobody waiting for it is no reason to fail.
                let _ = closed.send(());
                return;
            }
        }
    }
}

impl RegistryHandle {
    /// See [`Registry::agree`].
    ///
    /// # Errors
    /// As there; for every call also [`RegistryError::Unavailable`] when too many calls wait, when the registry is
    /// closed, and when its backend panicked.
    pub async fn agree(&self, layouts: Vec<(Tag, Layout)>) -> Result<(), RegistryError> {
        self.call(move |registry| registry.agree(&layouts)).await
    }

    /// See [`Registry::look`].
    ///
    /// # Errors
    /// See [`RegistryHandle::agree`].
    pub async fn look(&self, pool: Range<u64>) -> Result<Look, RegistryError> {
        self.call(move |registry| registry.look(pool)).await
    }

    /// See [`Registry::swap`].
    ///
    /// # Errors
    /// See [`RegistryHandle::agree`].
    pub async fn swap(&self, under: &RegistryId, swap: Swap) -> Result<UnixMs, RegistryError> {
        let under = under.clone();
        self.call(move |registry| registry.swap(&under, &swap)).await
    }

    /// See [`Registry::bind`].
    ///
    /// # Errors
    /// See [`RegistryHandle::agree`].
    pub async fn bind(
        &self,
        under: &RegistryId,
        pool: Range<u64>,
        holding: Holding,
    ) -> Result<Entry, RegistryError> {
        let under = under.clone();
        self.call(move |registry| registry.bind(&under, pool, &holding)).await
    }

    /// Closes the registry after the calls that came before, and waits until it is closed. Later calls fail.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        // An error of either means that it is closed already.
        if self.messages.send(Message::Close(done)).await.is_ok() {
            let _ = closed.await;
        }
    }

    /// Does something with the registry on its thread.
    ///
    /// # Errors
    /// Those of `work`, and see [`RegistryHandle::agree`].
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Registry) -> Result<T, RegistryError> + Send + 'static,
    ) -> Result<T, RegistryError> {
        let (reply, answer) = oneshot::channel();
        let name = Arc::clone(&self.name);
        let call = move |registry: &mut dyn Registry| {
            if reply.is_closed() {
                return;
            }
            // A backend that panicked connects anew if it has to.
            let result = catch_unwind(AssertUnwindSafe(|| work(registry)));
            let result = result.unwrap_or_else(|panic| Err(panicked(&name, &*panic)));
            // The caller may have gone meanwhile.
            let _ = reply.send(result);
        };
        self.messages.try_send(Message::Call(Box::new(call))).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                let words = format!("{CALLS_WAITING_MAX} calls are waiting for it");
                unavailable(&self.name, words)
            }
            mpsc::error::TrySendError::Closed(_) => self.closed(),
        })?;
        answer.await.unwrap_or_else(|_| Err(self.closed()))
    }

    fn closed(&self) -> RegistryError {
        unavailable(&self.name, "it is closed".to_owned())
    }
}

fn unavailable(registry: &str, cause: String) -> RegistryError {
    RegistryError::Unavailable { registry: registry.to_owned(), cause }
}

fn panicked(registry: &str, panic: &(dyn Any + Send)) -> RegistryError {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let cause = format!("its backend failed from a bug: {}", words.unwrap_or("no message"));
    tracing::error!(registry, %cause, "a call of the worker registry panicked");
    unavailable(registry, cause)
}

//! Runs a blocking backend (a store or a registry) on its own thread, so that the asynchronous side never waits for a
//! disk or a server.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::busy::Busy;

/// A backend that runs on such a thread.
pub trait Backend: Send {
    /// Why a call fails.
    type Error: Send + 'static;

    /// The thread's name.
    const THREAD_NAME: &'static str;

    /// How many calls may wait for it.
    const CALLS_WAITING_MAX: usize;

    /// The error of a call that failed because of the thread. `name` names the backend in errors.
    fn unavailable(name: &str, cause: String) -> Self::Error;

    /// The error of a call when [`Backend::CALLS_WAITING_MAX`] others are waiting. The call was not made.
    fn overloaded(name: &str) -> Self::Error;
}

/// Calls a backend on its thread. Clones share it. When the last clone is dropped, the waiting calls are still made,
/// and then the backend is dropped.
///
/// If a call's future is dropped before its turn, the call is not made. If it is dropped later, the call is made and
/// its answer is lost.
pub struct Handle<B: Backend + ?Sized> {
    name: Arc<str>,
    calls: mpsc::Sender<Call<B>>,
    busy: Arc<Busy>,
}

/// A call of the backend; `None` once it is closed.
type Call<B> = Box<dyn FnOnce(&mut Option<Box<B>>) + Send>;

impl<B: Backend + ?Sized + 'static> Handle<B> {
    /// Starts a thread for this backend. `name` names it in errors.
    ///
    /// # Errors
    /// [`Backend::unavailable`] if the system can't start a thread.
    pub fn spawn(name: &str, backend: Box<B>) -> Result<Handle<B>, B::Error> {
        let (calls, inbox) = mpsc::channel(B::CALLS_WAITING_MAX);
        let busy = Arc::new(Busy::default());
        let told = Arc::clone(&busy);
        std::thread::Builder::new()
            .name(B::THREAD_NAME.to_owned())
            .spawn(move || serve(backend, inbox, &told))
            .map_err(|cause| B::unavailable(name, format!("can't start its thread: {cause}")))?;
        Ok(Handle { name: name.into(), calls, busy })
    }

    /// Runs `work` with the backend on its thread.
    ///
    /// # Errors
    /// The errors of `work`; [`Backend::overloaded`]; [`Backend::unavailable`] if the backend is closed or panicked.
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut B) -> Result<T, B::Error> + Send + 'static,
    ) -> Result<T, B::Error> {
        let (reply, answer) = oneshot::channel();
        let name = Arc::clone(&self.name);
        let call = move |backend: &mut Option<Box<B>>| {
            let Some(backend) = backend.as_deref_mut().filter(|_| !reply.is_closed()) else {
                return;
            };
            // After a panic, the backend reopens or reconnects.
            let result = catch_unwind(AssertUnwindSafe(|| work(backend)));
            let result = result.unwrap_or_else(|panic| Err(panicked::<B>(&name, &*panic)));
            // The caller may have stopped waiting.
            let _ = reply.send(result);
        };
        self.calls.try_send(Box::new(call)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => B::overloaded(&self.name),
            mpsc::error::TrySendError::Closed(_) => self.closed(),
        })?;
        answer.await.unwrap_or_else(|_| Err(self.closed()))
    }

    /// How long the current call has taken so far; zero if there is none.
    pub fn busy_for(&self) -> Duration {
        self.busy.lasts()
    }

    /// Closes the backend after all earlier calls, and waits until it is closed. Later calls fail.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        let close = move |backend: &mut Option<Box<B>>| {
            *backend = None;
            // The caller may have stopped waiting.
            let _ = done.send(());
        };
        // An error in either place means that its thread has ended.
        if self.calls.send(Box::new(close)).await.is_ok() {
            let _ = closed.await;
        }
    }

    fn closed(&self) -> B::Error {
        B::unavailable(&self.name, "it is closed".to_owned())
    }
}

fn serve<B: ?Sized>(backend: Box<B>, mut inbox: mpsc::Receiver<Call<B>>, busy: &Busy) {
    let mut backend = Some(backend);
    while let Some(call) = inbox.blocking_recv() {
        busy.begins();
        call(&mut backend);
        busy.ends();
    }
}

fn panicked<B: Backend + ?Sized>(name: &str, panic: &(dyn Any + Send)) -> B::Error {
    let words = panic.downcast_ref::<&str>().copied();
    let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let cause =
        format!("its backend panicked, which is a bug in leafd: {}", words.unwrap_or("no message"));
    tracing::error!(backend = name, %cause, "a call panicked");
    B::unavailable(name, cause)
}

impl<B: Backend + ?Sized> Clone for Handle<B> {
    fn clone(&self) -> Self {
        Handle {
            name: Arc::clone(&self.name),
            calls: self.calls.clone(),
            busy: Arc::clone(&self.busy),
        }
    }
}

impl<B: Backend + ?Sized> fmt::Debug for Handle<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("name", &self.name).finish_non_exhaustive()
    }
}

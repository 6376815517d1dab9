//! Queries from the HTTP threads to the thread that answers requests.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::requests::Dispatcher;

/// Sends queries to the thread.
pub type Inquiry = Box<dyn FnOnce(Rc<Dispatcher>) + Send>;

/// How long the thread may take to answer.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Runs `work` on the thread that answers requests. `None` if it has not answered in time. The work ends early if its
/// caller no longer waits.
pub(super) async fn asked<T: Send + 'static>(
    ask: &mpsc::Sender<Inquiry>,
    work: impl AsyncFnOnce(Rc<Dispatcher>) -> T + Send + 'static,
) -> Option<T> {
    let (mut reply, answer) = oneshot::channel();
    let inquiry: Inquiry = Box::new(move |dispatcher| {
        tokio::task::spawn_local(async move {
            tokio::select! {
                () = reply.closed() => {}
                answer = work(dispatcher) => drop(reply.send(answer)),
            }
        });
    });
    let asked = async {
        ask.send(inquiry).await.ok()?;
        answer.await.ok()
    };
    tokio::time::timeout(ANSWERS_WITHIN, asked).await.ok().flatten()
}

/// Answers queries until there are no senders left. The thread that answers requests must run this.
pub(super) async fn attend(dispatcher: Rc<Dispatcher>, mut inquiries: mpsc::Receiver<Inquiry>) {
    while let Some(inquiry) = inquiries.recv().await {
        inquiry(Rc::clone(&dispatcher));
    }
}

//! Questions of the HTTP thread to the thread that answers requests.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::metrics::Form;
use crate::reply::Failure;
use crate::requests::{Dispatcher, Overview, Readiness};

/// A question, and where to send its answer.
#[derive(Debug)]
pub enum Inquiry {
    /// Whether the thread still works.
    Alive(oneshot::Sender<()>),
    /// Which kinds of ids can be issued.
    Ready(oneshot::Sender<Readiness>),
    /// The next id of a tag.
    Draw(String, oneshot::Sender<Result<u64, Failure>>),
    /// The reply to a request that reads, by its opcode and body.
    Read(u8, Vec<u8>, oneshot::Sender<Result<Vec<u8>, Failure>>),
    /// All metrics.
    Metrics(Form, oneshot::Sender<String>),
    /// What the page shows for a search with this text.
    Overview(String, oneshot::Sender<Overview>),
}

/// How long the thread may take to answer.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Asks the thread. `None` if it has not answered in time.
pub(super) async fn asked<T>(
    ask: &mpsc::Sender<Inquiry>,
    inquiry: impl FnOnce(oneshot::Sender<T>) -> Inquiry,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    let asked = async {
        ask.send(inquiry(reply)).await.ok()?;
        answer.await.ok()
    };
    tokio::time::timeout(ANSWERS_WITHIN, asked).await.ok().flatten()
}

/// Answers inquiries until nobody can send any more. The thread that answers requests must run this.
pub async fn attend(dispatcher: Rc<Dispatcher>, mut inquiries: mpsc::Receiver<Inquiry>) {
    while let Some(inquiry) = inquiries.recv().await {
        let dispatcher = Rc::clone(&dispatcher);
        // The asking side may be gone.
        match inquiry {
            Inquiry::Alive(reply) => drop(reply.send(())),
            Inquiry::Ready(reply) => drop(reply.send(dispatcher.readiness())),
            Inquiry::Draw(tag, reply) => {
                answer(reply, async move { dispatcher.draw_for_http(&tag).await });
            }
            Inquiry::Read(opcode, body, reply) => {
                answer(reply, async move { dispatcher.read_for_http(opcode, &body).await });
            }
            Inquiry::Metrics(form, reply) => {
                answer(reply, async move { dispatcher.metrics_text(form).await });
            }
            Inquiry::Overview(text, reply) => {
                answer(reply, async move { dispatcher.overview(&text).await });
            }
        }
    }
}

/// Answers later, unless the asking side is gone by then.
fn answer<T: 'static>(mut reply: oneshot::Sender<T>, work: impl Future<Output = T> + 'static) {
    tokio::task::spawn_local(async move {
        let answer = tokio::select! {
            () = reply.closed() => return,
            answer = work => answer,
        };
        drop(reply.send(answer));
    });
}

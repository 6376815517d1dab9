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
        // The asking side may be gone.
        match inquiry {
            Inquiry::Alive(reply) => drop(reply.send(())),
            Inquiry::Ready(reply) => drop(reply.send(dispatcher.readiness())),
            Inquiry::Draw(tag, mut reply) => {
                let dispatcher = Rc::clone(&dispatcher);
                tokio::task::spawn_local(async move {
                    let drawn = dispatcher.draw_for_http(&tag, reply.closed()).await;
                    drop(reply.send(drawn));
                });
            }
            Inquiry::Metrics(form, reply) => {
                let told = move |text: &str| drop(reply.send(text.to_owned()));
                dispatcher.scrape(form, Box::new(told));
            }
            Inquiry::Overview(text, mut reply) => {
                let dispatcher = Rc::clone(&dispatcher);
                tokio::task::spawn_local(async move {
                    let overview = tokio::select! {
                        () = reply.closed() => return,
                        overview = dispatcher.overview(&text) => overview,
                    };
                    drop(reply.send(overview));
                });
            }
        }
    }
}

//! What HTTP asks the thread that answers requests.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::metrics::Form;
use crate::requests::{Dispatcher, Overview, Readiness};

/// A question, and where its answer goes.
#[derive(Debug)]
pub enum Inquiry {
    /// Whether the thread still turns.
    Alive(oneshot::Sender<()>),
    /// Which ids can be had.
    Ready(oneshot::Sender<Readiness>),
    /// All metrics.
    Metrics(Form, oneshot::Sender<String>),
    /// What the page shows to those who look for tags with these texts in their names.
    Overview(Vec<String>, oneshot::Sender<Overview>),
}

/// How long that thread may take to answer.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Asks it. `None`: it has not answered in time.
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

/// Answers, until nobody can ask any more. To be run by the thread that answers requests.
pub async fn attend(dispatcher: Rc<Dispatcher>, mut inquiries: mpsc::Receiver<Inquiry>) {
    while let Some(inquiry) = inquiries.recv().await {
        // Whoever asked may have gone.
        match inquiry {
            Inquiry::Alive(reply) => drop(reply.send(())),
            Inquiry::Ready(reply) => drop(reply.send(dispatcher.readiness())),
            Inquiry::Metrics(form, reply) => {
                let told = move |text: &str| drop(reply.send(text.to_owned()));
                dispatcher.scrape(form, Box::new(told));
            }
            Inquiry::Overview(texts, reply) => {
                let dispatcher = Rc::clone(&dispatcher);
                tokio::task::spawn_local(async move {
                    drop(reply.send(dispatcher.overview(&texts).await));
                });
            }
        }
    }
}

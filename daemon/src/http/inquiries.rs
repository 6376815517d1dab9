//! What HTTP asks the thread that answers requests.

use std::rc::Rc;

use tokio::sync::{mpsc, oneshot};

use crate::metrics::Form;
use crate::requests::{Dispatcher, Readiness};

/// A question, and where its answer goes.
#[derive(Debug)]
pub enum Inquiry {
    /// Whether the thread still turns.
    Alive(oneshot::Sender<()>),
    /// Which ids can be had.
    Ready(oneshot::Sender<Readiness>),
    /// All metrics.
    Metrics(Form, oneshot::Sender<String>),
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
        }
    }
}

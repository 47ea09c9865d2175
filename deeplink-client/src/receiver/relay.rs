//! Events of the stream, signed and forwarded to a server without a public URL.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use deeplink_core::event::Event;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::recent::Recent;
use super::{MAX_QUEUED, Post, Receipt, Target};
use crate::clock;
use crate::webhook::{Error, Verifier};

/// Forwards events sequentially, in order, from a bounded queue.
#[derive(Debug)]
pub struct Relay {
    waiting: mpsc::Sender<(String, Bytes)>,
    recent: Arc<Recent>,
}

/// The result of enqueuing an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Enqueued {
    /// It is queued.
    Queued,
    /// It was enqueued before.
    Duplicate,
    /// The queue is full: it is dropped.
    Dropped,
}

impl Relay {
    /// Signs with the signer's secrets, all of them as [`Verifier::sign`] does, and posts to a server if there is one. A
    /// receipt reports each event.
    pub fn new(signer: Verifier, forward: Option<(Post, Target)>) -> (Self, mpsc::Receiver<Receipt>) {
        let (waiting, mut next) = mpsc::channel::<(String, Bytes)>(MAX_QUEUED);
        let (receipts, kept) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Some((id, body)) = next.recv().await {
                let receipt = forward_event(&signer, forward.as_ref(), id, body).await;
                if receipts.send(receipt).await.is_err() {
                    return;
                }
            }
        });
        (Self { waiting, recent: Arc::default() }, kept)
    }

    /// Enqueues an event; never blocks.
    pub fn enqueue(&self, id: &str, body: impl Into<Bytes>) -> Enqueued {
        if !self.recent.add(id) {
            return Enqueued::Duplicate;
        }
        match self.waiting.try_send((id.to_owned(), body.into())) {
            Ok(()) => Enqueued::Queued,
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => Enqueued::Dropped,
        }
    }
}

async fn forward_event(signer: &Verifier, forward: Option<&(Post, Target)>, id: String, body: Bytes) -> Receipt {
    let (at, start) = (clock::now(), Instant::now());
    let headers = signer.sign(&body, &id, at);
    let event = match &headers {
        Ok(_) => Event::parse(&body).map_err(Error::Parse),
        Err(_) => Err(Error::Malformed),
    };
    let headers = headers.unwrap_or_default();
    let forwarded = match (forward, &event) {
        (Some((post, to)), Ok(_)) => Some(post.send(to, &headers, &body).await),
        _ => None,
    };
    let answered = forwarded.as_ref().and_then(|answer| answer.as_ref().ok()).map(|answer| answer.status);
    let took = start.elapsed();
    Receipt { at, headers, body, event, refused: None, id: Some(id), is_repeated: false, forwarded, answered, took }
}

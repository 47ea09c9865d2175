//! Events of the stream, signed and handed on to a program that has no public address.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use deeplink_core::event::Event;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::recent::Recent;
use super::{MOST_WAITING, Post, Receipt, Target};
use crate::clock;
use crate::webhook::{Error, Verifier};

/// Hands events on, one after the other and in their order, while more of them come.
#[derive(Debug)]
pub struct Relay {
    waiting: mpsc::Sender<(String, Bytes)>,
    recent: Arc<Recent>,
}

/// What became of an event that was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handed {
    /// It waits for its turn.
    Waits,
    /// It was handed over before.
    Known,
    /// 10,000 others wait already: it is dropped.
    Dropped,
}

impl Relay {
    /// Signs with the signer's secrets, all of them as [`Verifier::sign`] does, and posts to a program if there is one. A
    /// receipt says what became of each event.
    pub fn new(signer: Verifier, forward: Option<(Post, Target)>) -> (Self, mpsc::Receiver<Receipt>) {
        let (waiting, mut next) = mpsc::channel::<(String, Bytes)>(MOST_WAITING);
        let (receipts, kept) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Some((id, body)) = next.recv().await {
                let receipt = hand_on(&signer, forward.as_ref(), id, body).await;
                if receipts.send(receipt).await.is_err() {
                    return;
                }
            }
        });
        (Self { waiting, recent: Arc::default() }, kept)
    }

    /// Hands an event over; never waits.
    pub fn hand(&self, id: &str, body: impl Into<Bytes>) -> Handed {
        if !self.recent.add(id) {
            return Handed::Known;
        }
        match self.waiting.try_send((id.to_owned(), body.into())) {
            Ok(()) => Handed::Waits,
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => Handed::Dropped,
        }
    }
}

async fn hand_on(signer: &Verifier, forward: Option<&(Post, Target)>, id: String, body: Bytes) -> Receipt {
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

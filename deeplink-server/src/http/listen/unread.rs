//! Bytes of answers that their clients have not accepted yet.
//!
//! A client that sends requests and does not read makes the server hold the answers, over HTTP/2 in as many streams as
//! a connection may have. So a connection or an address with many unread bytes waits with its next request; a large
//! answer is dropped when the budget of its address or account, or of all, is used up; and while that is nearly so, stalled
//! clients are disconnected sooner (`state`). Bytes count from when they are made until their memory is freed; only
//! documents that stay in memory anyway are [`Free`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use http::Response;
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Excess;
use super::share::Share;
use super::state::ConnectionState;
use crate::shares::accounts::Holder;

/// An answer up to this size is small: a redirect, a page, most of what the API says. It is sent however much others
/// have not read, and dropped only when its address has twice its share: many can be under way before one of them is
/// counted.
pub(super) const SMALL: usize = 16 << 10;

/// Marks an answer whose memory all answers share for as long as the process runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Free;

/// Marks an answer to a request that changed nothing, whatever its method, so that it can be repeated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeatable;

/// What the client of one connection has not read.
#[derive(Debug, Clone)]
pub struct Unread {
    state: Arc<ConnectionState>,
    /// The holder of the admitted responses, if known.
    holder: Option<Holder>,
}

impl Unread {
    pub(super) fn new(state: Arc<ConnectionState>) -> Self {
        Self { state, holder: None }
    }

    /// The same for answers that count for an account or its affiliates, too.
    pub(crate) fn of(&self, holder: Option<&Holder>) -> Self {
        Self { state: Arc::clone(&self.state), holder: holder.cloned() }
    }

    /// The share of the client's address.
    pub(crate) fn share(&self) -> &Arc<Share> {
        &self.state.share
    }

    /// Waits, before a request is handled, until the client has read enough of its earlier answers, and then, for a
    /// short time, until the others at its address have. A client that reads nothing is disconnected by the time limit
    /// for that.
    pub async fn turn(&self) -> Result<(), Excess> {
        let (state, limits) = (&*self.state, self.state.limits());
        if state.share.is_trusted {
            return Ok(());
        }
        state.unread.below(limits.unread_per_connection).await;
        let (of_address, most) = (&state.share.unread, limits.unread_budget().of_address());
        // Nearly all requests need no timer.
        if of_address.get() < most {
            return Ok(());
        }
        timeout(limits.stream_wait, of_address.below(most)).await.map_err(|_| Excess::OfAddress)
    }

    /// Counts the body of an answer until its memory is freed. With `may_drop`, one that exceeds the budget is dropped:
    /// only for requests that can be repeated, because the handler has run.
    pub fn admit(
        &self,
        mut response: Response<axum::body::Body>,
        may_drop: bool,
    ) -> Result<Response<axum::body::Body>, Excess> {
        if response.extensions_mut().remove::<Free>().is_some() {
            return Ok(response);
        }
        let body = response.body_mut();
        let length = match body.size_hint().exact() {
            Some(0) => return Ok(response),
            Some(length) => length,
            None => {
                *body = self.counted_as_it_comes(std::mem::take(body));
                return Ok(response);
            }
        };
        let Some(Some(Ok(frame))) = body.frame().now_or_never() else { return Ok(response) };
        let Ok(bytes) = frame.into_data() else { return Ok(response) };
        let bytes = self.count(bytes, may_drop)?;
        *body = if bytes.len() as u64 == length {
            bytes.into()
        } else {
            let rest = std::mem::take(body).into_data_stream();
            axum::body::Body::from_stream(stream::iter([Ok(bytes)]).chain(rest))
        };
        Ok(response)
    }

    /// A stream whose parts are counted when they are made: it makes more only once the client accepts some.
    fn counted_as_it_comes(&self, stream: axum::body::Body) -> axum::body::Body {
        let this = self.clone();
        let count = move |part: Bytes| match this.count(part, false) {
            Ok(counted) => Ok(counted),
            Err(_) => Err(axum::Error::new("too much is unread")),
        };
        let parts = stream.into_data_stream().map(move |part| part.and_then(&count));
        axum::body::Body::from_stream(parts)
    }

    fn count(&self, bytes: Bytes, may_drop: bool) -> Result<Bytes, Excess> {
        let (state, length) = (&*self.state, bytes.len());
        let (budget, is_large) = (state.limits().unread_budget(), length > SMALL);
        // An answer without others is sent whatever its size.
        let exceeds = |before: usize, most: usize| may_drop && before > 0 && before.saturating_add(length) > most;
        let of_all = state.all_unread().0.fetch_add(length, Relaxed);
        let of_address = state.share.unread.add(length);
        let of_site = state.share.unread_of_site.as_ref().map_or(0, |site| site.add(length));
        state.unread.add(length);
        let of_account = self.holder.as_ref().map_or(0, |holder| {
            if is_large {
                state.set_holder(holder);
            }
            let mut holders = state.unread_of_holders();
            let before = holders.of(holder);
            holders.add(holder, length);
            before
        });
        let bytes = if is_large && bytes.is_unique() { without_spare_capacity(bytes) } else { bytes };
        // Gives everything back when it is dropped.
        let counted = Counted { bytes, of: self.clone() };
        let most = budget.of_address();
        if !state.share.is_trusted && exceeds(of_address, if is_large { most } else { most.saturating_mul(2) }) {
            return Err(Excess::OfAddress);
        }
        // Its clients may have many addresses.
        if is_large && exceeds(of_account, most) {
            return Err(Excess::OfAccount);
        }
        if is_large && exceeds(of_site, budget.of_site()) {
            return Err(Excess::OfAddress);
        }
        // What the address itself has, or 0 if this is its only answer.
        let has = if of_address > 0 { of_address.saturating_add(length) } else { 0 };
        if is_large && exceeds(of_all, budget.of_all(has)) {
            return Err(Excess::OfAll);
        }
        Ok(Bytes::from_owner(counted))
    }
}

/// The same bytes in an allocation of their length: a buffer that grew while it was written may be twice as large, and
/// only the length is counted.
fn without_spare_capacity(bytes: Bytes) -> Bytes {
    Vec::from(bytes).into_boxed_slice().into()
}

/// Bytes that are counted until the last copy is dropped.
struct Counted {
    bytes: Bytes,
    of: Unread,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let (state, length, limits) = (&*self.of.state, self.bytes.len(), self.of.state.limits());
        state.all_unread().0.fetch_sub(length, Relaxed);
        state.share.unread.subtract(length, limits.unread_budget().of_address());
        if let Some(site) = &state.share.unread_of_site {
            site.give_back(length);
        }
        state.unread.subtract(length, limits.unread_per_connection);
        if let Some(holder) = &self.of.holder {
            state.unread_of_holders().give_back(holder, length);
        }
    }
}

/// Bytes of answers that a client has not accepted yet, and a signal when there is room for more.
#[derive(Debug, Default)]
pub(super) struct Counter {
    bytes: AtomicUsize,
    has_room: Notify,
}

impl Counter {
    pub(super) fn get(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Returns the number before.
    fn add(&self, bytes: usize) -> usize {
        self.bytes.fetch_add(bytes, Relaxed)
    }

    /// Wakes the waiters only when the number falls below `most`: there may be many.
    fn subtract(&self, bytes: usize, most: usize) {
        let before = self.bytes.fetch_sub(bytes, Relaxed);
        if before >= most && before - bytes < most {
            self.has_room.notify_waiters();
        }
    }

    /// Waits until there are fewer than `most`; every subtraction must be made with the same `most`.
    async fn below(&self, most: usize) {
        while self.get() >= most {
            // Created before the second check, so that nothing that is read in between goes unnoticed.
            let has_room = self.has_room.notified();
            if self.get() >= most {
                has_room.await;
            }
        }
    }
}

/// Bytes of answers that no client has accepted yet.
#[derive(Debug, Default)]
pub(super) struct AllUnread(pub(super) AtomicUsize);

impl AllUnread {
    /// Whether more than `most` are unread, or for a client whose address has much of them, more than three quarters.
    pub(super) fn is_pressing(&self, most: usize, has_much: bool) -> bool {
        self.0.load(Relaxed) > if has_much { most / 4 * 3 } else { most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_answer_holds_no_more_than_its_length() {
        let mut grown = bytes::BytesMut::with_capacity(3 << 20);
        grown.extend_from_slice(&vec![7; (1 << 20) + 1]);
        let bytes = without_spare_capacity(grown.freeze());
        assert_eq!(bytes.len(), (1 << 20) + 1);
        assert_eq!(Vec::from(bytes).capacity(), (1 << 20) + 1);
    }
}

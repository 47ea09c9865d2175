//! Posts to receivers: the guarded client's rules, over connections that are kept for a while.
//!
//! A new connection is checked like any other. A kept one is used only for its own scheme, host and port, and after
//! thirty seconds its host's addresses are looked up and checked again first.

use std::time::Duration;

use bytes::Bytes;
use deeplink_core::url as rules;
use http::{HeaderMap, Method};
use tokio::time::{Instant, timeout_at};
use url::Url;

pub(crate) use super::pool::PostResponse;
use super::pool::{Origin, PooledConnection};
use super::{CallError, Http, Terms, request};

/// How long a host's addresses count as current.
pub(super) const ADDRESS_CHECK_TTL: Duration = Duration::from_secs(30);

/// Something to post.
#[derive(Debug)]
pub(crate) struct Post<'a> {
    pub(crate) url: &'a str,
    /// In addition to `Host`, `User-Agent` and `Accept-Encoding`, which the client sets.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// `largest` is how much of the answer is kept.
    pub(crate) terms: Terms,
}

impl Http {
    /// Posts, and returns whatever was answered. A failure takes a multiple of 100 ms.
    pub(crate) async fn post(&self, post: Post<'_>) -> Result<PostResponse, CallError> {
        let terms = post.terms;
        let answer = timeout_at(terms.end(), self.posted(post)).await.unwrap_or(Err(CallError::Late(terms.total)));
        if answer.is_err() {
            terms.pad().await;
        }
        answer
    }

    /// Closes the connections that were idle for some seconds.
    pub(crate) fn close_idle(&self) {
        self.pool.close_idle();
    }

    async fn posted(&self, post: Post<'_>) -> Result<PostResponse, CallError> {
        let url = rules::outbound(post.url, |address| self.allow.contains(address)).map_err(CallError::Url)?;
        let origin = Origin::of(&url);
        let request = || request(&url, &Method::POST, &post.headers, &post.body);
        while let Some(mut connection) = self.pool.take(&origin) {
            if !self.is_still_there(&url, &origin, &mut connection).await? {
                continue;
            }
            match connection.exchange(request()?, &post.terms).await {
                // It had been closed, which only shows now: the post is sent again over a new connection.
                Err(CallError::Answer(_)) if connection.got_nothing() => break,
                outcome => return Ok(self.keep(origin, connection, outcome?)),
            }
        }
        let addresses = self.addresses(&url).await?;
        let (stream, peer) = self.dialler.connect(&url, &addresses).await?;
        let mut connection = PooledConnection::new(stream, peer).await?;
        let outcome = connection.exchange(request()?, &post.terms).await?;
        Ok(self.keep(origin, connection, outcome))
    }

    /// Whether the host still has the address that a connection leads to, and all its addresses may be called.
    async fn is_still_there(
        &self,
        url: &Url,
        origin: &Origin,
        connection: &mut PooledConnection,
    ) -> Result<bool, CallError> {
        if connection.judged.elapsed() < self.address_check_ttl {
            return Ok(true);
        }
        let addresses = self.addresses(url).await.inspect_err(|_| self.pool.close_all(origin))?;
        connection.judged = Instant::now();
        let is_there = addresses.contains(&connection.peer);
        if !is_there {
            // The idle ones lead to the old addresses as well.
            self.pool.close_all(origin);
        }
        Ok(is_there)
    }

    fn keep(
        &self,
        origin: Origin,
        connection: PooledConnection,
        (answer, can_be_kept): (PostResponse, bool),
    ) -> PostResponse {
        if can_be_kept {
            self.pool.put(origin, connection);
        }
        answer
    }
}

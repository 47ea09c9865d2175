//! Posts to receivers: the guarded client's rules, over connections that are kept for a while.
//!
//! A new connection is judged as every other. One that was kept is used for its own scheme, host and port only, and after
//! thirty seconds its host's addresses are asked for and judged again before it is.

use std::time::Duration;

use bytes::Bytes;
use deeplink_core::url as rules;
use http::{HeaderMap, Method};
use tokio::time::{Instant, timeout_at};
use url::Url;

pub(crate) use super::kept::Answer;
use super::kept::{Kept, Place};
use super::{Failed, Http, Terms, request};

/// How long it is believed where a host is.
pub(super) const JUDGED: Duration = Duration::from_secs(30);

/// Something to post.
#[derive(Debug)]
pub(crate) struct Post<'a> {
    pub(crate) url: &'a str,
    /// Beside `Host`, `User-Agent` and `Accept-Encoding`, which are the client's.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Of an answer, as much is kept as may be read at most.
    pub(crate) terms: Terms,
}

impl Http {
    /// Posts, and gives whatever was answered. A failure takes a multiple of 100 ms.
    pub(crate) async fn post(&self, post: Post<'_>) -> Result<Answer, Failed> {
        let terms = post.terms;
        let answer = timeout_at(terms.end(), self.posted(post)).await.unwrap_or(Err(Failed::Late(terms.total)));
        if answer.is_err() {
            terms.pad().await;
        }
        answer
    }

    /// Ends the connections that nobody has needed for some seconds.
    pub(crate) fn tidy(&self) {
        self.kept.tidy();
    }

    async fn posted(&self, post: Post<'_>) -> Result<Answer, Failed> {
        let url = rules::outbound(post.url, |address| self.allow.contains(address)).map_err(Failed::Url)?;
        let place = Place::of(&url);
        let request = || request(&url, &Method::POST, &post.headers, &post.body);
        while let Some(mut kept) = self.kept.take(&place) {
            if !self.is_still_there(&url, &place, &mut kept).await? {
                continue;
            }
            match kept.exchange(request()?, &post.terms).await {
                // It had ended, and only now that is known: the same post goes over a new connection.
                Err(Failed::Answer(_)) if kept.is_untouched() => break,
                outcome => return Ok(self.keep(place, kept, outcome?)),
            }
        }
        let addresses = self.addresses(&url).await?;
        let (stream, peer) = self.dialler.connect(&url, &addresses).await?;
        let mut kept = Kept::new(stream, peer).await?;
        let outcome = kept.exchange(request()?, &post.terms).await?;
        Ok(self.keep(place, kept, outcome))
    }

    /// Whether the host still has the address that a connection leads to, and all its addresses may be called.
    async fn is_still_there(&self, url: &Url, place: &Place, kept: &mut Kept) -> Result<bool, Failed> {
        if kept.judged.elapsed() < self.believes {
            return Ok(true);
        }
        let addresses = self.addresses(url).await.inspect_err(|_| self.kept.forget(place))?;
        kept.judged = Instant::now();
        let is_there = addresses.contains(&kept.peer);
        if !is_there {
            // The others that wait lead to where the host was as well; one question answers for all of them.
            self.kept.forget(place);
        }
        Ok(is_there)
    }

    fn keep(&self, place: Place, kept: Kept, (answer, can_be_kept): (Answer, bool)) -> Answer {
        if can_be_kept {
            self.kept.put(place, kept);
        }
        answer
    }
}

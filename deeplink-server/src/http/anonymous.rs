//! Callers without a valid credential: their request bodies share a budget, of which one address has a part, and a
//! connection that only they use has few concurrent requests.
//!
//! A publishable key is public and a source's URL is widely shared, so neither lifts these limits; nor does a payment.

use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use deeplink_core::error::ErrorCode;
use http::Extensions;
use http::request::Parts;

use super::listen::{Share, StrangersLimits};
use crate::error::ApiError;
use crate::shares::accounts::{AccountBytes, Holder};
use crate::shares::budget::{Budget, Excess, Used};
use crate::state::App;

/// Seconds after which a refused body may be sent again: bodies that do not arrive are given up after 15 to 30.
const RETRY_SECS: u64 = 5;
/// Bytes of bodies of unknown callers. An address may always have what most requests need.
const BODIES: Budget = Budget { all: 32 << 20, always: 64 << 10, reserve: 0 };

/// What a request carries until its caller is known.
#[derive(Clone)]
pub(crate) struct Anonymous {
    bodies: Arc<Used>,
    address: Arc<Share>,
    /// Set if the request has a credential or a body, or uses HTTP/2.
    limits: Option<StrangersLimits>,
    holder: Arc<OnceLock<Holder>>,
}

impl Anonymous {
    pub(crate) fn new(bodies: &Arc<Used>, address: &Arc<Share>, limits: Option<StrangersLimits>) -> Self {
        Self { bodies: Arc::clone(bodies), address: Arc::clone(address), limits, holder: Arc::default() }
    }

    /// Contains whose response it is, once that is known.
    pub(crate) fn holder(&self) -> &Arc<OnceLock<Holder>> {
        &self.holder
    }

    /// Lifts these limits, because the request has a valid credential of this account: what it takes counts for the account.
    /// Fails if the account has too much in progress.
    pub(crate) fn end(parts: &mut Parts, app: &App, of: impl Into<Holder>) -> Result<(), ApiError> {
        let of = of.into();
        if let Some(Self { limits, holder, .. }) = parts.extensions.remove() {
            holder.get_or_init(|| of.clone());
            let later = |message| ApiError::TryLater(ErrorCode::Overloaded, message, RETRY_SECS);
            limits.map_or(Ok(()), |limits| limits.lift(&app.account_requests, &of)).map_err(later)?;
        }
        parts.extensions.insert(Account { bodies: Arc::clone(&app.account_bodies), holder: of });
        Ok(())
    }

    fn take(&self, bytes: usize) -> Result<(), &'static str> {
        let taken = BODIES.take(bytes, &self.bodies, &self.address.bodies, self.address.is_trusted);
        taken.map_err(|excess| match excess {
            Excess::OfAddress => "too many unauthenticated request bodies in progress from your IP address",
            Excess::OfAccount | Excess::OfAll => "too many unauthenticated request bodies in progress",
        })
    }

    fn give_back(&self, bytes: usize) {
        self.address.bodies.give_back(bytes);
        self.bodies.give_back(bytes);
    }
}

/// What a request carries once its caller is known.
#[derive(Clone)]
struct Account {
    bodies: Arc<AccountBytes>,
    holder: Holder,
}

/// Whose budget a body takes from.
enum Payer {
    Anonymous(Anonymous),
    Account(Account),
}

impl Payer {
    fn take(&self, bytes: usize) -> Result<(), &'static str> {
        match self {
            Self::Anonymous(caller) => caller.take(bytes),
            Self::Account(Account { bodies, holder }) => bodies.take(holder, bytes),
        }
    }

    fn give_back(&self, bytes: usize) {
        match self {
            Self::Anonymous(caller) => caller.give_back(bytes),
            Self::Account(Account { bodies, holder }) => bodies.give_back(holder, bytes),
        }
    }
}

/// What a request body takes from a budget, that of unknown callers or its account's, until it is dropped.
#[derive(Default)]
pub(crate) struct BodyShare {
    payer: Option<Payer>,
    taken: usize,
}

impl BodyShare {
    /// The share of a request with these extensions.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        let account = extensions.get::<Account>().cloned().map(Payer::Account);
        let payer = account.or_else(|| extensions.get().cloned().map(Payer::Anonymous));
        Self { payer, taken: 0 }
    }

    /// Whether the body counts against a budget.
    pub(crate) fn is_limited(&self) -> bool {
        self.payer.is_some()
    }

    /// Takes bytes that have arrived.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), ApiError> {
        let Some(payer) = &self.payer else { return Ok(()) };
        let later = |message| ApiError::TryLater(ErrorCode::Overloaded, message, RETRY_SECS);
        payer.take(bytes).map_err(later)?;
        self.taken += bytes;
        Ok(())
    }

    /// The body, which releases its share when its last copy is dropped.
    pub(crate) fn hold(self, body: BytesMut) -> Bytes {
        if self.taken > 0 { Bytes::from_owner(Held { body, _share: self }) } else { body.freeze() }
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        if let Some(payer) = &self.payer {
            payer.give_back(self.taken);
        }
    }
}

struct Held {
    body: BytesMut,
    _share: BodyShare,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body that comes from an address.
    fn body_from(bodies: &Arc<Used>, address: &Arc<Share>) -> BodyShare {
        let mut extensions = Extensions::new();
        extensions.insert(Anonymous::new(bodies, address, None));
        BodyShare::of(&extensions)
    }

    /// R5: only bytes that have arrived are counted, what does not fit is refused, and a body releases what it took
    /// when its last copy is dropped.
    #[test]
    fn r5_bodies_share_a_budget_until_they_are_dropped() {
        let bodies = Arc::<Used>::default();
        let proxies = Arc::new(Share::of_proxies());
        let mut share = body_from(&bodies, &proxies);
        assert_eq!(bodies.get(), 0);
        share.take(BODIES.all - 60).expect("it fits");
        share.take(20).expect("it fits");
        let mut other = body_from(&bodies, &proxies);
        other.take(30).expect("it fits");
        let refused = other.take(11).expect_err("it does not fit");
        assert_eq!((refused.status().as_u16(), refused.retry_after()), (503, Some(5)));
        assert_eq!(refused.to_string(), "too many unauthenticated request bodies in progress; try again in 5 s");
        drop(other);
        let body = share.hold(BytesMut::from("body"));
        let copy = body.slice(1..);
        drop(body);
        assert_eq!((&*copy, bodies.get()), (&b"ody"[..], BODIES.all - 40));
        drop(copy);
        assert_eq!(bodies.get(), 0);
        BodyShare::of(&Extensions::new()).take(1_000).expect("the service's own requests have no share");
    }

    /// R5: one address has an eighth of the budget, and gets back what its bodies and refused ones took. Trusted
    /// proxies may use all of it. What they or eight addresses use does not shut out a small body of another.
    #[test]
    fn r5_an_address_has_a_part_of_the_budget() {
        const OF_ADDRESS: usize = BODIES.of_address();
        let bodies = Arc::<Used>::default();
        let (address, other) = (Arc::<Share>::default(), Arc::<Share>::default());
        let mut share = body_from(&bodies, &address);
        share.take(OF_ADDRESS - 10).expect("it fits");
        let mut second = body_from(&bodies, &address);
        second.take(10).expect("it fits");
        let refused = second.take(1).expect_err("the address has its part");
        assert_eq!((refused.status().as_u16(), refused.retry_after()), (503, Some(5)));
        let message = "too many unauthenticated request bodies in progress from your IP address; try again in 5 s";
        assert_eq!(refused.to_string(), message);
        body_from(&bodies, &other).take(OF_ADDRESS).expect("another address has its own");
        drop(second);
        share.take(10).expect("it was given back");
        let body = share.hold(BytesMut::from("body"));
        body_from(&bodies, &address).take(1).expect_err("a body in use counts");
        drop(body);

        let mut proxy = body_from(&bodies, &Arc::new(Share::of_proxies()));
        proxy.take(BODIES.all).expect("no part limits it");
        let mut share = body_from(&bodies, &address);
        share.take(BODIES.always).expect("a small body");
        assert!(!share.take(1).expect_err("all is taken").to_string().contains("your address"));
        drop(proxy);
        share.take(OF_ADDRESS - BODIES.always).expect("what was refused is not counted");
    }
}

//! Callers without a valid credential: their request bodies share a budget, of which one address has a part, and a
//! connection that only they use has few concurrent requests.
//!
//! A publishable key is public and a source's URL is widely shared, so neither lifts these limits; nor does a payment.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use deeplink_core::error::ErrorCode;
use deeplink_core::id::TenantId;
use http::Extensions;
use http::request::Parts;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::listen::{Share, StreamLimit};
use crate::error::ApiError;
use crate::shares::bodies::AccountBodies;

/// Seconds after which a refused body may be sent again: bodies that do not arrive are given up after 15 to 30.
const RETRY_SECS: u64 = 5;
/// Bytes of bodies that one address may have: an eighth of the budget, as of everything that is shared.
const OF_ADDRESS: usize = 4 << 20;

/// What a request carries until its caller is known.
#[derive(Clone)]
pub(crate) struct Anonymous {
    bodies: Arc<Semaphore>,
    address: Arc<Share>,
    /// Set on a connection with concurrent requests.
    streams: Option<StreamLimit>,
}

impl Anonymous {
    pub(crate) fn new(bodies: &Arc<Semaphore>, address: &Arc<Share>, streams: Option<StreamLimit>) -> Self {
        Self { bodies: Arc::clone(bodies), address: Arc::clone(address), streams }
    }

    /// Lifts these limits, because the request has a valid credential of this account.
    pub(crate) fn end(parts: &mut Parts, accounts: &Arc<AccountBodies>, tenant: &TenantId) {
        if let Some(Self { streams: Some(limit), .. }) = parts.extensions.remove() {
            limit.lift();
        }
        parts.extensions.insert(Account { bodies: Arc::clone(accounts), tenant: tenant.clone() });
    }

    fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, &'static str> {
        if !self.address.take_body(bytes, OF_ADDRESS) {
            return Err("too many unauthenticated request bodies in progress from your address");
        }
        let more =
            u32::try_from(bytes).ok().and_then(|bytes| Arc::clone(&self.bodies).try_acquire_many_owned(bytes).ok());
        more.ok_or_else(|| {
            self.address.give_body_back(bytes);
            "too many unauthenticated request bodies in progress"
        })
    }
}

/// What a request carries once its caller is known.
#[derive(Clone)]
struct Account {
    bodies: Arc<AccountBodies>,
    tenant: TenantId,
}

/// Whose budget a body takes from.
enum Payer {
    Anonymous(Anonymous),
    Account(Account),
}

/// What a request body takes from a budget: that of unknown callers, or its account's.
#[derive(Default)]
pub(crate) struct BodyShare {
    payer: Option<Payer>,
    taken: Option<Taken>,
}

/// Bytes of a budget, held until dropped.
enum Taken {
    Anonymous { of_all: OwnedSemaphorePermit, address: Arc<Share> },
    Account { account: Account, bytes: usize },
}

impl Drop for Taken {
    fn drop(&mut self) {
        match self {
            Self::Anonymous { of_all, address } => address.give_body_back(of_all.num_permits()),
            Self::Account { account, bytes } => account.bodies.give_back(&account.tenant, *bytes),
        }
    }
}

impl BodyShare {
    /// The share of a request with these extensions.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        let account = extensions.get::<Account>().cloned().map(Payer::Account);
        let payer = account.or_else(|| extensions.get().cloned().map(Payer::Anonymous));
        Self { payer, taken: None }
    }

    /// Whether the body counts against a budget.
    pub(crate) fn is_limited(&self) -> bool {
        self.payer.is_some()
    }

    /// Takes bytes that have arrived.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), ApiError> {
        let later = |message| ApiError::TryLater(ErrorCode::Overloaded, message, RETRY_SECS);
        match &self.payer {
            None => Ok(()),
            Some(Payer::Account(account)) => {
                account.bodies.take(&account.tenant, bytes).map_err(later)?;
                match &mut self.taken {
                    Some(Taken::Account { bytes: taken, .. }) => *taken += bytes,
                    taken => *taken = Some(Taken::Account { account: account.clone(), bytes }),
                }
                Ok(())
            }
            Some(Payer::Anonymous(caller)) => {
                let more = caller.take(bytes).map_err(later)?;
                match &mut self.taken {
                    Some(Taken::Anonymous { of_all, .. }) => of_all.merge(more),
                    taken => {
                        let address = Arc::clone(&caller.address);
                        *taken = Some(Taken::Anonymous { of_all: more, address });
                    }
                }
                Ok(())
            }
        }
    }

    /// The body, which releases its share when its last copy is dropped.
    pub(crate) fn hold(self, body: BytesMut) -> Bytes {
        match self.taken {
            Some(taken) => Bytes::from_owner(Held { body, _taken: taken }),
            None => body.freeze(),
        }
    }
}

struct Held {
    body: BytesMut,
    _taken: Taken,
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
    fn body_from(bodies: &Arc<Semaphore>, address: &Arc<Share>) -> BodyShare {
        let mut extensions = Extensions::new();
        extensions.insert(Anonymous::new(bodies, address, None));
        BodyShare::of(&extensions)
    }

    /// R5: only bytes that have arrived are counted, what does not fit is refused, and a body releases what it took
    /// when its last copy is dropped.
    #[test]
    fn r5_bodies_share_a_budget_until_they_are_dropped() {
        let bodies = Arc::new(Semaphore::new(100));
        let mut share = body_from(&bodies, &Arc::default());
        assert_eq!(bodies.available_permits(), 100);
        share.take(40).expect("it fits");
        share.take(20).expect("it fits");
        let mut other = body_from(&bodies, &Arc::default());
        other.take(30).expect("it fits");
        let refused = other.take(11).expect_err("it does not fit");
        assert_eq!((refused.status().as_u16(), refused.retry_after()), (503, Some(5)));
        assert_eq!(refused.to_string(), "too many unauthenticated request bodies in progress; try again in 5 s");
        drop(other);
        let body = share.hold(BytesMut::from("body"));
        let copy = body.slice(1..);
        drop(body);
        assert_eq!((&*copy, bodies.available_permits()), (&b"ody"[..], 40));
        drop(copy);
        assert_eq!(bodies.available_permits(), 100);
        BodyShare::of(&Extensions::new()).take(1_000).expect("the service's own requests have no share");
    }

    /// R5: one address has an eighth of the budget, and gets back what its bodies and refused ones took. Trusted
    /// proxies may use all of it.
    #[test]
    fn r5_an_address_has_a_part_of_the_budget() {
        let bodies = Arc::new(Semaphore::new(8 * OF_ADDRESS));
        let (address, other) = (Arc::<Share>::default(), Arc::<Share>::default());
        let mut share = body_from(&bodies, &address);
        share.take(OF_ADDRESS - 10).expect("it fits");
        let mut second = body_from(&bodies, &address);
        second.take(10).expect("it fits");
        let refused = second.take(1).expect_err("the address has its part");
        assert_eq!((refused.status().as_u16(), refused.retry_after()), (503, Some(5)));
        let message = "too many unauthenticated request bodies in progress from your address; try again in 5 s";
        assert_eq!(refused.to_string(), message);
        body_from(&bodies, &other).take(OF_ADDRESS).expect("another address has its own");
        drop(second);
        share.take(10).expect("it was given back");
        let body = share.hold(BytesMut::from("body"));
        body_from(&bodies, &address).take(1).expect_err("a body in use counts");
        drop(body);

        let mut proxy = body_from(&bodies, &Arc::new(Share::of_proxies()));
        proxy.take(8 * OF_ADDRESS - 1).expect("no part limits it");
        let mut share = body_from(&bodies, &address);
        assert!(!share.take(2).expect_err("all is taken").to_string().contains("your address"));
        drop(proxy);
        share.take(OF_ADDRESS).expect("what was refused is not counted");
    }
}

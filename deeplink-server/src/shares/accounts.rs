//! Memory of known callers' requests, by account, since anyone may open an account: bodies, and what a request takes besides
//! its body while it is in progress.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deeplink_core::id::TenantId;

/// How many bytes accounts may have in memory.
#[derive(Debug, Clone, Copy)]
struct Limits {
    of_account: usize,
    of_all: usize,
    /// Beyond `of_all`, an account may still have what most of its requests need, and its affiliates half as much, so that
    /// opening many accounts does not block others.
    always: usize,
    /// What is counted, for errors.
    what: [&'static str; 2],
}

/// Bodies: 32 of the largest per account.
const BODIES: Limits = Limits {
    of_account: 32 << 20,
    of_all: 8 * (32 << 20),
    always: 64 << 10,
    what: ["too many request bodies from this account in progress", "too many request bodies in progress"],
};
/// Requests by their estimated size, without their bodies: about 500 per account, and always 30.
const REQUESTS: Limits = Limits {
    of_account: 8 << 20,
    of_all: 8 * (8 << 20),
    always: 512 << 10,
    what: ["too many requests from this account in progress", "too many requests in progress"],
};

/// Bytes in memory, by account.
#[derive(Debug)]
pub(crate) struct AccountBytes {
    limits: Limits,
    counts: Mutex<Counts<Holder>>,
}

/// How many bytes each account, or each of another kind, has, and all together.
#[derive(Debug)]
pub(crate) struct Counts<K> {
    all: usize,
    /// Never 0.
    of: HashMap<K, usize>,
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self { all: 0, of: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash> Counts<K> {
    pub(crate) fn of(&self, key: &K) -> usize {
        self.of.get(key).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, key: &K, bytes: usize) {
        self.all += bytes;
        match self.of.get_mut(key) {
            Some(of) => *of += bytes,
            None => drop(self.of.insert(key.clone(), bytes)),
        }
    }

    pub(crate) fn give_back(&mut self, key: &K, bytes: usize) {
        if let Some(of) = self.of.get_mut(key) {
            *of -= bytes;
            if *of == 0 {
                self.of.remove(key);
            }
        }
        self.all -= bytes;
    }
}

/// Whose requests and responses are counted: an account's, or those of its affiliates' credentials.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) tenant: TenantId,
    is_affiliates: bool,
}

impl From<&TenantId> for Holder {
    fn from(tenant: &TenantId) -> Self {
        Self { tenant: tenant.clone(), is_affiliates: false }
    }
}

impl Holder {
    /// The affiliates of an account.
    pub(crate) fn of_affiliates(tenant: &TenantId) -> Self {
        Self { tenant: tenant.clone(), is_affiliates: true }
    }

    /// The rest of the account.
    fn other(&self) -> Self {
        Self { tenant: self.tenant.clone(), is_affiliates: !self.is_affiliates }
    }
}

impl AccountBytes {
    /// Of request bodies.
    pub(crate) fn of_bodies() -> Arc<Self> {
        Arc::new(Self { limits: BODIES, counts: Mutex::default() })
    }

    /// Of requests in progress, without their bodies.
    pub(crate) fn of_requests() -> Arc<Self> {
        Arc::new(Self { limits: REQUESTS, counts: Mutex::default() })
    }

    /// Counts bytes, or returns why there is no room for them. Affiliates use at most half of what their account may have,
    /// and take nothing of what it may always have.
    pub(crate) fn take(&self, holder: &Holder, bytes: usize) -> Result<(), &'static str> {
        let mut counts = self.counts();
        let its = counts.of(holder) + bytes;
        let of_account = its + counts.of(&holder.other());
        let Limits { of_account: most, of_all, always, what: [mine, all] } = self.limits;
        let part = |of| if holder.is_affiliates { of / 2 } else { of };
        if of_account > most || its > part(most) {
            return Err(mine);
        }
        if counts.all + bytes > of_all && its > part(always) {
            return Err(all);
        }
        counts.add(holder, bytes);
        Ok(())
    }

    /// Releases bytes.
    pub(crate) fn give_back(&self, holder: &Holder, bytes: usize) {
        self.counts().give_back(holder, bytes);
    }

    fn counts(&self) -> MutexGuard<'_, Counts<Holder>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(number: u32) -> Holder {
        let id: TenantId = format!("tnt_{number:024x}").parse().expect("an id");
        Holder::from(&id)
    }

    /// R5: what an account gives a credential for uses at most half of its share, which all of them have together.
    #[test]
    fn r5_affiliates_leave_half_to_their_account() {
        let bodies = AccountBytes::of_bodies();
        let (account, half) = (tenant(0), BODIES.of_account / 2);
        let affiliates = Holder::of_affiliates(&account.tenant);
        bodies.take(&affiliates, half).expect("half of it");
        assert!(bodies.take(&affiliates, 1).expect_err("it has its part").contains("from this account"));
        bodies.take(&account, half).expect("the other half");
        assert!(bodies.take(&account, 1).expect_err("the account has its share").contains("from this account"));
        bodies.give_back(&affiliates, half);
        bodies.take(&account, half).expect("it has all when no other has any");
        assert!(bodies.take(&affiliates, 1).is_err(), "the account has its share");
        for number in 1..8 {
            bodies.take(&tenant(number), BODIES.of_account).expect("each has its own");
        }
        let always = BODIES.always;
        let (account, affiliates) = (tenant(9), Holder::of_affiliates(&tenant(9).tenant));
        bodies.take(&affiliates, always / 2).expect("half of what its account always has");
        assert!(!bodies.take(&affiliates, 1).expect_err("all is taken").contains("from this account"));
        bodies.take(&account, always).expect("all that it always has");
        assert!(bodies.take(&account, 1).is_err());
    }

    /// An account has a share of the total, and can reuse what it released.
    #[test]
    fn r5_bodies_of_an_account_are_bounded() {
        const OF_ACCOUNT: usize = BODIES.of_account;
        const ALWAYS: usize = BODIES.always;
        let bodies = AccountBytes::of_bodies();
        bodies.take(&tenant(0), OF_ACCOUNT).expect("it fits");
        assert!(bodies.take(&tenant(0), 1).expect_err("it has its part").contains("from this account"));
        for number in 1..8 {
            bodies.take(&tenant(number), OF_ACCOUNT).expect("each has its own");
        }
        bodies.take(&tenant(8), ALWAYS).expect("an account without a body may always have a small one");
        assert!(!bodies.take(&tenant(8), 10).expect_err("all is taken").contains("from this account"));
        bodies.give_back(&tenant(0), ALWAYS + 10);
        bodies.take(&tenant(8), 10).expect("it was given back");
        bodies.give_back(&tenant(8), ALWAYS + 10);
        bodies.give_back(&tenant(0), OF_ACCOUNT - ALWAYS - 10);
        (1..8).for_each(|number| bodies.give_back(&tenant(number), OF_ACCOUNT));
        let counts = bodies.counts();
        assert_eq!((counts.all, counts.of.len()), (0, 0));
    }

    /// R5: accounts that use all they may leave every other one its usual requests.
    #[test]
    fn r5_requests_of_ten_accounts_leave_thirty_to_others() {
        let requests = AccountBytes::of_requests();
        let begin = |number: u32| requests.take(&tenant(number), 17 << 10);
        (0..10).for_each(|number| while begin(number).is_ok() {});
        for other in 10..20 {
            let begun = (0..40).filter(|_| begin(other).is_ok()).count();
            assert_eq!(begun, 30, "of account {other}");
        }
        assert!(begin(0).expect_err("it has its share").contains("from this account"));
        assert!(!begin(10).expect_err("all is taken").contains("from this account"));
    }
}

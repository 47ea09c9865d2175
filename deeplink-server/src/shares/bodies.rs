//! Memory of known callers' request bodies, by account, since anyone may open an account.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use deeplink_core::id::TenantId;

/// Maximum bytes of bodies per account: 32 of the largest.
const OF_ACCOUNT: usize = 32 << 20;
/// Maximum bytes of bodies of all accounts. Beyond it an account may still have what most requests need, so that
/// opening many accounts does not block others from writing.
const OF_ALL: usize = 8 * OF_ACCOUNT;
const ALWAYS: usize = 64 << 10;

/// The bytes of bodies in memory.
#[derive(Debug, Default)]
pub(crate) struct AccountBodies(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    /// Never 0.
    of: HashMap<TenantId, usize>,
}

impl AccountBodies {
    /// Counts bytes, or returns why there is no room for them.
    pub(crate) fn take(&self, tenant: &TenantId, bytes: usize) -> Result<(), &'static str> {
        let mut counts = self.counts();
        let of_account = counts.of.get(tenant).copied().unwrap_or(0) + bytes;
        if of_account > OF_ACCOUNT {
            return Err("too many request bodies of this account in progress");
        }
        if counts.all + bytes > OF_ALL && of_account > ALWAYS {
            return Err("too many request bodies in progress");
        }
        counts.all += bytes;
        *counts.of.entry(tenant.clone()).or_default() += bytes;
        Ok(())
    }

    /// Releases bytes.
    pub(crate) fn give_back(&self, tenant: &TenantId, bytes: usize) {
        let mut counts = self.counts();
        if let Entry::Occupied(mut of) = counts.of.entry(tenant.clone()) {
            *of.get_mut() -= bytes;
            if *of.get() == 0 {
                of.remove();
            }
        }
        counts.all -= bytes;
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An account has a share of the total, and can reuse what it released.
    #[test]
    fn r5_bodies_of_an_account_are_bounded() {
        let bodies = AccountBodies::default();
        let tenant = |number: u32| -> TenantId { format!("tnt_{number:024x}").parse().expect("an id") };
        bodies.take(&tenant(0), OF_ACCOUNT).expect("it fits");
        assert!(bodies.take(&tenant(0), 1).expect_err("it has its part").contains("of this account"));
        for number in 1..8 {
            bodies.take(&tenant(number), OF_ACCOUNT).expect("each has its own");
        }
        bodies.take(&tenant(8), ALWAYS).expect("an account without a body may always have a small one");
        assert!(!bodies.take(&tenant(8), 10).expect_err("all is taken").contains("of this account"));
        bodies.give_back(&tenant(0), ALWAYS + 10);
        bodies.take(&tenant(8), 10).expect("it was given back");
        bodies.give_back(&tenant(8), ALWAYS + 10);
        bodies.give_back(&tenant(0), OF_ACCOUNT - ALWAYS - 10);
        (1..8).for_each(|number| bodies.give_back(&tenant(number), OF_ACCOUNT));
        let counts = bodies.counts();
        assert_eq!((counts.all, counts.of.len()), (0, 0));
    }
}

//! A budget of bytes that all clients share.
//!
//! One address may use an eighth of it. So that eight addresses cannot shut out all others, an address that has little may
//! exceed what is left for all, until a quarter more than the budget is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// One address has at most an eighth of what all clients share.
pub(crate) const SHARES: usize = 8;
/// The IPv6 addresses of one site, a /48, have at most a quarter together: a client can have all of them.
pub(crate) const SITES: usize = 4;

/// Why there is no room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// The client's address has used up its share.
    OfAddress,
    /// The client's account has used up its share.
    OfAccount,
    /// The budget of all clients is used up.
    OfAll,
}

/// How many bytes may be in use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// By all addresses.
    pub(crate) all: usize,
    /// By one address, whatever the others use.
    pub(crate) always: usize,
    /// In addition to `all`, for known callers only.
    pub(crate) reserve: usize,
}

impl Budget {
    /// Maximum bytes of one address, unless it is trusted.
    pub(crate) const fn of_address(self) -> usize {
        self.all / SHARES
    }

    /// Maximum bytes of one site.
    pub(crate) const fn of_site(self) -> usize {
        self.all / SITES
    }

    /// Maximum bytes of all addresses, for one that itself has this many.
    pub(crate) const fn of_all(self, has: usize) -> usize {
        let most = self.all.saturating_add(self.reserve);
        if has <= self.always { most.saturating_add(self.all / 4) } else { most }
    }

    /// The budget for known callers: the same share per address, but a total 50% higher, so that unknown callers cannot use it
    /// up.
    pub(crate) const fn of_known(self) -> Self {
        Self { reserve: self.all / 2, ..self }
    }

    /// Whether little is left, so that slow clients get shorter timeouts.
    pub(crate) fn is_nearly_used_up(self, all: &Used) -> bool {
        all.get() >= self.all / 4 * 3
    }

    /// Counts bytes that an address uses, unless they exceed its part, that of its site, or what is left for all.
    pub(crate) fn take(self, bytes: usize, all: &Used, of: &UsedBy, is_trusted: bool) -> Result<(), Excess> {
        let most = if is_trusted { usize::MAX } else { self.of_address() };
        let has = of.address.take(bytes, most).ok_or(Excess::OfAddress)?;
        if of.site.as_ref().is_some_and(|site| site.take(bytes, self.of_site()).is_none()) {
            of.address.give_back(bytes);
            return Err(Excess::OfAddress);
        }
        if all.take(bytes, self.of_all(has)).is_none() {
            of.give_back(bytes);
            return Err(Excess::OfAll);
        }
        Ok(())
    }
}

/// Bytes in use by an address, and by the site that it belongs to, if it is limited too.
#[derive(Debug, Default)]
pub(crate) struct UsedBy {
    pub(crate) address: Used,
    pub(crate) site: Option<Arc<Used>>,
}

impl UsedBy {
    /// Releases bytes.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.address.give_back(bytes);
        if let Some(site) = &self.site {
            site.give_back(bytes);
        }
    }
}

/// Bytes in use.
#[derive(Debug, Default)]
pub(crate) struct Used(AtomicUsize);

impl Used {
    /// Counts bytes and returns their sum, unless it exceeds `most`.
    fn take(&self, bytes: usize, most: usize) -> Option<usize> {
        let add = |had: usize| had.checked_add(bytes).filter(|has| *has <= most);
        self.0.fetch_update(Relaxed, Relaxed, add).ok().map(|had| had + bytes)
    }

    /// Counts bytes and returns how many there were before.
    pub(crate) fn add(&self, bytes: usize) -> usize {
        self.0.fetch_add(bytes, Relaxed)
    }

    /// Releases bytes.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Relaxed);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R5, R6: one address has an eighth, and eight of them do not shut out one that has little.
    #[test]
    fn r6_eight_addresses_leave_something_for_the_others() {
        let budget = Budget { all: 800, always: 10, reserve: 0 };
        let (all, of) = (Used::default(), std::array::from_fn::<_, 90, _>(|_| UsedBy::default()));
        let take = |address: usize, bytes| budget.take(bytes, &all, &of[address], false);
        for address in 0..8 {
            take(address, 100).expect("its part");
            assert_eq!(take(address, 1), Err(Excess::OfAddress));
        }
        for address in 8..28 {
            assert_eq!(take(address, 11), Err(Excess::OfAll), "much is refused");
            take(address, 10).expect("little is not");
            assert_eq!(take(address, 1), Err(Excess::OfAll));
        }
        assert_eq!(take(88, 1), Err(Excess::OfAll), "a quarter more than the budget is in use");
        of[0].give_back(100);
        all.give_back(100);
        take(88, 10).expect("something was released");
        let proxies = UsedBy::default();
        assert_eq!(budget.take(usize::MAX, &all, &proxies, true), Err(Excess::OfAll));
        let refused = [89, 8].map(|address| of[address].address.get());
        assert_eq!((refused, proxies.address.get(), all.get()), ([0, 10], 0, 700 + 21 * 10));
    }

    /// R6: the addresses of one site have a quarter together, and what is refused takes nothing.
    #[test]
    fn r6_a_site_has_a_quarter() {
        let budget = Budget { all: 800, always: 10, reserve: 0 };
        let (all, site) = (Used::default(), Arc::<Used>::default());
        let of: [UsedBy; 4] = std::array::from_fn(|_| UsedBy { site: Some(Arc::clone(&site)), ..UsedBy::default() });
        let taken = of.each_ref().map(|of| budget.take(80, &all, of, false));
        assert_eq!(taken, [Ok(()), Ok(()), Err(Excess::OfAddress), Err(Excess::OfAddress)]);
        budget.take(80, &all, &UsedBy::default(), false).expect("others have what is left");
        of[0].give_back(80);
        all.give_back(80);
        budget.take(80, &all, &of[2], false).expect("something was released");
        assert_eq!((site.get(), of[3].address.get(), all.get()), (160, 0, 240));
    }
}

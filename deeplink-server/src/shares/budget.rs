//! A budget of bytes that all clients share.
//!
//! One address may use an eighth of it. So that eight addresses cannot shut out all others, an address that has little may
//! exceed what is left for all, until a quarter more than the budget is in use.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// One address has at most an eighth of what all clients share.
pub(crate) const SHARES: usize = 8;

/// Why there is no room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// The client's address has used up its share.
    OfAddress,
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
}

impl Budget {
    /// Maximum bytes of one address, unless it is trusted.
    pub(crate) const fn of_address(self) -> usize {
        self.all / SHARES
    }

    /// Maximum bytes of all addresses, for one that itself has this many.
    pub(crate) const fn of_all(self, has: usize) -> usize {
        if has <= self.always { self.all.saturating_add(self.all / 4) } else { self.all }
    }

    /// Counts bytes that an address uses, unless they exceed its part or what is left for all.
    pub(crate) fn take(self, bytes: usize, all: &Used, address: &Used, is_trusted: bool) -> Result<(), Excess> {
        let most = if is_trusted { usize::MAX } else { self.of_address() };
        let has = address.take(bytes, most).ok_or(Excess::OfAddress)?;
        if all.take(bytes, self.of_all(has)).is_none() {
            address.give_back(bytes);
            return Err(Excess::OfAll);
        }
        Ok(())
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

    /// Releases bytes.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Relaxed);
    }

    #[cfg(test)]
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
        let budget = Budget { all: 800, always: 10 };
        let (all, of) = (Used::default(), std::array::from_fn::<_, 90, _>(|_| Used::default()));
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
        let proxies = Used::default();
        assert_eq!(budget.take(usize::MAX, &all, &proxies, true), Err(Excess::OfAll));
        let refused = [89, 8].map(|address| of[address].get());
        assert_eq!((refused, proxies.get(), all.get()), ([0, 10], 0, 700 + 21 * 10));
    }
}

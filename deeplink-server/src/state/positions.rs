//! The positions of new links.

use std::sync::atomic::{AtomicI64, Ordering};

use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;

use crate::db::link_list::POSITION_BITS;

/// Bits of a position below the milliseconds: a count within the millisecond, then the node's salt.
const COUNT_BITS: u32 = POSITION_BITS - SALT_BITS;
const SALT_BITS: u32 = 10;

/// Draws the positions of new links: unique, and ordered by time. The salt keeps nodes apart; the unique index catches
/// the rest.
pub(crate) struct Positions {
    last: AtomicI64,
    salt: i64,
}

impl Positions {
    pub(super) fn new(random: &mut Random) -> Self {
        let salt = i64::try_from(random.below(1 << SALT_BITS)).unwrap_or(0);
        Self { last: AtomicI64::new(0), salt }
    }

    /// `count` ascending positions, each larger than any drawn before on this node.
    pub(crate) fn draw(&self, now: Timestamp, count: usize) -> impl Iterator<Item = i64> + use<> {
        let count = i64::try_from(count).unwrap_or(0);
        let floor = now.as_millis().max(0) << COUNT_BITS;
        let next = |last: i64| last.max(floor - 1) + count;
        let last = self.last.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(next(last)));
        let end = next(last.unwrap_or_else(|last| last));
        let salt = self.salt;
        (end - count + 1..=end).map(move |step| (step << SALT_BITS) | salt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn positions_grow_whatever_the_clock_does(steps in proptest::collection::vec((0_i64..3_000, 1_usize..200), 1..50)) {
            let positions = Positions::new(&mut Random::seeded(1));
            let mut last = -1;
            for (millis, count) in steps {
                let drawn: Vec<i64> = positions.draw(Timestamp::from_millis(1_795_167_000_000 + millis), count).collect();
                proptest::prop_assert_eq!(drawn.len(), count);
                for position in drawn {
                    proptest::prop_assert!(position > last);
                    last = position;
                }
            }
        }
    }
}

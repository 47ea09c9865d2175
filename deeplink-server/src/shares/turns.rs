//! A queue in which shares take turns.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use super::Share;

/// Maximum number of waiting items. Beyond it an account with an item waiting can add nothing, and others one each:
/// opening many accounts takes nothing from shares that belong to no account, such as sign-ins and the service's own
/// tasks.
const MAX_WAITING: usize = 4_096;

/// Waiting items, first come, first served within a share; the shares take turns.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    /// The waiting items of each share; never empty.
    waiting: HashMap<Share, VecDeque<T>>,
    /// The shares with waiting items, the next one first.
    order: VecDeque<Share>,
    len: usize,
}

impl<T> Turns<T> {
    pub(crate) fn new() -> Self {
        Self { waiting: HashMap::new(), order: VecDeque::new(), len: 0 }
    }

    /// Number of waiting items.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of waiting items of a share.
    pub(crate) fn len_of(&self, share: &Share) -> usize {
        self.waiting.get(share).map_or(0, VecDeque::len)
    }

    /// Adds an item to a share, of which at most `most` may wait; `false` if there is no room.
    pub(crate) fn push(&mut self, share: Share, most: usize, item: T) -> bool {
        let is_full = self.len >= MAX_WAITING && share.is_the_callers();
        match self.waiting.entry(share) {
            Entry::Occupied(mut queue) => {
                if queue.get().len() >= most || is_full {
                    return false;
                }
                queue.get_mut().push_back(item);
            }
            Entry::Vacant(_) if most == 0 => return false,
            Entry::Vacant(entry) => {
                self.order.push_back(entry.key().clone());
                entry.insert(VecDeque::from([item]));
            }
        }
        self.len += 1;
        true
    }

    /// Takes the next item among the shares that `may` allows; a share that is skipped moves to the end.
    pub(crate) fn next(&mut self, may: impl Fn(&Share) -> bool) -> Option<T> {
        for _ in 0..self.order.len() {
            let share = self.order.pop_front()?;
            if !may(&share) {
                self.order.push_back(share);
                continue;
            }
            let queue = self.waiting.get_mut(&share)?;
            let item = queue.pop_front();
            if queue.is_empty() {
                self.waiting.remove(&share);
            } else {
                self.order.push_back(share);
            }
            self.len -= 1;
            return item;
        }
        None
    }

    /// Drops a share's items that are gone.
    pub(crate) fn forget(&mut self, share: &Share, is_gone: impl Fn(&T) -> bool) {
        let Some(queue) = self.waiting.get_mut(share) else { return };
        let before = queue.len();
        queue.retain(|item| !is_gone(item));
        self.len -= before - queue.len();
        if queue.is_empty() {
            self.waiting.remove(share);
            self.order.retain(|other| other != share);
        }
    }

    /// Takes the items that `is_over` from the front of each share.
    pub(crate) fn take_over(&mut self, is_over: impl Fn(&T) -> bool) -> Vec<T> {
        let mut over = Vec::new();
        self.waiting.retain(|_, queue| {
            while queue.front().is_some_and(&is_over) {
                over.extend(queue.pop_front());
            }
            !queue.is_empty()
        });
        if !over.is_empty() {
            self.len -= over.len();
            self.order.retain(|share| self.waiting.contains_key(share));
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(number: usize) -> Share {
        Share::Wallet(number.to_string())
    }

    fn all<T>(turns: &mut Turns<T>) -> Vec<T> {
        std::iter::from_fn(|| turns.next(|_| true)).collect()
    }

    #[test]
    fn shares_take_turns_and_each_keeps_its_order() {
        let mut turns = Turns::new();
        for (of, item) in [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (3, "c1"), (2, "b2")] {
            assert!(turns.push(share(of), 3, item));
        }
        assert!(!turns.push(share(1), 3, "one too many") && !turns.push(share(9), 0, "no room at all"));
        assert_eq!(turns.next(|share| *share == self::share(2)), Some("b1"), "the first one's turn has not come");
        assert_eq!(all(&mut turns), ["c1", "a1", "b2", "a2", "a3"]);
        assert_eq!((turns.len(), turns.waiting.len(), turns.order.len()), (0, 0, 0));
    }

    #[test]
    fn r2_a_full_queue_has_room_for_one_of_each_account_and_for_what_is_nobodys() {
        let mut turns = Turns::new();
        for number in 0..MAX_WAITING {
            assert!(turns.push(share(number % 16), 256, number));
        }
        assert!(turns.push(share(16), 256, 0) && !turns.push(share(16), 256, 1), "one, and no more");
        assert!(!turns.push(share(0), 1_000, 0));
        for number in 0..3 {
            assert_eq!(turns.push(Share::Service, 2, number), number < 2, "the service's own share is unchanged");
        }
        assert_eq!(all(&mut turns).len(), MAX_WAITING + 1 + 2);
    }

    #[test]
    fn what_is_over_or_gone_takes_no_room() {
        let mut turns = Turns::new();
        for (of, item) in [(1, 1), (1, 5), (1, 2), (2, 3), (3, 9)] {
            assert!(turns.push(share(of), 3, item));
        }
        let mut over = turns.take_over(|item| *item < 4);
        over.sort_unstable();
        assert_eq!((over, turns.len()), (vec![1, 3], 3));
        turns.forget(&share(1), |item| *item == 5);
        turns.forget(&share(3), |_| true);
        turns.forget(&share(4), |_| true);
        assert_eq!((turns.len(), turns.order.len()), (1, 1));
        assert_eq!(all(&mut turns), [2]);
    }
}

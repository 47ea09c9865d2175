//! A queue in which shares take turns by what their items cost: weighted fair queueing (Demers, Keshav and Shenker 1989).

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::{Share, Turn};

/// Maximum number of waiting items. Beyond it an account with an item waiting can add nothing, and others one each:
/// opening many accounts takes nothing from shares that belong to no account, such as sign-ins and the service's own
/// tasks.
const MAX_WAITING: usize = 4_096;
/// Units of virtual time for a cost of 1, so that it can be divided by the number of shares.
const UNIT: u64 = 1 << 16;

/// Waiting items, first come, first served within a share. Among the shares the item is next that would be done first if
/// all were worked on at once, each at the same speed: a small item never waits for large ones of many others.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    lines: HashMap<Share, Line<T>>,
    /// The shares with waiting items, by when the first of them would be done, and then by arrival.
    order: BTreeMap<Place, Share>,
    /// The virtual time: how far a share would be that always had items waiting.
    now: u64,
    arrivals: u64,
    len: usize,
}

type Place = (u64, u64);

/// The waiting items of a share, each with its cost; never empty.
#[derive(Debug)]
struct Line<T> {
    items: VecDeque<(u64, T)>,
    /// When the first item begins: where the last one that was served ended. What was dropped or taken costs nothing.
    begins: u64,
    place: Place,
}

impl<T> Turns<T> {
    pub(crate) fn new() -> Self {
        Self { lines: HashMap::new(), order: BTreeMap::new(), now: 0, arrivals: 0, len: 0 }
    }

    /// Number of waiting items.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of waiting items of a share.
    pub(crate) fn len_of(&self, share: &Share) -> usize {
        self.lines.get(share).map_or(0, |line| line.items.len())
    }

    /// Adds an item, unless `most` of its share are waiting; `false` if there is no room.
    pub(crate) fn push(&mut self, Turn { share, cost }: Turn, most: usize, item: T) -> bool {
        let waiting = self.len_of(&share);
        let is_full = self.len >= MAX_WAITING && share.is_the_callers();
        if waiting >= most || (waiting > 0 && is_full) {
            return false;
        }
        let item = (u64::from(cost) * UNIT, item);
        if let Some(line) = self.lines.get_mut(&share) {
            line.items.push_back(item);
        } else {
            self.line_up(share, VecDeque::from([item]), self.now);
        }
        self.len += 1;
        true
    }

    /// Takes the next item among the shares whose first one `may` be taken, given the share and whether that is a large one.
    pub(crate) fn next(&mut self, may: impl Fn(&Share, bool) -> bool) -> Option<T> {
        let is_large = |share: &Share| {
            let first = self.lines.get(share).and_then(|line| line.items.front());
            first.is_some_and(|(cost, _)| *cost > UNIT)
        };
        let share = self.order.values().find(|share| may(share, is_large(share)))?.clone();
        let shares = self.lines.len() as u64;
        let Line { mut items, begins, place } = self.lines.remove(&share)?;
        self.order.remove(&place);
        let (cost, item) = items.pop_front()?;
        self.now += cost / shares;
        self.len -= 1;
        self.line_up(share, items, begins + cost);
        Some(item)
    }

    /// Drops a share's items that are gone.
    pub(crate) fn forget(&mut self, share: &Share, is_gone: impl Fn(&T) -> bool) {
        let Some(line) = self.lines.get_mut(share) else { return };
        let (before, first) = (line.items.len(), line.items.front().is_some_and(|(_, item)| is_gone(item)));
        line.items.retain(|(_, item)| !is_gone(item));
        self.len -= before - line.items.len();
        if first {
            self.step_up(share.clone());
        }
    }

    /// Takes the items that `is_over` from the front of each share.
    pub(crate) fn take_over(&mut self, is_over: impl Fn(&T) -> bool) -> Vec<T> {
        let (mut over, mut shares) = (Vec::new(), Vec::new());
        for (share, line) in &mut self.lines {
            let before = over.len();
            while line.items.front().is_some_and(|(_, item)| is_over(item)) {
                over.extend(line.items.pop_front().map(|(_, item)| item));
            }
            if over.len() > before {
                shares.push(share.clone());
            }
        }
        self.len -= over.len();
        for share in shares {
            self.step_up(share);
        }
        over
    }

    /// Finds the place of a share whose first item was dropped: the next one begins when that would have begun.
    fn step_up(&mut self, share: Share) {
        if let Some(Line { items, begins, place }) = self.lines.remove(&share) {
            self.order.remove(&place);
            self.line_up(share, items, begins);
        }
    }

    /// Puts a share in its place among the others, if any of its items wait.
    fn line_up(&mut self, share: Share, items: VecDeque<(u64, T)>, begins: u64) {
        let Some((cost, _)) = items.front() else { return };
        self.arrivals += 1;
        let place = (begins + cost, self.arrivals);
        self.order.insert(place, share.clone());
        self.lines.insert(share, Line { items, begins, place });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(number: usize) -> Share {
        Share::Wallet(number.to_string())
    }

    fn turn(number: usize) -> Turn {
        share(number).into()
    }

    fn all<T>(turns: &mut Turns<T>) -> Vec<T> {
        std::iter::from_fn(|| turns.next(|_, _| true)).collect()
    }

    #[test]
    fn shares_take_turns_and_each_keeps_its_order() {
        let mut turns = Turns::new();
        for (of, item) in [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (3, "c1"), (2, "b2")] {
            assert!(turns.push(turn(of), 3, item));
        }
        assert!(!turns.push(turn(1), 3, "one too many") && !turns.push(turn(9), 0, "no room at all"));
        assert_eq!(turns.next(|share, _| *share == self::share(2)), Some("b1"), "the first one's turn has not come");
        assert_eq!(all(&mut turns), ["a1", "c1", "b2", "a2", "a3"]);
        assert_eq!((turns.len(), turns.lines.len(), turns.order.len()), (0, 0, 0));
    }

    #[test]
    fn r2_a_full_queue_has_room_for_one_of_each_account_and_for_what_is_nobodys() {
        let mut turns = Turns::new();
        for number in 0..MAX_WAITING {
            assert!(turns.push(turn(number % 16), 256, number));
        }
        assert!(turns.push(turn(16), 256, 0) && !turns.push(turn(16), 256, 1), "one, and no more");
        assert!(!turns.push(turn(0), 1_000, 0));
        for number in 0..3 {
            assert_eq!(
                turns.push(Share::Service.into(), 2, number),
                number < 2,
                "the service's own share is unchanged"
            );
        }
        assert_eq!(all(&mut turns).len(), MAX_WAITING + 1 + 2);
    }

    #[test]
    fn what_is_over_or_gone_takes_no_room() {
        let mut turns = Turns::new();
        for (of, item) in [(1, 1), (1, 5), (1, 2), (2, 3), (3, 9)] {
            assert!(turns.push(turn(of), 3, item));
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
    /// R2: however many others have a batch waiting, what is small comes soon, and each batch in the end.
    #[test]
    fn r2_small_items_do_not_wait_for_the_large_ones_of_many_shares() {
        let mut turns = Turns::new();
        let large = |number| Turn::from(share(number)).of_rows(100);
        for number in 1..=200 {
            assert!(turns.push(large(number), 3, number));
        }
        let (mut waits, mut done, mut batches) = (Vec::new(), Vec::new(), 200);
        while done.len() < 400 {
            // One small item at a time, while each batch that is done is followed by the next of its share.
            assert!(turns.push(turn(0), 3, 0));
            let before = done.len();
            while let Some(number @ 1..) = turns.next(|_, _| true) {
                done.push(number);
                assert!(turns.push(large(number), 3, number));
                batches += 1;
                assert!(batches < 1_000, "the small one never comes");
            }
            waits.push(done.len() - before);
            // What the small item leaves of the time is for the batches.
            let number = turns.next(|_, _| true).expect("a batch");
            done.push(number);
            assert!(turns.push(large(number), 3, number));
        }
        // As many are done, or begun earlier, in the time that a small one takes when all have their part.
        assert!(waits.iter().all(|waited| *waited <= 30), "{waits:?}");
        let mut first = done[..200].to_vec();
        first.sort_unstable();
        assert_eq!(first, (1..=200).collect::<Vec<_>>(), "each has its turn before any has its second");
    }

    /// Nothing large waits for ever beside small items that never end.
    #[test]
    fn a_large_item_comes_beside_small_ones_that_never_end() {
        let mut turns = Turns::new();
        assert!(turns.push(Turn::from(share(0)).of_rows(100), 3, 0));
        for number in 1..=64 {
            assert!(turns.push(turn(number), 3, number));
        }
        let mut before = 0;
        while let Some(number @ 1..) = turns.next(|_, _| true) {
            before += 1;
            assert!(before < 2_000 && turns.push(turn(number), 3, number));
        }
        assert!(before > 64, "each small one came first");
    }
    /// R2: a share that asks for more than its part still has its part, although most of what it asks for is refused.
    #[test]
    fn r2_what_is_refused_costs_its_share_nothing() {
        let mut turns = Turns::new();
        let mut served = 0;
        for round in 1_000..1_200 {
            for number in 1..=20 {
                turns.push(Turn::from(share(number)).of_rows(100), 1, number);
            }
            for _ in 0..32 {
                turns.push(turn(0), 64, round);
            }
            for _ in 0..4 {
                served += usize::from(turns.next(|_, _| true).expect("an item") >= 1_000);
            }
            // Those of earlier rounds were not begun in time; there are always others behind them.
            turns.take_over(|item| (1_000..round).contains(item));
            assert!(turns.len_of(&share(0)) > 0);
        }
        assert!(served >= 200, "{served}: at least one in each round");
    }

    /// R2: a burst of one share's small items does not bring the batches of others before the small item of another.
    #[test]
    fn r2_a_burst_of_small_items_does_not_hold_up_another() {
        let mut turns = Turns::new();
        for number in 1..=40 {
            assert!(turns.push(Turn::from(share(number)).of_rows(100), 3, number));
        }
        for _ in 0..64 {
            assert!(turns.push(turn(0), 64, 0));
        }
        for _ in 0..13 {
            turns.next(|_, _| true).expect("an item");
        }
        assert!(turns.push(turn(99), 1, 99));
        let before = std::iter::from_fn(|| turns.next(|_, _| true).filter(|number| *number != 99)).count();
        assert!(before <= 3, "{before}");
    }
}

//! A queue in which shares take turns by what their items cost: weighted fair queueing (Demers, Keshav and Shenker 1989).

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::{Share, Turn};

/// Maximum number of waiting items. Beyond it an account with an item waiting can add nothing, and others one each:
/// opening many accounts takes nothing from shares that belong to no account, such as sign-ins and the service's own
/// tasks.
const MAX_WAITING: usize = 4_096;
/// Work of small items that large ones may have to wait for, as a multiple of their own.
const BEFORE_LARGE: u64 = 5;
/// Units of virtual time for a cost of 1, so that it can be divided by the number of flows.
const UNIT: u64 = 1 << 16;

/// The small or the large items of a share: a small one does not wait for a large one that may not be taken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Flow {
    share: Share,
    is_large: bool,
}

/// Waiting items, first come, first served within a flow, apart from those with restricted credentials. The next item is
/// the one that would finish
/// first if all flows were served at once, each at the same speed, so a small item never waits for the large ones of many
/// others. On its own, this rule could make a large item wait for small items of every other flow, up to its own cost for
/// each, so a large item that has waited longer than the next item is taken first, as long as small items keep most of the
/// work.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    lines: HashMap<Flow, Line<T>>,
    /// The flows with waiting items, by when the first of them would be done, and then by arrival.
    order: BTreeMap<Place, Flow>,
    /// Those of them that are large, by arrival.
    large: BTreeMap<u64, Flow>,
    /// The cost of the small items served, while large ones were waiting, since the last large one was served.
    passed: u64,
    /// The virtual time: how far a flow would be that always had items waiting.
    now: u64,
    arrivals: u64,
    len: usize,
}

/// When an item would be done, and when it became the first of its flow.
type Place = (u64, u64);

/// The waiting items of a flow; never empty.
#[derive(Debug)]
struct Line<T> {
    items: VecDeque<Item<T>>,
    /// When the first item begins: where the last one that was served ended. Items that were dropped or taken out are
    /// not counted.
    begins: u64,
    place: Place,
}

#[derive(Debug)]
struct Item<T> {
    cost: u64,
    is_restricted: bool,
    item: T,
}

/// The flow whose first item is next.
struct First {
    flow: Flow,
    /// It comes before its time, because it has waited long.
    is_early: bool,
    /// It comes in place of another one that may not be taken.
    is_instead: bool,
}

impl<T> Line<T> {
    fn cost(&self) -> u64 {
        self.items.iter().map(|item| item.cost / UNIT).sum()
    }

    /// Where an item is added, if there are not `most` already. An account's own items pass those with restricted
    /// credentials, but for one after each of its own, and are not counted with them.
    fn end(&self, is_restricted: bool, most: usize) -> Option<usize> {
        let len = self.items.len();
        if is_restricted {
            return (len < most).then_some(len);
        }
        let is_own = |item: &Item<T>| !item.is_restricted;
        let has_room = len < most || self.items.iter().filter(|item| is_own(item)).count() < most;
        let end = self.items.iter().rposition(is_own).map_or(0, |last| len.min(last + 2));
        has_room.then_some(end)
    }
}

impl<T> Turns<T> {
    pub(crate) fn new() -> Self {
        let (order, large) = (BTreeMap::new(), BTreeMap::new());
        Self { lines: HashMap::new(), order, large, passed: 0, now: 0, arrivals: 0, len: 0 }
    }

    /// Number of waiting items.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The cost of a share's waiting items.
    pub(crate) fn cost_of(&self, share: &Share) -> u64 {
        let lines = flows(share).into_iter().filter_map(|flow| self.lines.get(&flow));
        lines.map(Line::cost).sum()
    }

    /// Adds an item, unless `most` of its flow are waiting; `false` if there is no room.
    pub(crate) fn push(&mut self, turn: Turn, most: usize, item: T) -> bool {
        let item = Item { cost: u64::from(turn.cost) * UNIT, is_restricted: turn.is_restricted, item };
        let flow = Flow { is_large: turn.is_large(), share: turn.share };
        let is_full = self.len >= MAX_WAITING && flow.share.is_the_callers();
        if most == 0 || (is_full && self.cost_of(&flow.share) > 0) {
            return false;
        }
        if let Some(line) = self.lines.get_mut(&flow) {
            let Some(end) = line.end(item.is_restricted, most) else { return false };
            line.items.insert(end, item);
            if end == 0 {
                self.step_up(flow);
            }
        } else {
            self.arrivals += 1;
            self.line_up(flow, VecDeque::from([item]), self.now, self.arrivals);
        }
        self.len += 1;
        true
    }

    /// Whether items of such a share wait.
    pub(crate) fn any_share(&self, is_such: impl Fn(&Share) -> bool) -> bool {
        self.lines.keys().any(|flow| is_such(&flow.share))
    }

    /// Takes the next item from the flows that `may` allows, given the share and whether the flow is the large one.
    pub(crate) fn next(&mut self, may: impl Fn(&Share, bool) -> bool) -> Option<T> {
        let First { flow, is_early, is_instead } = self.first(may)?;
        let flows = self.lines.len() as u64;
        let Line { mut items, begins, .. } = self.leave(&flow)?;
        let Item { cost, item, .. } = items.pop_front()?;
        self.now += cost / flows;
        self.len -= 1;
        self.passed = if flow.is_large || self.large.is_empty() { 0 } else { self.passed + cost };
        self.arrivals += 1;
        // A flow that was not served for a while because it may not be taken has no more credit for that than one item,
        // and one that is served in its place has no debt: others could make it pay much later. Nor is an item that is
        // taken early charged to its flow in full.
        let begins = begins.max(self.now.saturating_sub(cost));
        let begins = if is_instead { begins.min(self.now) } else { begins };
        let ended = if is_early { self.now.min(begins + cost) } else { begins + cost };
        self.line_up(flow, items, ended, self.arrivals);
        Some(item)
    }

    /// The flow whose first item is next.
    fn first(&self, may: impl Fn(&Share, bool) -> bool) -> Option<First> {
        let (passed_over, (place, next)) =
            self.order.iter().enumerate().find(|(_, (_, flow))| may(&flow.share, flow.is_large))?;
        let oldest = self.large.range(..place.1).map(|(_, flow)| flow).find(|flow| may(&flow.share, true));
        let cost = |flow| self.lines.get(flow).and_then(|line| line.items.front()).map_or(0, |item| item.cost);
        let early = oldest.filter(|flow| self.passed >= BEFORE_LARGE * cost(flow));
        Some(First { flow: early.unwrap_or(next).clone(), is_early: early.is_some(), is_instead: passed_over > 0 })
    }

    /// Drops a share's items that are gone.
    pub(crate) fn forget(&mut self, share: &Share, is_gone: impl Fn(&T) -> bool) {
        for flow in flows(share) {
            let Some(line) = self.lines.get_mut(&flow) else { continue };
            let (before, first) = (line.items.len(), line.items.front().is_some_and(|first| is_gone(&first.item)));
            line.items.retain(|item| !is_gone(&item.item));
            self.len -= before - line.items.len();
            if first {
                self.step_up(flow);
            }
        }
    }

    /// Takes the items that `is_over` from the front of each flow.
    pub(crate) fn take_over(&mut self, is_over: impl Fn(&T) -> bool) -> Vec<T> {
        let (mut over, mut flows) = (Vec::new(), Vec::new());
        for (flow, line) in &mut self.lines {
            let before = over.len();
            while line.items.front().is_some_and(|first| is_over(&first.item)) {
                over.extend(line.items.pop_front().map(|first| first.item));
            }
            if over.len() > before {
                flows.push(flow.clone());
            }
        }
        self.len -= over.len();
        for flow in flows {
            self.step_up(flow);
        }
        over
    }

    /// Finds the place of a flow with another first item, which begins when the one before would have begun.
    fn step_up(&mut self, flow: Flow) {
        if let Some(Line { items, begins, place: (_, arrival) }) = self.leave(&flow) {
            self.line_up(flow, items, begins, arrival);
        }
    }

    /// Removes a flow.
    fn leave(&mut self, flow: &Flow) -> Option<Line<T>> {
        let line = self.lines.remove(flow)?;
        self.order.remove(&line.place);
        self.large.remove(&line.place.1);
        Some(line)
    }

    /// Puts a flow in its place among the others, if any of its items wait.
    fn line_up(&mut self, flow: Flow, items: VecDeque<Item<T>>, begins: u64, arrival: u64) {
        let Some(Item { cost, .. }) = items.front() else { return };
        let place = (begins + cost, arrival);
        if flow.is_large {
            self.large.insert(arrival, flow.clone());
        }
        self.order.insert(place, flow.clone());
        self.lines.insert(flow, Line { items, begins, place });
    }
}

fn flows(share: &Share) -> [Flow; 2] {
    [false, true].map(|is_large| Flow { share: share.clone(), is_large })
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

    /// R2: an account's own items wait for at most as many with restricted credentials as there are of its own, and have
    /// room however many of those wait. Neither keeps the other waiting for good.
    #[test]
    fn r2_an_accounts_own_items_pass_those_with_restricted_credentials() {
        let mut turns = Turns::new();
        let mut push = |is_restricted, item| turns.push(turn(1).restricted(is_restricted), 4, item);
        assert!(["r1", "r2", "r3", "r4"].iter().all(|item| push(true, *item)) && !push(true, "r5"));
        assert!(["a1", "a2", "a3", "a4"].iter().all(|item| push(false, *item)) && !push(false, "a5"));
        let first: Vec<_> = (0..3).filter_map(|_| turns.next(|_, _| true)).collect();
        assert!(turns.push(turn(1), 4, "a6") && !turns.push(turn(1).restricted(true), 4, "r7"));
        assert_eq!([first, all(&mut turns)].concat(), ["a1", "r1", "a2", "r2", "a3", "r3", "a4", "r4", "a6"]);

        for (item, is_restricted) in [("a1", false), ("a2", false), ("r1", true), ("a3", false), ("r2", true)] {
            assert!(turns.push(turn(1).restricted(is_restricted), 9, item));
        }
        assert_eq!(all(&mut turns), ["a1", "a2", "r1", "a3", "r2"], "nothing passes what came before");

        let large = |is_restricted, rows| turn(1).restricted(is_restricted).of_rows(rows);
        assert!(turns.push(large(true, 800), 9, "costly") && turns.push(turn(2).of_rows(80), 9, "b"));
        assert!(turns.push(large(false, 16), 9, "own"));
        assert_eq!(all(&mut turns), ["own", "b", "costly"], "its cost is that of its first item");
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

    /// R2: beside small items of many shares that never end, a batch comes once each of them had its turn, and however
    /// many batches there are, five sixths of the work is on small items.
    #[test]
    fn r2_batches_do_not_wait_for_many_small_items_of_each_share() {
        for (batches, most) in [(1, 240), (20, 1_500)] {
            let mut turns = Turns::new();
            let push = |turns: &mut Turns<usize>, number| {
                let rows = if number < batches { 100 } else { 1 };
                assert!(turns.push(Turn::from(share(number)).of_rows(rows), 20, number));
            };
            (0..200 + batches).for_each(|number| push(&mut turns, number));
            let (mut last, mut waits, mut done) = (vec![0; 200 + batches], vec![0; 200 + batches], [0, 0]);
            for at in 1..=20_000 {
                let number = turns.next(|_, _| true).expect("an item");
                waits[number] = waits[number].max(at - last[number]);
                last[number] = at;
                done[usize::from(number < batches)] += if number < batches { 13 } else { 1 };
                push(&mut turns, number);
            }
            let [of_batches, of_small] =
                [&waits[..batches], &waits[batches..]].map(|waits| *waits.iter().max().unwrap());
            assert!(of_batches <= most, "{of_batches}");
            assert!(of_small <= 300, "{of_small}");
            assert!(done[0] >= 5 * done[1], "{done:?}");
            // What a share got early is not held against it later.
            (0..9).for_each(|_| assert!(turns.push(Turn::from(share(999)).of_rows(100), 20, 999)));
            let rest: Vec<_> =
                all(&mut turns).into_iter().filter(|number| *number < batches || *number == 999).collect();
            assert!(rest[..=batches].contains(&0), "{rest:?}");
        }
    }

    /// A transaction on SQLite: one item of any size and, after it, as many small ones as fit.
    fn transaction(turns: &mut Turns<usize>) -> Vec<usize> {
        let first = turns.next(|_, _| true);
        let rest = std::iter::from_fn(|| turns.next(|_, is_large| !is_large));
        first.into_iter().chain(rest.take(63)).collect()
    }

    /// R2: a share that always has large and small items waiting does not put off the batches of others, however long it
    /// has done so: transactions with one large item each and many small ones give it no credit.
    #[test]
    fn r2_what_may_not_be_taken_gains_no_lead_over_the_batches_of_others() {
        let mut turns = Turns::new();
        let push = |turns: &mut Turns<usize>, number: usize, rows: usize| {
            turns.push(Turn::from(share(number)).of_rows(rows), 100, number)
        };
        let fill = |turns: &mut Turns<usize>| {
            while push(turns, 1, 100) {}
            while push(turns, 1, 1) {}
        };
        for _ in 0..200 {
            fill(&mut turns);
            transaction(&mut turns);
        }
        push(&mut turns, 2, 100);
        let rounds = (0..300).take_while(|_| {
            fill(&mut turns);
            !transaction(&mut turns).contains(&2)
        });
        assert!(rounds.count() < 3);
    }

    /// R2: a share with many small items waiting, which was served while nobody else could be, is not put off for it when
    /// others come.
    #[test]
    fn r2_what_is_served_while_others_may_not_be_taken_is_no_debt() {
        let mut turns = Turns::new();
        let push = |turns: &mut Turns<usize>, number: usize, rows: usize| {
            turns.push(Turn::from(share(number)).of_rows(rows), 120, number)
        };
        for _ in 0..200 {
            while push(&mut turns, 1, 100) {}
            while push(&mut turns, 2, 1) {}
            transaction(&mut turns);
        }
        let mut served = [0; 4];
        for _ in 0..10 {
            for number in [2, 3] {
                while push(&mut turns, number, 1) {}
            }
            for number in transaction(&mut turns) {
                served[number] += 1;
            }
        }
        assert!(served[2] >= 200 && served[3] >= 200, "{served:?}");
    }

    /// R2: batches of few rows do not come much more often than their part, however many shares have larger ones.
    #[test]
    fn r2_small_batches_take_no_more_than_their_part() {
        let mut turns = Turns::new();
        let push = |turns: &mut Turns<usize>, number: usize| {
            let rows = if number == 0 { 9 } else { 100 };
            assert!(turns.push(Turn::from(share(number)).of_rows(rows), 2, number));
        };
        (0..=20).for_each(|number| {
            push(&mut turns, number);
            push(&mut turns, number);
        });
        let (mut since, mut most) = ([0; 21], 0);
        for _ in 0..2_000 {
            let number = turns.next(|_, _| true).expect("an item");
            if number == 0 {
                for since in &mut since {
                    *since += 1;
                }
                most = most.max(*since[1..].iter().max().expect("a share"));
            }
            since[number] = 0;
            push(&mut turns, number);
        }
        assert!(most <= 10, "{most}");
    }

    /// R2: what a share has small does not wait for what it has large and may not take.
    #[test]
    fn r2_small_items_pass_large_ones_of_their_share_that_may_not_be_taken() {
        let mut turns = Turns::new();
        assert!(turns.push(Turn::from(share(0)).of_rows(100), 99, "batch") && turns.push(turn(0), 99, "small"));
        assert_eq!(turns.next(|_, is_large| !is_large), Some("small"));
        assert_eq!([turns.next(|_, is_large| !is_large), turns.next(|_, _| true)], [None, Some("batch")]);
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
            assert!(turns.cost_of(&share(0)) > 0);
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

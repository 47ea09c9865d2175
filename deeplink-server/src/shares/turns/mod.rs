//! A queue in which shares take turns by what their items cost: weighted fair queueing (Demers, Keshav and Shenker 1989).

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::{Share, Turn};

/// Maximum number of waiting items. Beyond it an account with an item of the same kind waiting can add nothing, and others one each:
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

/// Waiting items, in order within a flow; see [`Items`]. The next item is the one that would finish first if all flows were
/// served at once, each at the same speed, so a small item never waits for the large ones of many others. On its own, this
/// rule could make a large item wait for small items of every other flow, up to its own cost for each, so a large item that
/// has waited longer than the next item is taken first, as long as small items keep most of the work.
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

/// When an item would be done, and when its flow was last served or began to wait.
type Place = (u64, u64);

/// A flow with waiting items.
#[derive(Debug)]
struct Line<T> {
    /// Never empty.
    items: Items<T>,
    /// When the first item begins: where the last one that was served ended. Items that were dropped or taken out are
    /// not counted.
    begins: u64,
    place: Place,
}

/// The items of a flow, each with its cost. An account's own and those with restricted credentials alternate while both
/// wait, and each kind is first come, first served.
#[derive(Debug)]
struct Items<T> {
    own: VecDeque<(u64, T)>,
    restricted: VecDeque<(u64, T)>,
    /// An own item was the last, so a restricted one is next.
    is_owed: bool,
}

/// The flow whose first item is next.
struct First {
    flow: Flow,
    /// It comes before its time, because it has waited long.
    is_early: bool,
    /// It comes in place of another one that may not be taken.
    is_instead: bool,
}

impl<T> Items<T> {
    fn new(is_restricted: bool, item: (u64, T)) -> Self {
        let mut items = Self { own: VecDeque::new(), restricted: VecDeque::new(), is_owed: false };
        items.of(is_restricted).push_back(item);
        items
    }

    /// Those of one kind.
    fn of(&mut self, is_restricted: bool) -> &mut VecDeque<(u64, T)> {
        if is_restricted { &mut self.restricted } else { &mut self.own }
    }

    fn is_restricted_next(&self) -> bool {
        self.own.is_empty() || self.is_owed && !self.restricted.is_empty()
    }

    /// The cost of the next item, if any.
    fn next_cost(&self) -> Option<u64> {
        let next = if self.is_restricted_next() { &self.restricted } else { &self.own };
        next.front().map(|(cost, _)| *cost)
    }

    fn pop(&mut self) -> Option<(u64, T)> {
        let is_restricted = self.is_restricted_next();
        self.is_owed = !is_restricted;
        self.of(is_restricted).pop_front()
    }

    fn len(&self) -> usize {
        self.own.len() + self.restricted.len()
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

    /// The cost of a share's waiting items of the same kind: its own, or those with restricted credentials.
    pub(crate) fn cost_before(&self, turn: &Turn) -> u64 {
        let lines = flows(&turn.share).into_iter().filter_map(|flow| self.lines.get(&flow));
        let items = lines.flat_map(|line| if turn.is_restricted { &line.items.restricted } else { &line.items.own });
        items.map(|(cost, _)| cost / UNIT).sum()
    }

    /// Adds an item, unless `most` of its kind and flow are waiting; `false` if there is no room.
    pub(crate) fn push(&mut self, turn: Turn, most: usize, item: T) -> bool {
        let is_full = self.len >= MAX_WAITING && turn.share.is_the_callers();
        if most == 0 || (is_full && self.cost_before(&turn) > 0) {
            return false;
        }
        let (item, is_restricted) = ((u64::from(turn.cost) * UNIT, item), turn.is_restricted);
        let flow = Flow { is_large: turn.is_large(), share: turn.share };
        if let Some(Line { items, .. }) = self.lines.get_mut(&flow) {
            let (first, kind) = (items.next_cost(), items.of(is_restricted));
            if kind.len() >= most {
                return false;
            }
            kind.push_back(item);
            if items.next_cost() != first {
                self.step_up(flow);
            }
        } else {
            self.arrivals += 1;
            self.line_up(flow, Items::new(is_restricted, item), self.now, self.arrivals);
        }
        self.len += 1;
        true
    }

    /// Takes the next item from the flows that `may` allows, given the share and whether the flow is the large one.
    pub(crate) fn next(&mut self, may: impl Fn(&Share, bool) -> bool) -> Option<T> {
        let First { flow, is_early, is_instead } = self.first(may)?;
        let flows = self.lines.len() as u64;
        let Line { mut items, begins, .. } = self.leave(&flow)?;
        let (cost, item) = items.pop()?;
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
        let cost = |flow| self.lines.get(flow).and_then(|line| line.items.next_cost()).unwrap_or(0);
        let early = oldest.filter(|flow| self.passed >= BEFORE_LARGE * cost(flow));
        Some(First { flow: early.unwrap_or(next).clone(), is_early: early.is_some(), is_instead: passed_over > 0 })
    }

    /// Drops a share's items that are gone.
    pub(crate) fn forget(&mut self, share: &Share, is_gone: impl Fn(&T) -> bool) {
        for flow in flows(share) {
            let Some(Line { items, .. }) = self.lines.get_mut(&flow) else { continue };
            let (before, first) = (items.len(), items.next_cost());
            items.own.retain(|(_, item)| !is_gone(item));
            items.restricted.retain(|(_, item)| !is_gone(item));
            self.len -= before - items.len();
            if items.next_cost() != first {
                self.step_up(flow);
            }
        }
    }

    /// Takes the items that `is_over` from the front of each flow and kind.
    pub(crate) fn take_over(&mut self, is_over: impl Fn(&T) -> bool) -> Vec<T> {
        let (mut over, mut flows) = (Vec::new(), Vec::new());
        for (flow, Line { items, .. }) in &mut self.lines {
            let first = items.next_cost();
            for kind in [&mut items.own, &mut items.restricted] {
                while kind.front().is_some_and(|(_, item)| is_over(item)) {
                    over.extend(kind.pop_front().map(|(_, item)| item));
                }
            }
            if items.next_cost() != first {
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
    fn line_up(&mut self, flow: Flow, items: Items<T>, begins: u64, arrival: u64) {
        let Some(cost) = items.next_cost() else { return };
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
mod tests;

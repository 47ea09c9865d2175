//! A concurrency limit with shares, so that one tenant whose name servers hang does not block others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::{Share, Turn, Turns};

/// Limits concurrency, overall and for each share.
#[derive(Debug)]
pub(crate) struct ShareLimit {
    per_share: usize,
    /// Permits that only shares without one can have.
    reserve: usize,
    /// Permits for large turns, of all shares together.
    large: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Free permits.
    free: usize,
    /// Permits held by each share; never 0.
    held: HashMap<Share, usize>,
    /// Permits held for large turns.
    large: usize,
    waiting: Turns<Waiting>,
}

/// A waiter, because all permits are taken, or those of its share.
#[derive(Debug)]
struct Waiting {
    share: Share,
    is_large: bool,
    permit: oneshot::Sender<Permit>,
}

/// Whose permits are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsedUp {
    /// Those that the share may have.
    Own,
    /// Those that all shares have together.
    All,
}

/// A permit, released on drop.
#[derive(Debug)]
pub(crate) struct Permit(Option<Held>);

#[derive(Debug)]
struct Held {
    limit: Arc<ShareLimit>,
    share: Share,
    is_large: bool,
}

impl ShareLimit {
    /// At most `all` permits at once, of which one share has at most `per_share`.
    pub(crate) fn new(all: usize, per_share: usize) -> Arc<Self> {
        Self::with_reserve(all, per_share, 0, all)
    }

    /// The same, with some permits that only shares without one can have, so that a few shares cannot take all; and at most
    /// `large` for large turns, so that many shares cannot take all for long.
    pub(crate) fn with_reserve(all: usize, per_share: usize, reserve: usize, large: usize) -> Arc<Self> {
        let state = State { free: all, held: HashMap::new(), large: 0, waiting: Turns::new() };
        Arc::new(Self { per_share, reserve, large, state: Mutex::new(state) })
    }

    /// A permit for this share, if one is free now.
    pub(crate) fn try_acquire(self: &Arc<Self>, share: Share) -> Option<Permit> {
        let is_taken = self.take(&mut self.state(), &share, false);
        is_taken.then(|| self.permit(share, false))
    }

    /// Whether any of its share and kind are waiting.
    pub(crate) fn is_waiting(&self, turn: &Turn) -> bool {
        let mut state = self.state();
        state.waiting.forget(&turn.share, |waiting| waiting.permit.is_closed());
        state.waiting.cost_before(turn) > 0
    }

    /// Whether the share has all the permits that it may have.
    pub(crate) fn is_used_up(&self, share: &Share) -> bool {
        self.state().held.get(share).is_some_and(|held| *held >= self.per_share)
    }

    /// Whether a share with this many permits may have one of those that are free.
    fn may_have_more(&self, held: usize, free: usize, large: Option<usize>) -> bool {
        let has_room = large.is_none_or(|large| large < self.large);
        free > 0 && held < self.per_share && (held == 0 || free > self.reserve) && has_room
    }

    fn take(&self, state: &mut State, share: &Share, is_large: bool) -> bool {
        let held = state.held.get(share).copied().unwrap_or(0);
        let may_take = self.may_have_more(held, state.free, is_large.then_some(state.large));
        if may_take {
            state.held.insert(share.clone(), held + 1);
            state.free -= 1;
            state.large += usize::from(is_large);
        }
        may_take
    }

    /// Waits for a permit for this share; shares with free permits take turns by cost (see [`Turns`]). Returns `None` at
    /// once if `waiting` requests of the same kind are waiting: of this share, as small or large, and as restricted.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        turn: Turn,
        waiting: usize,
    ) -> Option<impl Future<Output = Permit> + use<>> {
        let (sender, permit) = oneshot::channel();
        let (mut state, is_large) = (self.state(), turn.is_large());
        if self.take(&mut state, &turn.share, is_large) {
            // The receiver is held in this function.
            let _ = sender.send(self.permit(turn.share, is_large));
        } else {
            state.waiting.forget(&turn.share, |waiting| waiting.permit.is_closed());
            let next = Waiting { share: turn.share.clone(), is_large, permit: sender };
            if !state.waiting.push(turn, waiting, next) {
                return None;
            }
        }
        drop(state);
        let limit = Arc::clone(self);
        Some(async move {
            // While the limit exists, every waiter is served.
            let _limit = limit;
            let Ok(permit) = permit.await else { std::future::pending().await };
            permit
        })
    }

    /// The same, until `end`; otherwise, whose permits are used up.
    pub(crate) async fn acquire_until(
        self: &Arc<Self>,
        turn: Turn,
        waiting: usize,
        end: Instant,
    ) -> Result<Permit, UsedUp> {
        let share = turn.share.clone();
        let is_behind_own = self.is_waiting(&turn);
        let permit = self.acquire(turn, waiting).ok_or(UsedUp::Own)?;
        let is_own = || is_behind_own || self.is_used_up(&share);
        timeout_at(end, permit).await.map_err(|_| if is_own() { UsedUp::Own } else { UsedUp::All })
    }

    fn permit(self: &Arc<Self>, share: Share, is_large: bool) -> Permit {
        Permit(Some(Held { limit: Arc::clone(self), share, is_large }))
    }

    /// Hands free permits to waiters, or only to those of shares without one.
    fn hand_out(self: &Arc<Self>, state: &mut State, only_first: bool) {
        // Those in front that have gone use up nothing of their share's turns.
        drop(state.waiting.take_over(|waiting| waiting.permit.is_closed()));
        while state.free > 0 {
            let State { held, waiting, free, large } = state;
            let held = |share: &Share| held.get(share).copied().unwrap_or(0);
            let may = |share: &Share, is_large: bool| {
                let held = held(share);
                (held == 0 || !only_first) && self.may_have_more(held, *free, is_large.then_some(*large))
            };
            let Some(Waiting { share, is_large, permit }) = waiting.next(may) else { return };
            // As `may` has just allowed.
            self.take(state, &share, is_large);
            // A waiter that has gone returns its permit here, not on drop, which would wait for this lock.
            if let Err(mut unused) = permit.send(self.permit(share, is_large))
                && let Some(Held { share, is_large, .. }) = unused.0.take()
            {
                state.give_back(&share, is_large);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn give_back(&mut self, share: &Share, is_large: bool) {
        self.free += 1;
        self.large -= usize::from(is_large);
        self.uncount(share);
    }

    /// Counts one permit less for a share.
    fn uncount(&mut self, share: &Share) {
        if let Some(held) = self.held.get_mut(share) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(share);
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(Held { limit, share, is_large }) = self.0.take() {
            let mut state = limit.state();
            state.give_back(&share, is_large);
            limit.hand_out(&mut state, false);
        }
    }
}

impl Permit {
    /// Gives the permit to a share that has none and waits for one. `false` if there is no such share that may have it, or
    /// if another share has more permits than this one's.
    pub(crate) fn give_up(&mut self) -> bool {
        let Some(Held { limit, share, is_large }) = &self.0 else { return false };
        let (limit, mut state) = (Arc::clone(limit), limit.state());
        if state.held.get(share) != state.held.values().max() {
            return false;
        }
        // Its share has none only afterwards, so that it does not get this one back.
        let free = state.free;
        state.free += 1;
        state.large -= usize::from(*is_large);
        limit.hand_out(&mut state, true);
        if state.free > free {
            state.free = free;
            state.large += usize::from(*is_large);
            return false;
        }
        state.uncount(share);
        drop(state);
        self.0 = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use deeplink_core::id::TenantId;
    use futures_util::FutureExt;

    use super::*;

    fn tenant(n: u32) -> Share {
        let id: TenantId = format!("tnt_{n:024x}").parse().expect("an id");
        Share::from(&id)
    }

    /// Whether all permits are free and nothing waits.
    fn has_all(limit: &ShareLimit, all: usize) -> bool {
        let state = limit.state();
        state.held.is_empty() && state.free == all && state.large == 0 && state.waiting.len() == 0
    }

    #[tokio::test]
    async fn who_waits_gets_the_permit_that_is_given_back() {
        let limit = ShareLimit::new(2, 1);
        let wait = |n| limit.acquire(tenant(n).into(), 1).expect("room in the line");
        let (first, second) = (wait(1).await, wait(2).await);
        let (mut other, mut again) = (std::pin::pin!(wait(3)), std::pin::pin!(wait(1)));
        assert!(other.as_mut().now_or_never().is_none() && again.as_mut().now_or_never().is_none());
        assert!(limit.acquire(tenant(1).into(), 1).is_none(), "one waits already");
        drop(second);
        assert!(again.as_mut().now_or_never().is_none(), "its share is taken");
        let third = other.await;
        assert!(again.as_mut().now_or_never().is_none(), "all are taken");
        drop(first);
        drop((again.await, third));
        assert!(has_all(&limit, 2));
    }

    /// One waiter is woken per permit, in order of arrival; one that left the queue delays no other.
    #[tokio::test]
    async fn whoever_came_first_is_served_first_and_nobody_else_is_woken() {
        let limit = ShareLimit::new(4, 1);
        let held = limit.try_acquire(tenant(1)).expect("a permit");
        let order = Arc::<Mutex<Vec<usize>>>::default();
        let polls = Arc::<AtomicUsize>::default();
        let mut waiting: Vec<_> = (0..100)
            .map(|number| {
                let wait = limit.acquire(tenant(1).into(), 200).expect("room in the line");
                let (order, polls) = (Arc::clone(&order), Arc::clone(&polls));
                let mut wait = Box::pin(wait);
                tokio::spawn(std::future::poll_fn(move |context| {
                    polls.fetch_add(1, Ordering::SeqCst);
                    wait.as_mut().poll(context).map(|permit| {
                        order.lock().expect("the order").push(number);
                        drop(permit);
                    })
                }))
            })
            .collect();
        while polls.load(Ordering::SeqCst) < 100 {
            tokio::task::yield_now().await;
        }
        waiting.remove(7).abort();
        tokio::task::yield_now().await;
        drop(held);
        for done in waiting {
            done.await.expect("a permit");
        }
        let expected: Vec<_> = (0..100).filter(|number| *number != 7).collect();
        assert_eq!(*order.lock().expect("the order"), expected);
        assert!(polls.load(Ordering::SeqCst) <= 200, "{polls:?}");
        assert!(has_all(&limit, 4));
    }

    #[test]
    fn one_tenant_has_a_part_and_all_together_no_more_than_there_are() {
        let limit = ShareLimit::new(5, 2);
        let mut held: Vec<_> = (0..4).map(|n| limit.try_acquire(tenant(n / 2)).expect("a permit")).collect();
        assert!(limit.try_acquire(tenant(0)).is_none(), "its share is taken");
        held.push(limit.try_acquire(tenant(2)).expect("the last permit"));
        assert!(limit.try_acquire(tenant(3)).is_none(), "none is left");
        held.remove(0);
        held.push(limit.try_acquire(tenant(0)).expect("what was given back"));
        held.clear();
        assert!(has_all(&limit, 5));
    }

    /// R2: a few tenants that take all they may leave some to others, who take one each.
    #[test]
    fn r2_a_few_shares_cannot_take_all_permits() {
        let limit = ShareLimit::with_reserve(12, 4, 4, 4);
        let held: Vec<_> = (0..30).filter_map(|n| limit.try_acquire(tenant(n % 3))).collect();
        assert_eq!(held.len(), 8);
        assert!(!(0..4).any(|n| limit.is_used_up(&tenant(n))), "each waits for others");
        let others: Vec<_> = (3..30).filter_map(|n| limit.try_acquire(tenant(n))).collect();
        assert_eq!(others.len(), 4);
        drop(others);
        drop(held);
        assert!(has_all(&limit, 12));
    }

    /// R2: however many tenants have a batch, most permits are for what is small.
    #[tokio::test]
    async fn r2_large_turns_leave_permits_to_small_ones() {
        let limit = ShareLimit::with_reserve(12, 4, 4, 4);
        let acquire = |n, rows| Box::pin(limit.acquire(Turn::from(tenant(n)).of_rows(rows), 9).expect("room"));
        let large: Vec<_> = (0..40).map(|n| acquire(n, 100).now_or_never()).collect();
        let mut held: Vec<_> = large.into_iter().flatten().collect();
        assert_eq!(held.len(), 4);
        let mut more: Vec<_> = (40..80).map(|n| acquire(n, 100)).collect();
        let small: Vec<_> = (80..88).map(|n| acquire(n, 1).now_or_never().expect("a permit")).collect();
        let mut last = acquire(88, 1);
        assert!((&mut last).now_or_never().is_none(), "all are taken");
        held.pop();
        last.now_or_never().expect("before any of the large ones");
        let next: Vec<_> = more.iter_mut().filter_map(FutureExt::now_or_never).collect();
        assert_eq!(next.len(), 1);
        drop((held, small, next, more));
        assert!(has_all(&limit, 12));
    }

    /// A waiter of a share that holds a permit is passed over while only the reserve is left.
    #[tokio::test]
    async fn a_share_without_a_permit_is_served_first_from_the_reserve() {
        let limit = ShareLimit::with_reserve(2, 2, 1, 2);
        let held = limit.try_acquire(tenant(1)).expect("a permit");
        let mut more = Box::pin(limit.acquire(tenant(1).into(), 2).expect("room"));
        assert!((&mut more).now_or_never().is_none(), "the last is for others");
        drop(limit.acquire(tenant(2).into(), 2).expect("room").await);
        assert!((&mut more).now_or_never().is_none());
        drop(held);
        drop(more.await);
        assert!(has_all(&limit, 2));
    }

    /// A permit is given up only for a share that has none, and goes to it however many others came first, also if it was
    /// the only one of its share.
    #[tokio::test]
    async fn a_permit_is_given_to_a_share_without_one() {
        let limit = ShareLimit::new(1, 1);
        let wait = |n| Box::pin(limit.acquire(tenant(n).into(), 4).expect("room"));
        let (mut only, mut again) = (wait(1).await, wait(1));
        assert!((&mut again).now_or_never().is_none());
        let mut other = wait(2);
        assert!((&mut other).now_or_never().is_none() && only.give_up());
        assert!((&mut again).now_or_never().is_none());
        drop(other.now_or_never().expect("the permit"));
        drop(again.await);
        assert!(has_all(&limit, 1));

        let limit = ShareLimit::new(3, 2);
        let wait = |n| Box::pin(limit.acquire(tenant(n).into(), 4).expect("room"));
        let (mut held, mut other) = (wait(1).await, [wait(1).await, wait(2).await]);
        let mut second = wait(2);
        assert!((&mut second).now_or_never().is_none() && !held.give_up(), "both have permits");
        drop(wait(3));
        assert!(!held.give_up(), "it has gone");
        let mut first = wait(3);
        assert!((&mut first).now_or_never().is_none());
        assert!(!other[1].give_up(), "another share has more");
        assert!(held.give_up() && !held.give_up());
        let first = first.now_or_never().expect("the permit");
        assert!((&mut second).now_or_never().is_none());
        drop(held);
        assert!((&mut second).now_or_never().is_none(), "it was given back once");
        drop((first, other));
        drop(second.await);
        assert!(has_all(&limit, 3));

        let limit = ShareLimit::with_reserve(2, 2, 0, 1);
        let wait = |n, rows| Box::pin(limit.acquire(Turn::from(tenant(n)).of_rows(rows), 4).expect("room"));
        let (mut large, mut small) = (wait(1, 100).await, wait(2, 1).await);
        let mut other = wait(3, 100);
        assert!((&mut other).now_or_never().is_none() && !small.give_up(), "a large turn cannot have this one");
        assert!(large.give_up());
        drop((other.now_or_never().expect("the permit"), small));
        assert!(has_all(&limit, 2));
    }

    /// R2: a caller that gets no permit in time is told whose are used up.
    #[tokio::test(start_paused = true)]
    async fn r2_a_refusal_says_whose_permits_are_used_up() {
        let limit = ShareLimit::with_reserve(3, 2, 1, 3);
        let wait = |n, line| {
            let limit = Arc::clone(&limit);
            async move {
                let end = Instant::now() + std::time::Duration::from_secs(1);
                limit.acquire_until(tenant(n).into(), line, end).await.map(drop)
            }
        };
        let held: Vec<_> = (0..2).map(|_| limit.try_acquire(tenant(1)).expect("a permit")).collect();
        assert_eq!(wait(1, 1).await, Err(UsedUp::Own));
        assert_eq!(wait(1, 0).await, Err(UsedUp::Own), "no room in its line");
        assert_eq!(wait(2, 1).await, Ok(()), "the reserve");
        let last = limit.try_acquire(tenant(2)).expect("the reserve");
        assert_eq!(wait(2, 1).await, Err(UsedUp::All), "it has one of two");
        assert_eq!(wait(3, 1).await, Err(UsedUp::All));
        let (first, second) = tokio::join!(wait(3, 2), wait(3, 2));
        assert_eq!((first, second), (Err(UsedUp::All), Err(UsedUp::Own)), "behind its own");
        drop((held, last));
        assert_eq!(wait(3, 1).await, Ok(()));
        assert!(has_all(&limit, 3));
    }

    #[tokio::test]
    async fn shares_take_turns_and_whoever_has_gone_takes_no_room() {
        let limit = ShareLimit::new(2, 2);
        let wait = |n| limit.acquire(tenant(n).into(), 2);
        let held = [limit.try_acquire(tenant(1)), limit.try_acquire(tenant(1))];
        let (first, gone, other) = (wait(1).expect("room"), wait(1).expect("room"), wait(2).expect("room"));
        assert!(wait(1).is_none(), "two wait already");
        drop(gone);
        let last = wait(1).expect("the place of the one that has gone");
        drop(held);
        let first = first.now_or_never().expect("a permit");
        let other = other.now_or_never().expect("its turn comes before the first one's next");
        let mut last = Box::pin(last);
        assert!((&mut last).now_or_never().is_none(), "all are taken");
        drop(first);
        drop((last.now_or_never().expect("what was given back"), other));
        assert!(has_all(&limit, 2));
    }
}

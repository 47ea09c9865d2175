//! A concurrency limit with a share for each tenant, so that one whose name servers hang keeps nobody else from being
//! served.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deeplink_core::id::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits how much is done at one time, overall and for each tenant.
#[derive(Debug)]
pub(crate) struct TenantLimit {
    all: Arc<Semaphore>,
    per_tenant: usize,
    tenants: Mutex<HashMap<TenantId, Tenant>>,
}

/// A tenant that has a permit or waits for one.
#[derive(Debug)]
struct Tenant {
    share: Arc<Semaphore>,
    /// Permits, and those who wait for one.
    users: usize,
}

/// A permit, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    // Given back in this order.
    _all: OwnedSemaphorePermit,
    _share: OwnedSemaphorePermit,
    _user: User,
}

/// One who has a permit or waits for one.
#[derive(Debug)]
struct User {
    limit: Arc<TenantLimit>,
    tenant: TenantId,
    share: Arc<Semaphore>,
}

impl TenantLimit {
    /// At most `all` permits at one time, of which one tenant has at most `per_tenant`.
    pub(crate) fn new(all: usize, per_tenant: usize) -> Arc<Self> {
        Arc::new(Self { all: Arc::new(Semaphore::new(all)), per_tenant, tenants: Mutex::default() })
    }

    /// A permit for this tenant, if there is one now.
    pub(crate) fn try_acquire(self: &Arc<Self>, tenant: &TenantId) -> Option<Permit> {
        let user = self.enter(tenant, 0)?;
        let share = Arc::clone(&user.share).try_acquire_owned().ok()?;
        let all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Permit { _all: all, _share: share, _user: user })
    }

    /// A permit as soon as there is one for this tenant: first come, first served, among the tenant's own and among all
    /// tenants whose share is not used up. `None`, at once, if the tenant's queue is full.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        tenant: &TenantId,
        waiting: usize,
    ) -> Option<impl Future<Output = Permit> + use<>> {
        let user = self.enter(tenant, waiting)?;
        let all = Arc::clone(&self.all);
        Some(async move {
            loop {
                // They are never closed.
                let Ok(share) = Arc::clone(&user.share).acquire_owned().await else { continue };
                let Ok(all) = Arc::clone(&all).acquire_owned().await else { continue };
                return Permit { _all: all, _share: share, _user: user };
            }
        })
    }

    fn enter(self: &Arc<Self>, tenant: &TenantId, waiting: usize) -> Option<User> {
        let mut tenants = self.tenants();
        let entry = tenants
            .entry(tenant.clone())
            .or_insert_with(|| Tenant { share: Arc::new(Semaphore::new(self.per_tenant)), users: 0 });
        if entry.users >= self.per_tenant + waiting {
            return None;
        }
        entry.users += 1;
        Some(User { limit: Arc::clone(self), tenant: tenant.clone(), share: Arc::clone(&entry.share) })
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<TenantId, Tenant>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Entry::Occupied(mut tenant) = self.limit.tenants().entry(self.tenant.clone()) {
            tenant.get_mut().users -= 1;
            if tenant.get().users == 0 {
                tenant.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;

    use super::*;

    fn tenant(n: u32) -> TenantId {
        format!("tnt_{n:024x}").parse().expect("an id")
    }

    #[tokio::test]
    async fn who_waits_gets_the_permit_that_is_given_back() {
        let limit = TenantLimit::new(2, 1);
        let wait = |n| limit.acquire(&tenant(n), 1).expect("room in the line");
        let (first, second) = (wait(1).await, wait(2).await);
        let (mut other, mut again) = (std::pin::pin!(wait(3)), std::pin::pin!(wait(1)));
        assert!(other.as_mut().now_or_never().is_none() && again.as_mut().now_or_never().is_none());
        assert!(limit.acquire(&tenant(1), 1).is_none(), "one waits already");
        drop(second);
        assert!(again.as_mut().now_or_never().is_none(), "its share is taken");
        let third = other.await;
        assert!(again.as_mut().now_or_never().is_none(), "all are taken");
        drop(first);
        drop((again.await, third));
        assert!(limit.tenants().is_empty() && limit.all.available_permits() == 2);
    }

    /// One is woken for each permit, in order of arrival; one that left the queue delays nobody.
    #[tokio::test]
    async fn whoever_came_first_is_served_first_and_nobody_else_is_woken() {
        let limit = TenantLimit::new(4, 1);
        let held = limit.try_acquire(&tenant(1)).expect("a permit");
        let order = Arc::<Mutex<Vec<usize>>>::default();
        let polls = Arc::<AtomicUsize>::default();
        let mut waiting: Vec<_> = (0..100)
            .map(|number| {
                let wait = limit.acquire(&tenant(1), 200).expect("room in the line");
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
        assert!(limit.tenants().is_empty() && limit.all.available_permits() == 4);
    }

    #[test]
    fn one_tenant_has_a_part_and_all_together_no_more_than_there_are() {
        let limit = TenantLimit::new(5, 2);
        let mut held: Vec<_> = (0..4).map(|n| limit.try_acquire(&tenant(n / 2)).expect("a permit")).collect();
        assert!(limit.try_acquire(&tenant(0)).is_none(), "its share is taken");
        held.push(limit.try_acquire(&tenant(2)).expect("the last permit"));
        assert!(limit.try_acquire(&tenant(3)).is_none(), "none is left");
        held.remove(0);
        held.push(limit.try_acquire(&tenant(0)).expect("what was given back"));
        held.clear();
        assert!(limit.tenants().is_empty() && limit.all.available_permits() == 5);
    }
}

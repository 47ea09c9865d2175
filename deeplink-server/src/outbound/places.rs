//! Places for calls that somebody waits for: so many at once, and of one tenant only a part, so that one whose name
//! servers hang keeps nobody else from being served.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deeplink_core::id::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places, and who has them.
#[derive(Debug)]
pub(crate) struct Places {
    all: Arc<Semaphore>,
    of_one: usize,
    tenants: Mutex<HashMap<TenantId, Tenant>>,
}

/// A tenant that has a place or waits for one.
#[derive(Debug)]
struct Tenant {
    part: Arc<Semaphore>,
    /// Places, and those who wait for one.
    users: usize,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    // Given back in this order.
    _all: OwnedSemaphorePermit,
    _part: OwnedSemaphorePermit,
    _user: User,
}

/// One who has a place or waits for one.
#[derive(Debug)]
struct User {
    places: Arc<Places>,
    tenant: TenantId,
    part: Arc<Semaphore>,
}

impl Places {
    /// So many places, of which one tenant can have a part.
    pub(crate) fn new(all: usize, of_one: usize) -> Arc<Self> {
        Arc::new(Self { all: Arc::new(Semaphore::new(all)), of_one, tenants: Mutex::default() })
    }

    /// Takes a place if there is one for this tenant. Nobody waits for one.
    pub(crate) fn take(self: &Arc<Self>, tenant: &TenantId) -> Option<Place> {
        let user = self.enter(tenant, 0)?;
        let part = Arc::clone(&user.part).try_acquire_owned().ok()?;
        let all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Place { _all: all, _part: part, _user: user })
    }

    /// A place as soon as there is one for this tenant: whoever came first, first, among the tenant's own and among all
    /// whose part is not taken. `None`, at once, if so many of the tenant's wait already.
    pub(crate) fn wait(
        self: &Arc<Self>,
        tenant: &TenantId,
        waiting: usize,
    ) -> Option<impl Future<Output = Place> + use<>> {
        let user = self.enter(tenant, waiting)?;
        let all = Arc::clone(&self.all);
        Some(async move {
            loop {
                // They are never closed.
                let Ok(part) = Arc::clone(&user.part).acquire_owned().await else { continue };
                let Ok(all) = Arc::clone(&all).acquire_owned().await else { continue };
                return Place { _all: all, _part: part, _user: user };
            }
        })
    }

    fn enter(self: &Arc<Self>, tenant: &TenantId, waiting: usize) -> Option<User> {
        let mut tenants = self.tenants();
        let entry = tenants
            .entry(tenant.clone())
            .or_insert_with(|| Tenant { part: Arc::new(Semaphore::new(self.of_one)), users: 0 });
        if entry.users >= self.of_one + waiting {
            return None;
        }
        entry.users += 1;
        Some(User { places: Arc::clone(self), tenant: tenant.clone(), part: Arc::clone(&entry.part) })
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<TenantId, Tenant>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Entry::Occupied(mut tenant) = self.places.tenants().entry(self.tenant.clone()) {
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
    async fn who_waits_gets_the_place_that_is_given_back() {
        let places = Places::new(2, 1);
        let wait = |n| places.wait(&tenant(n), 1).expect("room in the line");
        let (first, second) = (wait(1).await, wait(2).await);
        let (mut other, mut again) = (std::pin::pin!(wait(3)), std::pin::pin!(wait(1)));
        assert!(other.as_mut().now_or_never().is_none() && again.as_mut().now_or_never().is_none());
        assert!(places.wait(&tenant(1), 1).is_none(), "one waits already");
        drop(second);
        assert!(again.as_mut().now_or_never().is_none(), "its part is taken");
        let third = other.await;
        assert!(again.as_mut().now_or_never().is_none(), "all are taken");
        drop(first);
        drop((again.await, third));
        assert!(places.tenants().is_empty() && places.all.available_permits() == 2);
    }

    /// One is woken for each place, and it is the one who came first; whoever left the line holds nobody up.
    #[tokio::test]
    async fn whoever_came_first_is_served_first_and_nobody_else_is_woken() {
        let places = Places::new(4, 1);
        let held = places.take(&tenant(1)).expect("a place");
        let order = Arc::<Mutex<Vec<usize>>>::default();
        let polls = Arc::<AtomicUsize>::default();
        let mut waiting: Vec<_> = (0..100)
            .map(|number| {
                let wait = places.wait(&tenant(1), 200).expect("room in the line");
                let (order, polls) = (Arc::clone(&order), Arc::clone(&polls));
                let mut wait = Box::pin(wait);
                tokio::spawn(std::future::poll_fn(move |context| {
                    polls.fetch_add(1, Ordering::SeqCst);
                    wait.as_mut().poll(context).map(|place| {
                        order.lock().expect("the order").push(number);
                        drop(place);
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
            done.await.expect("a place");
        }
        let expected: Vec<_> = (0..100).filter(|number| *number != 7).collect();
        assert_eq!(*order.lock().expect("the order"), expected);
        assert!(polls.load(Ordering::SeqCst) <= 200, "{polls:?}");
        assert!(places.tenants().is_empty() && places.all.available_permits() == 4);
    }

    #[test]
    fn one_tenant_has_a_part_and_all_together_no_more_than_there_are() {
        let places = Places::new(5, 2);
        let mut held: Vec<_> = (0..4).map(|n| places.take(&tenant(n / 2)).expect("a place")).collect();
        assert!(places.take(&tenant(0)).is_none(), "its part is taken");
        held.push(places.take(&tenant(2)).expect("the last place"));
        assert!(places.take(&tenant(3)).is_none(), "there is no place left");
        held.remove(0);
        held.push(places.take(&tenant(0)).expect("what was given back"));
        held.clear();
        assert!(places.tenants().is_empty() && places.all.available_permits() == 5);
    }
}

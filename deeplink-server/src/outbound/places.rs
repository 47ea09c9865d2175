//! Places for calls that somebody waits for: so many at once, and of one tenant only a part, so that one whose name
//! servers hang keeps nobody else from being served.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deeplink_core::id::TenantId;
use tokio::sync::Notify;

/// Places, and who has them.
#[derive(Debug)]
pub(crate) struct Places {
    all: usize,
    of_one: usize,
    taken: Mutex<Taken>,
    /// Tells those that wait that a place was given back.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_tenant: HashMap<TenantId, usize>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    tenant: TenantId,
}

impl Places {
    /// So many places, of which one tenant can have a part.
    pub(crate) fn new(all: usize, of_one: usize) -> Arc<Self> {
        Arc::new(Self { all, of_one, taken: Mutex::default(), freed: Notify::new() })
    }

    /// Takes a place if there is one for this tenant. Nobody waits for one.
    pub(crate) fn take(self: &Arc<Self>, tenant: &TenantId) -> Option<Place> {
        let mut taken = self.taken();
        let of_tenant = taken.by_tenant.get(tenant).copied().unwrap_or(0);
        if taken.all >= self.all || of_tenant >= self.of_one {
            return None;
        }
        taken.all += 1;
        taken.by_tenant.insert(tenant.clone(), of_tenant + 1);
        drop(taken);
        Some(Place { places: Arc::clone(self), tenant: tenant.clone() })
    }

    /// Takes a place as soon as there is one for this tenant.
    pub(crate) async fn wait(self: &Arc<Self>, tenant: &TenantId) -> Place {
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            // From here on no place that is given back goes unnoticed.
            freed.as_mut().enable();
            if let Some(place) = self.take(tenant) {
                return place;
            }
            freed.await;
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        if let Entry::Occupied(mut of_tenant) = taken.by_tenant.entry(self.tenant.clone()) {
            *of_tenant.get_mut() -= 1;
            if *of_tenant.get() == 0 {
                of_tenant.remove();
            }
        }
        drop(taken);
        self.places.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn tenant(n: u32) -> TenantId {
        format!("tnt_{n:024x}").parse().expect("an id")
    }

    #[tokio::test]
    async fn who_waits_gets_the_place_that_is_given_back() {
        let places = Places::new(2, 1);
        let (first, second) = (places.wait(&tenant(1)).await, places.wait(&tenant(2)).await);
        let (one, three) = (tenant(1), tenant(3));
        let mut other = std::pin::pin!(places.wait(&three));
        let mut again = std::pin::pin!(places.wait(&one));
        assert!(other.as_mut().now_or_never().is_none() && again.as_mut().now_or_never().is_none());
        drop(second);
        assert!(again.as_mut().now_or_never().is_none(), "its part is taken");
        let third = other.await;
        assert!(again.as_mut().now_or_never().is_none(), "all are taken");
        drop(first);
        drop((again.await, third));
        assert_eq!(places.taken().all, 0);
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
        assert!(places.taken().by_tenant.is_empty() && places.taken().all == 0);
    }
}

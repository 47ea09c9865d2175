//! The share that one address has of what all clients share: connections, memory for answers that it does not read, and
//! memory for bodies of unknown callers.
//!
//! An address is an IPv4 address or the /64 of an IPv6 one. Those of one IPv6 /48 also have a share together; those of one
//! IPv4 /24, whose clients may have nothing to do with each other, only of the memory for answers. Trusted proxies have no
//! share of their own, because their connections carry the requests of many clients.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use ipnet::IpNet;

use super::Limits;
use super::deadline::lock;
use super::unread::Counter;
use crate::http::client_ip::{is_trusted, limit_key, network};
use crate::shares::budget::{Used, UsedBy};

/// What the connections of one address have in common.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// Open connections; not counted for trusted proxies.
    open: AtomicUsize,
    /// Bytes of answers that the address has not accepted yet.
    pub(super) unread: Counter,
    /// The same of all addresses of its site, if that is limited too.
    pub(super) unread_of_site: Option<Arc<Used>>,
    /// Bytes of request bodies.
    pub(crate) bodies: UsedBy,
    /// Bytes of requests in progress: of strangers without a body, and all others.
    pub(super) visits: UsedBy,
    pub(super) heads: UsedBy,
    /// A reverse proxy, or several: nothing is limited by it.
    pub(crate) is_trusted: bool,
}

impl Share {
    /// The share of trusted proxies.
    pub(crate) fn of_proxies() -> Self {
        Self { is_trusted: true, ..Self::default() }
    }

    /// The share of an address that belongs to this site.
    pub(super) fn of(site: &OfSite, address: IpAddr) -> Self {
        let share = Self { unread_of_site: Some(Arc::clone(&site.unread)), ..Self::default() };
        if address.is_ipv4() {
            return share;
        }
        let [bodies, visits, heads] = [&site.bodies, &site.visits, &site.heads]
            .map(|site| UsedBy { site: Some(Arc::clone(site)), ..UsedBy::default() });
        Self { bodies, visits, heads, ..share }
    }

    /// How many connections of the address are open; 0 for trusted proxies.
    pub(super) fn open(&self) -> usize {
        self.open.load(Relaxed)
    }
}

#[derive(Debug, Default)]
struct Open {
    addresses: HashMap<IpAddr, Arc<Share>>,
    /// What the connections of each site have in common.
    sites: HashMap<IpNet, Site>,
}

#[derive(Debug, Default)]
struct Site {
    /// Open connections.
    open: usize,
    used: OfSite,
}

#[derive(Debug, Default)]
pub(super) struct OfSite {
    pub(super) unread: Arc<Used>,
    bodies: Arc<Used>,
    visits: Arc<Used>,
    heads: Arc<Used>,
}

/// The open connections by address.
#[derive(Debug)]
pub(super) struct Addresses {
    open: Mutex<Open>,
    /// Maximum connections of one address.
    most: usize,
    /// Maximum connections of one IPv6 site.
    most_of_site: usize,
    trusted: Vec<IpNet>,
    of_proxies: Arc<Share>,
}

/// One connection of an address, until it is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    addresses: Arc<Addresses>,
    address: IpAddr,
    pub(super) share: Arc<Share>,
}

impl Addresses {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            most: limits.connections_per_address(),
            most_of_site: limits.connections_per_site(),
            trusted: limits.trusted.clone(),
            of_proxies: Arc::new(Share::of_proxies()),
        })
    }

    /// Counts a connection; `None` if its address or site has used up its share.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Entry> {
        let address = limit_key(peer);
        let share = if is_trusted(peer.to_canonical(), &self.trusted) {
            Arc::clone(&self.of_proxies)
        } else {
            let mut open = lock(&self.open);
            let Open { addresses, sites } = &mut *open;
            // Changed only under the lock.
            let is_full = addresses.get(&address).is_some_and(|share| share.open() >= self.most);
            let net = network(address);
            let of_site = sites.get(&net).map_or(0, |site| site.open);
            if is_full || address.is_ipv6() && of_site >= self.most_of_site {
                return None;
            }
            let site = sites.entry(net).or_default();
            site.open += 1;
            let share = addresses.entry(address).or_insert_with(|| Arc::new(Share::of(&site.used, address)));
            share.open.fetch_add(1, Relaxed);
            Arc::clone(share)
        };
        Some(Entry { addresses: Arc::clone(self), address, share })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.share.is_trusted {
            return;
        }
        let mut open = lock(&self.addresses.open);
        if self.share.open.fetch_sub(1, Relaxed) == 1 {
            open.addresses.remove(&self.address);
        }
        let site = network(self.address);
        match open.sites.get_mut(&site) {
            Some(site) if site.open > 1 => site.open -= 1,
            _ => drop(open.sites.remove(&site)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> Arc<Addresses> {
        let trusted = ["10.0.0.0/8", "2001:db8:ffff::/48"].map(|net| net.parse().unwrap()).to_vec();
        Addresses::new(&Limits { connections: 16, trusted, ..Limits::default() })
    }

    /// One address has at most an eighth of the connections: an IPv4 address by itself, however it is written, and all
    /// addresses of an IPv6 /64 together. Trusted proxies may have all of them.
    #[test]
    fn r6_the_share_of_an_address() {
        let addresses = addresses();
        let enter = |peer: &str| addresses.enter(peer.parse().unwrap());
        for same in [
            ["203.0.113.9", "203.0.113.9", "::ffff:203.0.113.9"],
            ["2001:db8:1:2::1", "2001:db8:1:2:ffff::", "2001:db8:1:2:3:4:5:6"],
        ] {
            let first = enter(same[0]).expect("a place");
            let second = enter(same[1]).expect("a second place");
            assert!(enter(same[2]).is_none(), "a third place for {}", same[2]);
            drop(first);
            assert!(enter(same[2]).is_some(), "no place for {}, though one is free", same[2]);
            drop(second);
        }
        let neighbours = ["203.0.113.10", "2001:db8:1:3::1"].map(|peer| [enter(peer), enter(peer)]);
        assert!(neighbours.iter().flatten().all(Option::is_some));
        for proxy in ["10.1.2.3", "::ffff:10.1.2.3", "2001:db8:ffff::1"] {
            let entries: Vec<_> = (0..20).map(|_| enter(proxy)).collect();
            assert!(entries.iter().all(Option::is_some), "{proxy}");
        }
    }

    /// All /64s of one IPv6 /48 together have at most a quarter of the connections.
    #[test]
    fn r6_the_share_of_a_site() {
        let addresses = addresses();
        let enter = |net: u16| addresses.enter(format!("2001:db8:1:{net:x}::1").parse().unwrap());
        let mut entries: Vec<_> = (0..4).map(|net| enter(net).expect("a place")).collect();
        assert!(enter(4).is_none(), "a fifth of 16 places");
        for other in ["2001:db8:2::1", "203.0.113.1"] {
            assert!(addresses.enter(other.parse().unwrap()).is_some(), "{other}");
        }
        let net: Vec<_> = (0..6).map(|last| addresses.enter([198, 51, 100, last].into())).collect();
        assert!(net.iter().all(Option::is_some), "neighbours in an IPv4 /24 may be strangers");
        let own = |share: &Share| share.bodies.site.is_none() && share.visits.site.is_none();
        assert!(net.iter().flatten().all(|entry| own(&entry.share)) && !entries.iter().any(|entry| own(&entry.share)));
        entries.pop();
        assert!(enter(4).is_some(), "a place is free again");
    }

    /// Connections that have ended leave nothing behind.
    #[test]
    fn addresses_without_connections_are_forgotten() {
        let addresses = addresses();
        let entries: Vec<_> = (0..200)
            .flat_map(|last| {
                [IpAddr::from([203, 0, 113, last]), IpAddr::from([0x2001, 0xdb8, last.into(), 0, 0, 0, 0, 1])]
            })
            .map(|address| addresses.enter(address).unwrap())
            .collect();
        let known = || {
            let open = lock(&addresses.open);
            (open.addresses.len(), open.sites.len())
        };
        assert_eq!(known(), (400, 201));
        drop(entries);
        assert_eq!(known(), (0, 0));
    }
}

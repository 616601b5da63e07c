//! How many connections there are, in all and of each address, and the caps on both.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::net::{TrustedProxies, subscriber_network};

/// Open files that are not for clients' connections: stores, logs, files of the journal, refusals under way.
const RESERVED_FILES: u64 = 256;

/// How often the log says that an address has reached its cap.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The caps on connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionLimits {
    /// Of the process.
    pub connections: Option<usize>,
    /// Of one address, or of one /64 network of IPv6.
    pub per_address: Option<usize>,
}

/// How many connections a process can serve with that many open files, of which `stores` go to connections to the
/// stores.
pub fn connections_for(open_files: u64, stores: usize) -> usize {
    let reserved = RESERVED_FILES.saturating_add(u64::try_from(stores).unwrap_or(u64::MAX));
    // However few there are, half of them are for clients.
    usize::try_from(open_files - reserved.min(open_files / 2)).unwrap_or(usize::MAX)
}

/// The connections of a listener.
#[derive(Debug)]
pub struct ConnectionCounts {
    limits: ConnectionLimits,
    trusted: Arc<TrustedProxies>,
    counts: Mutex<ConnectionTotals>,
}

#[derive(Debug, Default)]
struct ConnectionTotals {
    all: usize,
    by_network: HashMap<IpAddr, usize>,
    warned_at: Option<Instant>,
}

/// A connection was refused because of a cap: the key that sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapReached(pub &'static str);

impl ConnectionCounts {
    /// No connections yet. Limits by address exempt loopback and trusted proxies.
    pub fn new(limits: ConnectionLimits, trusted: Arc<TrustedProxies>) -> Arc<Self> {
        Arc::new(Self { limits, trusted, counts: Mutex::default() })
    }

    /// ConnectionTotals a connection for as long as the slot lives.
    ///
    /// # Errors
    /// If the process has as many as it may.
    pub fn open(self: &Arc<Self>) -> Result<ConnectionSlot, CapReached> {
        let mut counts = self.counts.lock();
        if self.limits.connections.is_some_and(|limit| counts.all >= limit) {
            return Err(CapReached("connections"));
        }
        counts.all += 1;
        Ok(ConnectionSlot { owner: Arc::clone(self), network: Mutex::new(None) })
    }

    fn count_address(&self, address: IpAddr) -> Result<IpAddr, CapReached> {
        let network = subscriber_network(address);
        let mut counts = self.counts.lock();
        let held = counts.by_network.get(&network).copied().unwrap_or_default();
        if let Some(limit) = self.limits.per_address.filter(|limit| held >= *limit) {
            let now = Instant::now();
            if counts.warned_at.is_none_or(|at| now.duration_since(at) >= WARN_EVERY) {
                counts.warned_at = Some(now);
                tracing::warn!(
                    %network,
                    limit,
                    "an address has reached server.connections_per_address; \
                     if it is a proxy, list it in server.trusted_proxies"
                );
            }
            return Err(CapReached("connections_per_address"));
        }
        counts.by_network.insert(network, held + 1);
        Ok(network)
    }
}

/// One connection's place in the counts.
#[derive(Debug)]
pub struct ConnectionSlot {
    owner: Arc<ConnectionCounts>,
    /// What it counts for, once the client's address is known.
    network: Mutex<Option<IpAddr>>,
}

impl ConnectionSlot {
    /// ConnectionTotals the connection for its client's address, unless it has been already or the address is exempt.
    ///
    /// # Errors
    /// If the address has as many as it may.
    pub fn assign(&self, client: IpAddr) -> Result<(), CapReached> {
        let mut network = self.network.lock();
        if network.is_none() && !self.owner.trusted.is_exempt(client) {
            *network = Some(self.owner.count_address(client)?);
        }
        Ok(())
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let network = self.network.get_mut().take();
        let mut counts = self.owner.counts.lock();
        counts.all -= 1;
        if let Some(network) = network
            && let Some(held) = counts.by_network.get_mut(&network)
        {
            *held -= 1;
            if *held == 0 {
                counts.by_network.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(connections: Option<usize>, per_address: Option<usize>) -> Arc<ConnectionCounts> {
        let trusted = TrustedProxies::parse(["10.0.0.0/8"]).expect("a network");
        ConnectionCounts::new(ConnectionLimits { connections, per_address }, Arc::new(trusted))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn slots_are_released() {
        let counts = counts(Some(2), None);
        let first = counts.open().unwrap();
        let _second = counts.open().unwrap();
        assert_eq!(counts.open().err(), Some(CapReached("connections")));
        drop(first);
        assert!(counts.open().is_ok());
    }

    #[test]
    fn addresses_and_ipv6_networks_are_limited() {
        for (one, same, other) in [
            ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
            ("2001:db8:1:2::7", "2001:db8:1:2:ffff::1", "2001:db8:1:3::7"),
        ] {
            let counts = counts(None, Some(2));
            let open = |address| {
                let slot = counts.open().expect("a slot");
                slot.assign(ip(address)).map(|()| slot)
            };
            let first = open(one).unwrap();
            first.assign(ip(one)).unwrap();
            let second = open(same).unwrap();
            assert_eq!(open(one).err(), Some(CapReached("connections_per_address")));
            let _other = open(other).unwrap();
            drop(first);
            let third = open(one).unwrap();
            assert!(open(same).is_err());
            drop((second, third));
            assert_eq!(counts.counts.lock().by_network.len(), 1, "nothing is kept of those that went");
            assert_eq!(counts.counts.lock().all, 1);
        }
    }

    #[test]
    fn loopback_and_trusted_proxies_are_not_counted() {
        let counts = counts(None, Some(1));
        for exempt in ["127.0.0.1", "::1", "10.1.2.3"] {
            let slots: Vec<ConnectionSlot> = (0..5).map(|_| counts.open().expect("a slot")).collect();
            assert!(slots.iter().all(|slot| slot.assign(ip(exempt)).is_ok()), "{exempt}");
        }
    }

    #[test]
    fn file_descriptors_are_left_for_the_stores() {
        assert_eq!(connections_for(1_048_576, 8), 1_048_312);
        assert_eq!(connections_for(1_024, 0), 768);
        assert_eq!(connections_for(400, 8), 200);
        assert_eq!(connections_for(u64::MAX, usize::MAX), usize::MAX / 2 + 1);
        assert_eq!(connections_for(0, 0), 0);
    }
}

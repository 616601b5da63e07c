//! Counts open connections, in total and by client address, and enforces the limits on both.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::net::{TrustedProxies, subscriber_network};

/// The number of file descriptors reserved for other uses: stores, logs, files of the journal, connections being
/// refused.
const RESERVED_FILES: u64 = 256;

/// The minimum interval between two warnings that an address has reached its limit.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Limits on the number of connections; `None`: no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionLimits {
    /// The maximum number of connections of the listener.
    pub connections: Option<usize>,
    /// The maximum number of connections of one IPv4 address or one IPv6 /64 network.
    pub per_address: Option<usize>,
}

/// The number of client connections that a process with this many file descriptors can serve. `stores` is the number of
/// connections to the stores.
pub fn connections_for(open_files: u64, stores: usize) -> usize {
    let reserved = RESERVED_FILES.saturating_add(u64::try_from(stores).unwrap_or(u64::MAX));
    // At least half of the descriptors serve clients.
    usize::try_from(open_files - reserved.min(open_files / 2)).unwrap_or(usize::MAX)
}

/// The open connections of a listener.
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

/// The error for a connection refused because of a limit: the name of the configuration key without its section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapReached(pub &'static str);

impl ConnectionCounts {
    /// Starts without connections. Loopback and trusted proxies are exempt from the limit by address.
    pub fn new(limits: ConnectionLimits, trusted: Arc<TrustedProxies>) -> Arc<Self> {
        Arc::new(Self { limits, trusted, counts: Mutex::default() })
    }

    /// Counts a connection until the slot is dropped.
    ///
    /// # Errors
    /// If the listener has its maximum number of connections.
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

/// A counted connection.
#[derive(Debug)]
pub struct ConnectionSlot {
    owner: Arc<ConnectionCounts>,
    /// The counted address or network; `None`: not known yet, or exempt.
    network: Mutex<Option<IpAddr>>,
}

impl ConnectionSlot {
    /// Counts the connection by its client's address, unless it is counted already or the address is exempt.
    ///
    /// # Errors
    /// If the address has its maximum number of connections.
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

//! Resolves the names of endpoints, and drops addresses that may not be contacted. The addresses that remain are those
//! that are connected to, so that a name that changes its address between a check and a connection gains nothing.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::endpoint::{EndpointError, EndpointPolicy};

/// The time within which a name has to be resolved.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of names that are resolved concurrently. Each occupies a thread of the runtime until the
/// system's resolver gives up, even if nobody waits for the result.
const MAX_CONCURRENT_LOOKUPS: usize = 32;

/// Finds the addresses of a name.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// All addresses of a name.
    ///
    /// # Errors
    /// If the name has no address, or the servers of DNS do not answer.
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the system.
#[derive(Debug)]
pub struct SystemLookup {
    permits: Arc<Semaphore>,
}

impl Default for SystemLookup {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_CONCURRENT_LOOKUPS)) }
    }
}

#[async_trait]
impl Lookup for SystemLookup {
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(io::Error::other)?;
        let name = name.to_owned();
        // A task of its own: the permit is held as long as the thread, also if the caller gives up.
        let lookup = tokio::spawn(async move {
            let addresses = tokio::net::lookup_host((name.as_str(), 0)).await.map(Vec::from_iter);
            drop(permit);
            addresses
        });
        let addresses = lookup.await.map_err(io::Error::other)??;
        Ok(addresses.into_iter().map(|address| address.ip()).collect())
    }
}

/// The resolver of a client of HTTP.
pub(super) struct GuardedResolver {
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) policy: Arc<EndpointPolicy>,
    /// Whether the client speaks TLS only. The other client reaches only the allowed networks.
    pub(super) tls: bool,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let lookup = Arc::clone(&self.lookup);
        let policy = Arc::clone(&self.policy);
        let tls = self.tls;
        Box::pin(async move {
            let found = timeout(LOOKUP_TIMEOUT, lookup.lookup(name.as_str()));
            let found = found.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            let permitted = found.into_iter().filter(|address| policy.permits(*address, tls));
            let permitted: Vec<SocketAddr> = permitted.map(|address| SocketAddr::new(address, 0)).collect();
            if permitted.is_empty() {
                return Err(EndpointError::ForbiddenAddress.into());
            }
            Ok(Box::new(permitted.into_iter()) as Addrs)
        })
    }
}

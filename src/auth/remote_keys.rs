//! The keys of an issuer that come from its JWKS endpoint: the current set, and the requests for a newer one. A task
//! outside of this module fetches them.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use super::jwks::KeySet;

/// How long keys are used after the last successful fetch.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);

/// How long a request waits for a key.
const KEY_TIMEOUT: Duration = Duration::from_secs(6);

/// The maximum number of requests that wait for keys of one issuer.
const MAX_WAITING: usize = 1_000;

/// The keys of one issuer.
#[derive(Debug)]
pub struct RemoteKeys {
    url: String,
    current: RwLock<Option<CurrentKeys>>,
    /// Woken when a request needs a key that is not in the set.
    wanted: Notify,
    fetches: watch::Sender<Fetches>,
    waiting: AtomicUsize,
}

#[derive(Clone, Debug)]
struct CurrentKeys {
    set: Arc<KeySet>,
    fetched_at: Instant,
}

/// Fetches so far. They are numbered from 1.
#[derive(Clone, Copy, Debug, Default)]
struct Fetches {
    /// The last one that began.
    begun: u64,
    /// The last one that ended.
    ended: u64,
    /// The last one that succeeded.
    succeeded: u64,
}

/// The result of waiting for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLookup {
    /// The set is up to date: it has the key, or the issuer has no such key.
    Current,
    /// The issuer could not be asked in time.
    Unavailable,
}

/// A key that the set of its issuer lacks.
#[derive(Clone, Debug)]
pub struct MissingKey {
    /// The issuers that the token may be of.
    pub(super) sources: Vec<Arc<RemoteKeys>>,
    pub(super) kid: String,
}

impl MissingKey {
    /// Waits until the keys are fetched again.
    pub async fn wait(&self) -> KeyLookup {
        let found = join_all(self.sources.iter().map(|source| source.wait_for(&self.kid))).await;
        let is_known = self.sources.iter().any(|source| source.has(&self.kid));
        if is_known || found.iter().all(|found| *found == KeyLookup::Current) {
            KeyLookup::Current
        } else {
            KeyLookup::Unavailable
        }
    }
}

impl RemoteKeys {
    /// The keys at an address: none yet.
    pub(super) fn new(url: String) -> Self {
        let fetches = watch::Sender::new(Fetches::default());
        Self { url, current: RwLock::new(None), wanted: Notify::new(), fetches, waiting: AtomicUsize::new(0) }
    }

    /// The address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The current keys; `None` if there are none, or they are too old.
    pub(super) fn keys(&self) -> Option<Arc<KeySet>> {
        let current = self.current.read();
        current.as_ref().filter(|keys| keys.fetched_at.elapsed() < MAX_AGE).map(|keys| Arc::clone(&keys.set))
    }

    pub(super) fn has(&self, kid: &str) -> bool {
        self.keys().is_some_and(|keys| keys.get(kid).is_some())
    }

    /// Waits until a request needs a newer set.
    pub fn wanted(&self) -> impl Future<Output = ()> + '_ {
        self.wanted.notified()
    }

    /// Begins a fetch.
    pub fn begin_fetch(&self) {
        self.fetches.send_modify(|fetches| fetches.begun += 1);
    }

    /// Ends a fetch. `None`: it failed, and the keys stay.
    pub fn end_fetch(&self, set: Option<KeySet>) {
        let succeeded = set.is_some();
        if let Some(set) = set {
            *self.current.write() = Some(CurrentKeys { set: Arc::new(set), fetched_at: Instant::now() });
        }
        self.fetches.send_modify(|fetches| {
            fetches.ended = fetches.begun;
            if succeeded {
                fetches.succeeded = fetches.begun;
            }
        });
    }

    /// Waits until the set has a key, or a fetch that began after this call shows that the issuer lacks it.
    async fn wait_for(&self, kid: &str) -> KeyLookup {
        let waiting = Waiting::new(&self.waiting);
        if waiting.before >= MAX_WAITING {
            return KeyLookup::Unavailable;
        }
        let deadline = Instant::now() + KEY_TIMEOUT;
        let mut fetches = self.fetches.subscribe();
        let before = fetches.borrow_and_update().begun;
        loop {
            if self.has(kid) {
                return KeyLookup::Current;
            }
            let Fetches { ended, succeeded, .. } = *fetches.borrow_and_update();
            if succeeded > before {
                return KeyLookup::Current;
            }
            if ended > before {
                return KeyLookup::Unavailable;
            }
            self.wanted.notify_one();
            if !matches!(timeout_at(deadline, fetches.changed()).await, Ok(Ok(()))) {
                return KeyLookup::Unavailable;
            }
        }
    }
}

/// Counts a waiting request.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        Self { count, before: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

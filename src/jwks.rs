//! Fetches the public keys of issuers (JWKS), for the verifier of tokens.
//!
//! A task for each issuer fetches its keys at the start, every ten minutes, and when a token names a key that is not
//! known: at most once every few seconds, however many tokens ask. A failed fetch keeps the keys, and delays the next
//! one. Sizes, numbers and times are bounded.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::Client;
use reqwest::redirect::Policy;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::auth::{KeySet, KeySetError, RemoteKeys, Verifier};
use crate::backoff::Backoff;
use crate::supervisor::supervise;

/// The time for one fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(3);

/// The largest document that is read.
const MAX_DOCUMENT_BYTES: usize = 256 * 1024;

/// The interval of fetches without a reason. A key that its issuer has removed is accepted for this long.
const REFRESH_INTERVAL: Duration = Duration::from_secs(600);

/// The shortest time between two fetches that succeed.
const MIN_INTERVAL: Duration = Duration::from_secs(2);

/// The delay after a failed fetch: the first, and the longest.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(15);

/// The tasks that fetch the keys of the issuers in use.
pub(crate) struct KeyFetchers {
    client: Client,
    /// Ends all of them.
    stopping: CancellationToken,
    running: Mutex<Vec<RunningFetcher>>,
}

/// A task, and what ends it.
struct RunningFetcher {
    keys: Arc<RemoteKeys>,
    stopping: CancellationToken,
}

impl KeyFetchers {
    /// No task, until a verifier is followed.
    ///
    /// # Errors
    /// If the HTTP client cannot be built.
    pub(crate) fn new(stopping: CancellationToken) -> anyhow::Result<Self> {
        let client = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(FETCH_TIMEOUT)
            .timeout(FETCH_TIMEOUT)
            .pool_max_idle_per_host(1)
            .build()?;
        Ok(Self { client, stopping, running: Mutex::default() })
    }

    /// Fetches the keys of this verifier, and no longer those that only an earlier one had.
    pub(crate) fn follow(&self, verifier: &Verifier) {
        let mut running = self.running.lock();
        running.retain(|fetcher| {
            let is_used = verifier.remote_keys().any(|keys| Arc::ptr_eq(keys, &fetcher.keys));
            if !is_used {
                fetcher.stopping.cancel();
            }
            is_used
        });
        for keys in verifier.remote_keys() {
            if running.iter().any(|fetcher| Arc::ptr_eq(keys, &fetcher.keys)) {
                continue;
            }
            let stopping = self.stopping.child_token();
            let fetcher = Arc::new(KeyFetcher { client: self.client.clone(), keys: Arc::clone(keys) });
            running.push(RunningFetcher { keys: Arc::clone(keys), stopping: stopping.clone() });
            tokio::spawn(async move {
                let fetching = supervise("jwks", &stopping, fetcher, |fetcher| async move { fetcher.run().await });
                stopping.run_until_cancelled(fetching).await
            });
        }
    }
}

/// Fetches the keys of one issuer.
struct KeyFetcher {
    client: Client,
    keys: Arc<RemoteKeys>,
}

/// Why keys could not be fetched.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("{0}")]
    Connection(String),
    #[error("no answer in time")]
    Timeout,
    #[error("status {0}")]
    Status(u16),
    #[error("the document is too large")]
    TooLarge,
    #[error("{0}")]
    Document(#[from] KeySetError),
}

impl KeyFetcher {
    async fn run(&self) {
        let mut delays = Backoff::new(FIRST_DELAY, MAX_DELAY);
        loop {
            self.keys.begin_fetch();
            let fetched = timeout(FETCH_TIMEOUT, self.fetch()).await.unwrap_or(Err(FetchError::Timeout));
            match fetched {
                Ok(set) => {
                    tracing::debug!(url = self.keys.url(), keys = set.len(), "fetched the keys of an issuer");
                    self.keys.end_fetch(Some(set));
                    delays.reset();
                    self.pause().await;
                }
                Err(error) => {
                    tracing::warn!(url = self.keys.url(), %error, "the keys of an issuer could not be fetched");
                    self.keys.end_fetch(None);
                    sleep(delays.next_delay()).await;
                }
            }
        }
    }

    /// Waits until the next fetch after a successful one.
    async fn pause(&self) {
        let jitter = rand::random_range(0.9..=1.1);
        let next = Instant::now() + REFRESH_INTERVAL.mul_f64(jitter);
        sleep(MIN_INTERVAL).await;
        // The end of the interval is as good a reason as a wanted key.
        let _ = timeout_at(next, self.keys.wanted()).await;
    }

    async fn fetch(&self) -> Result<KeySet, FetchError> {
        let failed = |error: reqwest::Error| match error.is_timeout() {
            true => FetchError::Timeout,
            false => FetchError::Connection(error.without_url().to_string()),
        };
        let request = self.client.get(self.keys.url()).header("accept", "application/json");
        let mut response = request.send().await.map_err(failed)?;
        if response.status() != 200 {
            return Err(FetchError::Status(response.status().as_u16()));
        }
        let mut document = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if document.len() + chunk.len() > MAX_DOCUMENT_BYTES {
                return Err(FetchError::TooLarge);
            }
            document.extend_from_slice(&chunk);
        }
        Ok(KeySet::parse(&document)?)
    }
}

//! The passwords of built-in accounts: argon2id, outside of the async runtime's threads.

use std::sync::Arc;
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{self, PasswordHasher, PasswordVerifier};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::text::nfc;

/// The maximum number of requests that wait for a free slot. Even a large machine serves fewer within [`PATIENCE`].
const WAITING: usize = 256;

/// How long a request waits for a free slot.
const PATIENCE: Duration = Duration::from_secs(5);

/// The result of verifying a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The password is correct.
    Right,
    /// The password is wrong, or the account does not exist.
    Wrong,
}

/// The reason why a password could not be hashed or verified.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// Too many requests are waiting. A later attempt may succeed.
    #[error("too many passwords are being looked at")]
    Busy,
    /// The stored text is not a valid hash, or hashing failed.
    #[error("a password could not be looked at: {0}")]
    Failed(String),
}

/// Hashes and verifies passwords. One hash takes 19 MiB and tens of milliseconds of a core. At most half of the cores
/// (but at least one) hash at the same time, so that the others keep serving. The number of waiting requests is
/// bounded.
#[derive(Clone, Debug)]
pub struct Passwords {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// How long a request waits for a free slot.
    patience: Duration,
}

impl Default for Passwords {
    fn default() -> Self {
        Self::new()
    }
}

impl Passwords {
    /// Hashes on at most half of the cores, and on at least one.
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            running: Arc::new(Semaphore::new((cores / 2).max(1))),
            waiting: Arc::new(Semaphore::new(WAITING)),
            patience: PATIENCE,
        }
    }

    /// Hashes a password with a new salt. Returns the hash in PHC format, for storage.
    ///
    /// # Errors
    ///
    /// If too many requests are waiting, or hashing fails.
    pub async fn hash(&self, password: String) -> Result<String, PasswordError> {
        self.run(move || hash(&password)).await
    }

    /// Compares a password with the stored hash. `stored` is `None` if the account does not exist; this takes as long
    /// as a comparison, so that the duration does not reveal whether an account exists.
    ///
    /// # Errors
    ///
    /// If too many requests are waiting, or the stored text is not a valid hash.
    pub async fn verify(&self, password: String, stored: Option<String>) -> Result<Verdict, PasswordError> {
        self.run(move || match stored {
            Some(stored) => verify(&password, &stored),
            // Do the same work as a comparison.
            None => hash(&password).map(|_| Verdict::Wrong),
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, PasswordError> + Send + 'static,
    ) -> Result<T, PasswordError> {
        let waiting = self.waiting.try_acquire().map_err(|_| PasswordError::Busy)?;
        let turn = timeout(self.patience, Arc::clone(&self.running).acquire_owned()).await;
        let turn = turn.ok().and_then(Result::ok).ok_or(PasswordError::Busy)?;
        drop(waiting);
        // The blocking task owns the permit: it keeps running, and keeps its core busy, after its caller is gone.
        let work = spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        work.await.map_err(|error| PasswordError::Failed(error.to_string()))?
    }
}

// Keyboards of one system compose letters and accents, those of another do not: passwords are compared in NFC.
fn hash(password: &str) -> Result<String, PasswordError> {
    let hash: password_hash::Result<PasswordHash> = Argon2::default().hash_password(nfc(password).as_bytes());
    hash.map(|hash| hash.to_string()).map_err(|error| PasswordError::Failed(error.to_string()))
}

fn verify(password: &str, stored: &str) -> Result<Verdict, PasswordError> {
    let stored = PasswordHash::new(stored).map_err(|error| PasswordError::Failed(error.to_string()))?;
    match Argon2::default().verify_password(nfc(password).as_bytes(), &stored) {
        Ok(()) => Ok(Verdict::Right),
        Err(password_hash::Error::PasswordInvalid) => Ok(Verdict::Wrong),
        Err(error) => Err(PasswordError::Failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn passwords_are_verified() {
        let passwords = Passwords::new();
        let stored = passwords.hash("correct horse".into()).await.unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        let again = passwords.hash("correct horse".into()).await.unwrap();
        assert_ne!(stored, again, "each has a salt of its own");
        let verdict = |password: &str| passwords.verify(password.to_owned(), Some(stored.clone()));
        assert_eq!(verdict("correct horse").await.unwrap(), Verdict::Right);
        assert_eq!(verdict("correct horse ").await.unwrap(), Verdict::Wrong);
        assert!(matches!(passwords.verify("x".into(), Some("x".into())).await, Err(PasswordError::Failed(_))));
    }

    #[tokio::test]
    async fn missing_accounts_take_equal_time() {
        let passwords = Passwords::new();
        let stored = passwords.hash("right".into()).await.unwrap();
        let mut with = Duration::MAX;
        let mut without = Duration::MAX;
        for _ in 0..3 {
            let start = Instant::now();
            assert_eq!(passwords.verify("wrong".into(), Some(stored.clone())).await.unwrap(), Verdict::Wrong);
            with = with.min(start.elapsed());
            let start = Instant::now();
            assert_eq!(passwords.verify("wrong".into(), None).await.unwrap(), Verdict::Wrong);
            without = without.min(start.elapsed());
        }
        assert!(without * 2 > with, "{without:?} without an account, {with:?} with one");
    }

    #[tokio::test]
    async fn hash_queue_overflow_and_timeout_are_errors() {
        let patience = Duration::from_millis(20);
        let passwords =
            Passwords { running: Arc::new(Semaphore::new(0)), waiting: Arc::new(Semaphore::new(1)), patience };
        let started = Instant::now();
        let first = async { (passwords.hash("a".into()).await, started.elapsed()) };
        let second = async { (passwords.hash("b".into()).await, started.elapsed()) };
        let ((first, first_waited), (second, second_waited)) = tokio::join!(biased; first, second);
        assert!(matches!((first, second), (Err(PasswordError::Busy), Err(PasswordError::Busy))));
        assert!(first_waited >= patience, "the first waits for its turn");
        assert!(second_waited < patience, "the second finds nowhere to wait");
    }
}

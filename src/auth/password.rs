//! The passwords of built-in accounts: argon2id, off the runtime's threads.

use std::sync::Arc;
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{self, PasswordHasher, PasswordVerifier};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// How many may wait for their turn. More than get it within [`PATIENCE`] even on a large machine.
const WAITING: usize = 256;

/// How long somebody waits for their turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether a password is the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Right,
    /// It is not, or there is no such account.
    Wrong,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// Too many passwords are being looked at. Trying again later may work.
    #[error("too many passwords are being looked at")]
    Busy,
    /// The hash that is stored is none, or hashing failed.
    #[error("a password could not be looked at: {0}")]
    Failed(String),
}

/// Hashes and verifies passwords. Each takes 19 MiB and tens of milliseconds of a core. At most half of the cores (but
/// one at least) hash at once, so that the others go on serving, and only so many wait.
#[derive(Clone, Debug)]
pub struct Passwords {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// How long somebody waits for their turn.
    patience: Duration,
}

impl Default for Passwords {
    fn default() -> Self {
        Self::new()
    }
}

impl Passwords {
    /// As many at once as half of the cores, and at least one.
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            running: Arc::new(Semaphore::new((cores / 2).max(1))),
            waiting: Arc::new(Semaphore::new(WAITING)),
            patience: PATIENCE,
        }
    }

    /// What to store for a password, in PHC form, with a salt of its own.
    ///
    /// # Errors
    ///
    /// When too much is waiting, or hashing fails.
    pub async fn hash(&self, password: String) -> Result<String, PasswordError> {
        self.run(move || hash(&password)).await
    }

    /// Whether a password is the one whose hash is stored. `None`: there is no such account; that takes as long as if
    /// there were, so that time does not tell.
    ///
    /// # Errors
    ///
    /// When too much is waiting, or what is stored is not a hash.
    pub async fn verify(&self, password: String, stored: Option<String>) -> Result<Verdict, PasswordError> {
        self.run(move || match stored {
            Some(stored) => verify(&password, &stored),
            // The same work as verifying, for nothing.
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
        // The turn ends with the work, not with whoever asked for it: they may be gone, the work goes on.
        let work = spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        work.await.map_err(|error| PasswordError::Failed(error.to_string()))?
    }
}

fn hash(password: &str) -> Result<String, PasswordError> {
    let hash: password_hash::Result<PasswordHash> = Argon2::default().hash_password(password.as_bytes());
    hash.map(|hash| hash.to_string()).map_err(|error| PasswordError::Failed(error.to_string()))
}

fn verify(password: &str, stored: &str) -> Result<Verdict, PasswordError> {
    let stored = PasswordHash::new(stored).map_err(|error| PasswordError::Failed(error.to_string()))?;
    match Argon2::default().verify_password(password.as_bytes(), &stored) {
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

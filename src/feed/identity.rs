//! Who callers are, and whether they still may come in.
//!
//! A user's id comes either from an account that signed up here or from the application (a token, a backend's `X-User`), and
//! that never changes: neither side can take the other's ids. The ledger decides, once for each id; this node remembers.
//! Whether a token was revoked is looked up in memory. So a request costs no call to a store.

use super::{Credential, Feed, FeedError, Result, now};
use crate::auth::{Revoked, TokenIdentity};
use crate::model::{UserId, UserOrigin};

impl Feed {
    /// Checks that a credential is in force and proves who the user is. A user whom the application brings for the first time
    /// is in the ledger from then on, so that nobody can sign up with that id.
    ///
    /// # Errors
    /// [`FeedError::Unauthorized`] or [`FeedError::Forbidden`] with the reason; or the ledger could not be asked.
    pub async fn authorize(&self, user: Option<&UserId>, credential: &Credential, new: NewUser) -> Result<()> {
        if *credential != Credential::Nothing {
            self.revocations.catch_up().await;
        }
        self.check_revoked(user, credential.token().map(|token| &**token))?;
        if *credential != Credential::Nothing && self.revocations.is_stale() {
            return Err(FeedError::Unavailable);
        }
        let Some(user) = user else { return Ok(()) };
        self.refuse_erased(user)?;
        let wanted = credential.origin();
        let known = self.known.lock().get(user).copied();
        let origin = match (known, wanted, new) {
            (Some(origin), _, _) => Some(origin),
            (None, UserOrigin::Application, NewUser::Recorded) => Some(self.ledger.ensure_user(user, now()).await?),
            (None, UserOrigin::Application, NewUser::Settled) => match self.ledger.user_origin(user).await? {
                Some(origin) => Some(origin),
                None => return Ok(()),
            },
            (None, UserOrigin::Account, _) => self.ledger.user_origin(user).await?,
        };
        let Some(origin) = origin else { return Err(credential.refusal()) };
        if known.is_none() {
            self.remember_origin(user, origin);
        }
        if origin == wanted { Ok(()) } else { Err(credential.refusal()) }
    }

    /// Checks a user and a token against the revocations, in memory.
    ///
    /// # Errors
    /// Why they are refused.
    pub fn check_revoked(
        &self,
        user: Option<&UserId>,
        token: Option<&TokenIdentity>,
    ) -> std::result::Result<(), Revoked> {
        self.revocations.list.check(user, token, now())
    }

    /// Makes sure the ledger knows a user whom a token, or a backend, brought.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub async fn welcome(&self, user: &UserId) -> Result<()> {
        self.refuse_erased(user)?;
        if self.known.lock().contains_key(user) {
            return Ok(());
        }
        let origin = self.ledger.ensure_user(user, now()).await?;
        self.remember_origin(user, origin);
        Ok(())
    }

    fn remember_origin(&self, user: &UserId, origin: UserOrigin) {
        let mut known = self.known.lock();
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(user.clone(), origin);
    }
}

/// When the ledger records a user whom an application's credential brings for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewUser {
    /// Now, before the request goes on.
    Recorded,
    /// With what the request puts into the write-behind queue: the request does not wait for the ledger's writer.
    Settled,
}

/// How many users are remembered as known. Those forgotten cost a call to the ledger each.
const KNOWN: usize = 200_000;

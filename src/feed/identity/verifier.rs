//! Checks callers: whether their credentials are in force and prove their identity.

use std::collections::HashSet;
use std::sync::Arc;

use super::erased_users::{ERASED_USER, ErasedUsers};
use super::revocations::RevocationService;
use super::standings::Standings;
use super::user_origins::UserOrigins;
use crate::auth::{Revoked, TokenIdentity};
use crate::feed::call::Credential;
use crate::feed::error::{FeedError, Result};
use crate::ledger::{KnownUser, Ledger};
use crate::model::{Standing, UserId, UserOrigin};

/// When the ledger records a user that an application's credential names for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewUser {
    /// Now, before the request continues.
    Recorded,
    /// Together with the entry that the request puts into the write-behind queue: the request does not wait for the
    /// ledger's writer.
    Settled,
}

/// Checks callers.
pub(crate) struct IdentityService {
    ledger: Arc<dyn Ledger>,
    origins: Arc<UserOrigins>,
    revocations: Arc<RevocationService>,
    erased: Arc<ErasedUsers>,
    standings: Arc<Standings>,
}

impl IdentityService {
    /// Checks callers against these origins, revocations and erasures.
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        origins: Arc<UserOrigins>,
        revocations: Arc<RevocationService>,
        erased: Arc<ErasedUsers>,
        standings: Arc<Standings>,
    ) -> Self {
        Self { ledger, origins, revocations, erased, standings }
    }

    /// Checks that a credential is in force and proves the user's identity. A user that the application names for the
    /// first time is recorded in the ledger, so that no account can be created with that id. Returns the user with the
    /// id as first written.
    ///
    /// # Errors
    /// [`FeedError::Unauthorized`] or [`FeedError::Forbidden`] with the reason; or the ledger cannot be reached.
    pub(crate) async fn authorize(
        &self,
        user: Option<&UserId>,
        credential: &Credential,
        new: NewUser,
    ) -> Result<Option<UserId>> {
        if *credential != Credential::Nothing {
            self.revocations.catch_up().await;
        }
        if let Some(user) = user {
            self.refuse_erased(user)?;
        }
        self.check_revoked(user, credential.token().map(|token| &**token))?;
        if *credential != Credential::Nothing && self.revocations.is_stale() {
            return Err(FeedError::Unavailable);
        }
        let Some(user) = user else { return Ok(None) };
        let wanted = credential.origin();
        let known = match (wanted, new) {
            (UserOrigin::Application, NewUser::Recorded) => Some(self.origins.ensure(user).await?),
            (UserOrigin::Application, NewUser::Settled) => match self.cached_or_stored(user).await {
                Ok(Some(known)) => Some(known),
                Ok(None) => {
                    self.origins.note_unrecorded(user);
                    return Ok(Some(user.clone()));
                }
                // Likes are acknowledged while the ledger is down, including those of users that were new a moment ago.
                Err(FeedError::Unavailable | FeedError::StoreAway(_)) if self.origins.was_unrecorded(user) => {
                    return Ok(Some(user.clone()));
                }
                Err(error) => return Err(error),
            },
            (UserOrigin::Account, _) => self.cached_or_stored(user).await?,
        };
        known.filter(|known| known.origin == wanted).map(|known| Some(known.id)).ok_or_else(|| credential.refusal())
    }

    async fn cached_or_stored(&self, user: &UserId) -> Result<Option<KnownUser>> {
        if let Some(known) = self.origins.peek(user) {
            return Ok(Some(known));
        }
        let known = self.ledger.user_origin(user).await?;
        if let Some(known) = &known {
            self.origins.insert(known);
        }
        Ok(known)
    }

    /// Those of these users that exist, with their ids as first written. At most one ledger call.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub(crate) async fn spellings<'a>(&self, ids: impl Iterator<Item = &'a UserId>) -> Result<HashSet<UserId>> {
        self.origins.spellings(ids).await
    }

    /// Checks a user and a token against the revocations, in memory.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub(crate) fn check_revoked(
        &self,
        user: Option<&UserId>,
        token: Option<&TokenIdentity>,
    ) -> std::result::Result<(), Revoked> {
        self.revocations.check(user, token)
    }

    /// Refuses the writes and the connections of a suspended user.
    ///
    /// # Errors
    /// [`FeedError::Forbidden`] if the user is suspended; or the ledger cannot be read.
    pub(crate) async fn refuse_suspended(&self, user: &UserId) -> Result<()> {
        self.standings.catch_up().await?;
        if self.is_suspended(user) { Err(FeedError::Forbidden("this user is suspended")) } else { Ok(()) }
    }

    /// Whether this node knows that a user is suspended.
    pub(crate) fn is_suspended(&self, user: &UserId) -> bool {
        self.standings.of(user) == Standing::Suspended
    }

    /// Whether this node knows that a user was erased.
    pub(crate) fn is_erased(&self, user: &UserId) -> bool {
        self.erased.contains(user)
    }

    /// Refuses an erased user, regardless of the credential.
    ///
    /// # Errors
    /// [`FeedError::Unauthorized`] if the user was erased.
    pub(crate) fn refuse_erased(&self, user: &UserId) -> Result<()> {
        if self.is_erased(user) { Err(ERASED_USER) } else { Ok(()) }
    }
}

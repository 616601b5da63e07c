//! Revocations of tokens and sessions, and blocked users: a log that every node follows.

use async_trait::async_trait;

use super::Result;
use crate::model::{Millis, UserId};

/// The kind of an entry, which determines the meaning of its [`value`](Revocation::value).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RevocationKind {
    /// One token; the subject is its `jti`. The value is unused.
    Token,
    /// All tokens of an application for a user that were issued before `value`, in Unix seconds.
    UserTokens,
    /// All sessions of an account whose generation is less than `value`, except the spared one.
    Sessions,
    /// A user is blocked (`value` 1) until the entry expires, or unblocked (0).
    Block,
    /// A user was erased. The value is unused; the entry never expires.
    Erased,
    /// Written by a newer version. It has no effect here.
    Unknown,
}

impl RevocationKind {
    /// Its name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::UserTokens => "user_tokens",
            Self::Sessions => "sessions",
            Self::Block => "block",
            Self::Erased => "erased",
            Self::Unknown => "unknown",
        }
    }

    /// Parses a name from the store.
    pub fn parse(text: &str) -> Self {
        let all = [Self::Token, Self::UserTokens, Self::Sessions, Self::Block, Self::Erased];
        all.into_iter().find(|kind| kind.as_str() == text).unwrap_or(Self::Unknown)
    }
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// The kind of revocation.
    pub kind: RevocationKind,
    /// The id of a token, or of a user.
    pub subject: String,
    /// The owner of a revoked token, if known.
    pub owner: Option<UserId>,
    /// A number whose meaning depends on the kind; see [`RevocationKind`].
    pub value: u64,
    /// The id of the one session that stays valid.
    pub spared: Option<String>,
    /// When the entry was written, in Unix milliseconds.
    pub at: Millis,
    /// When the entry expires, in Unix milliseconds; `None`: never.
    pub expires_at: Option<Millis>,
}

impl Revocation {
    /// Whether the entry keeps the greater value and the later expiry of an earlier one, so that it never allows
    /// anything that the earlier one forbade. A block can be lifted, and an invalidation of tokens taken back: it has
    /// the value 0 then.
    pub fn only_grows(&self) -> bool {
        match self.kind {
            RevocationKind::Block => false,
            RevocationKind::UserTokens => self.value > 0,
            _ => true,
        }
    }
}

/// The end of all sessions of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionsEnd {
    /// The id of the one session that stays valid, if any.
    pub spared: Option<String>,
    /// The current time, in Unix milliseconds.
    pub at: Millis,
    /// The time, in Unix milliseconds, when all currently open sessions will have expired without this call.
    pub expires_at: Millis,
}

/// The log of revocations.
///
/// Entries are numbered from 1 in the order in which they become visible: after a reader has seen a number, no lower
/// one appears. There is one entry for each kind and subject; a later entry replaces it and moves to the end.
#[async_trait]
pub trait RevocationStore: Send + Sync {
    /// Appends an entry. Returns its number.
    async fn revoke(&self, revocation: &Revocation) -> Result<u64>;

    /// Ends all sessions of an account: increments its generation and appends the entry, in one transaction. Returns
    /// the new generation; `None` if the account does not exist.
    async fn end_sessions(&self, user: &UserId, end: &SessionsEnd) -> Result<Option<u64>>;

    /// Ends all sessions and sets a new password, if the stored password is still `from` (both argon2id in PHC form)
    /// and the generation of the account is still `generation`. Otherwise, or if the account does not exist, returns
    /// `None` and changes nothing. A caller can therefore spare a session only if the account has not changed since the
    /// caller read it.
    async fn change_password(
        &self,
        user: &UserId,
        from: &str,
        generation: u64,
        to: &str,
        end: &SessionsEnd,
    ) -> Result<Option<u64>>;

    /// The first `limit` entries after a number, in order, each with its number.
    async fn revocations_after(&self, seq: u64, limit: usize) -> Result<Vec<(u64, Revocation)>>;

    /// Removes up to `limit` entries that expired before `before`. Returns their number. Numbers are not reused.
    async fn forget_revocations(&self, before: Millis, limit: usize) -> Result<usize>;
}

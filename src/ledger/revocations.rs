//! Tokens and sessions that end before their time, and blocked users: a log that every node follows.

use async_trait::async_trait;

use super::Result;
use crate::model::{Millis, UserId};

/// What an entry ends, and what its [`value`](Revocation::value) means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RevocationKind {
    /// One token; the subject is its `jti`. The value means nothing.
    Token,
    /// All tokens of an application for a user that were issued before `value`, in Unix seconds.
    UserTokens,
    /// All sessions of an account whose generation is less than `value`, but the spared one.
    Sessions,
    /// A user is blocked (`value` 1) until the entry expires, or not any more (0).
    Block,
    /// A user was erased. The value means nothing; the entry never expires.
    Erased,
    /// Written by a newer version. It has no effect here.
    Unknown,
}

impl RevocationKind {
    /// As it is kept.
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

    /// Reads what was kept.
    pub fn parse(text: &str) -> Self {
        let all = [Self::Token, Self::UserTokens, Self::Sessions, Self::Block, Self::Erased];
        all.into_iter().find(|kind| kind.as_str() == text).unwrap_or(Self::Unknown)
    }

    /// Whether a later entry leaves the greater value and the later expiry in force, so that it never allows what an
    /// earlier one forbade. A block is the exception: it can be taken back.
    pub fn only_grows(self) -> bool {
        self != Self::Block
    }
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// What it ends.
    pub kind: RevocationKind,
    /// The id of a token, or of a user.
    pub subject: String,
    /// Of a token: the user it belongs to, if known.
    pub owner: Option<UserId>,
    /// See [`RevocationKind`].
    pub value: u64,
    /// The id of the one session that goes on.
    pub spared: Option<String>,
    /// When it was written.
    pub at: Millis,
    /// When it has no effect any more; `None` is never.
    pub expires_at: Option<Millis>,
}

/// The end of all sessions of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionsEnd {
    /// The id of the one session that goes on, if one does.
    pub spared: Option<String>,
    /// Now.
    pub at: Millis,
    /// When every session that is open now has expired by itself.
    pub expires_at: Millis,
}

/// The log of revocations.
///
/// Entries are numbered from 1 in the order in which they become visible: a reader that has seen a number never sees a
/// lower one appear later. There is one entry for each kind and subject; a later one takes its place, at the end.
#[async_trait]
pub trait RevocationStore: Send + Sync {
    /// Puts an entry at the end. Answers with its number.
    async fn revoke(&self, revocation: &Revocation) -> Result<u64>;

    /// Ends all sessions of an account: counts its generation up and puts the entry into the log, in one transaction.
    /// Answers with the new generation; `None` if there is no such account.
    async fn end_sessions(&self, user: &UserId, end: &SessionsEnd) -> Result<Option<u64>>;

    /// The same together with a new password, if the stored one is still `from` (both argon2id in PHC form) and the
    /// account's generation is still `generation`. `None` if they are not, or there is no such account: nothing
    /// changed. So whoever looked at the account before can spare a session only while all that it looked at holds.
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

    /// Drops up to `limit` entries that expired before `before`. Answers how many. Numbers go on from where they were.
    async fn forget_revocations(&self, before: Millis, limit: usize) -> Result<usize>;
}

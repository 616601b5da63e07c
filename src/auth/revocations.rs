//! The revocation list: tokens that were revoked before they expired, and blocked users. A copy, in memory, of the
//! ledger's log.
//!
//! Every request is checked against this list without a call to a store. The current time is a parameter, in Unix
//! milliseconds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

use super::{TokenIdentity, TokenKind};
use crate::denials::{Denied, deny};
use crate::ledger::{Revocation, RevocationKind};
use crate::model::{Millis, UserId};

/// The reason why a token or a user is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Revoked {
    /// The token was revoked, all tokens of the user were invalidated, or its session was ended.
    #[error("the token was revoked or its session has ended")]
    Token,
    /// The user is blocked. This applies to every token.
    #[error("this user is blocked")]
    User,
}

/// The entries in force.
#[derive(Debug, Default)]
pub struct RevocationList {
    /// Whether there is any entry. Most deployments have none most of the time, so checks read this flag first.
    any: AtomicBool,
    entries: RwLock<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    /// The expiry of each revocation, in Unix milliseconds, by token id.
    tokens: HashMap<Box<str>, Millis>,
    users: HashMap<UserId, UserEntries>,
}

/// The entries in force for one user.
#[derive(Debug, Default)]
struct UserEntries {
    tokens: Option<UserTokens>,
    sessions: Option<Sessions>,
    /// When the block ends, in Unix milliseconds; `None`: the user is not blocked.
    blocked_until: Option<Millis>,
    /// The user was erased: every token of the user is refused.
    is_erased: bool,
}

#[derive(Debug)]
struct UserTokens {
    /// Tokens issued before this time are invalid, in Unix seconds.
    issued_before: u64,
    until: Millis,
}

#[derive(Debug)]
struct Sessions {
    /// Sessions of lower generations have ended, except the one in `spared`.
    below: u64,
    /// The token id of the session that has not ended; `None`: all of them have.
    spared: Option<Box<str>>,
    until: Millis,
}

impl UserEntries {
    fn is_empty(&self) -> bool {
        self.tokens.is_none() && self.sessions.is_none() && self.blocked_until.is_none() && !self.is_erased
    }

    fn check(&self, token: Option<&TokenIdentity>, now: Millis) -> Result<(), Revoked> {
        if self.blocked_until.is_some_and(|until| until > now) {
            return Err(Revoked::User);
        }
        let Some(token) = token else { return Ok(()) };
        if self.is_erased {
            return Err(Revoked::Token);
        }
        // A token without `iat` counts as older than any limit.
        let too_old = self
            .tokens
            .as_ref()
            .is_some_and(|tokens| token.issued_at.is_none_or(|at| at < tokens.issued_before) && tokens.until > now);
        let ended = match token.kind {
            TokenKind::Session { generation } => self.sessions.as_ref().is_some_and(|sessions| {
                let is_spared = sessions.spared.is_some() && sessions.spared == token.id;
                generation < sessions.below && !is_spared && sessions.until > now
            }),
            TokenKind::Application => false,
        };
        if too_old || ended { Err(Revoked::Token) } else { Ok(()) }
    }

    /// Removes the entries that have expired.
    fn expire(&mut self, now: Millis) {
        self.tokens.take_if(|tokens| tokens.until <= now);
        self.sessions.take_if(|sessions| sessions.until <= now);
        self.blocked_until.take_if(|until| *until <= now);
    }
}

impl RevocationList {
    /// Checks a user, and the token that the user presented, if any. `user` is `None` for the token of an anonymous
    /// client.
    ///
    /// # Errors
    /// The reason why the user or the token is refused.
    pub fn check(&self, user: Option<&UserId>, token: Option<&TokenIdentity>, now: Millis) -> Result<(), Revoked> {
        let checked = self.find(user, token, now);
        checked.inspect_err(|revoked| deny(Denied::Token, "revoked", &format_args!("{revoked:?}")))
    }

    fn find(&self, user: Option<&UserId>, token: Option<&TokenIdentity>, now: Millis) -> Result<(), Revoked> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let entries = self.entries.read();
        if let Some(of_user) = user.and_then(|user| entries.users.get(user)) {
            of_user.check(token, now)?;
        }
        let id = token.and_then(|token| token.id.as_deref());
        let until = id.and_then(|id| entries.tokens.get(id));
        if until.is_some_and(|until| *until > now) { Err(Revoked::Token) } else { Ok(()) }
    }

    /// Applies an entry of the log. Entries must be applied in the order of the log; applying an entry again has no
    /// effect.
    pub fn apply(&self, entry: &Revocation) {
        let until = entry.expires_at.unwrap_or(Millis::MAX);
        let mut entries = self.entries.write();
        if entry.kind == RevocationKind::Token {
            entries.tokens.insert(entry.subject.as_str().into(), until);
            self.any.store(true, Ordering::Release);
            return;
        }
        let Some(user) = UserId::parse(&entry.subject) else { return };
        let of_user = entries.users.entry(user.clone()).or_default();
        match entry.kind {
            RevocationKind::UserTokens => {
                // 0 takes an earlier one back.
                of_user.tokens = (entry.value > 0).then_some(UserTokens { issued_before: entry.value, until });
            }
            RevocationKind::Sessions => {
                let spared = entry.spared.as_deref().map(Into::into);
                of_user.sessions = Some(Sessions { below: entry.value, spared, until });
            }
            RevocationKind::Block => of_user.blocked_until = (entry.value > 0).then_some(until),
            RevocationKind::Erased => of_user.is_erased = true,
            RevocationKind::Token | RevocationKind::Unknown => {}
        }
        if of_user.is_empty() {
            entries.users.remove(&user);
        } else {
            self.any.store(true, Ordering::Release);
        }
    }

    /// Replaces all entries with those of another list.
    pub fn replace(&self, other: Self) {
        let any = other.any.into_inner();
        let new = other.entries.into_inner();
        *self.entries.write() = new;
        self.any.store(any, Ordering::Release);
    }

    /// Removes entries that have expired, so that memory grows only with the entries in force.
    pub fn sweep(&self, now: Millis) {
        let mut entries = self.entries.write();
        entries.tokens.retain(|_, until| *until > now);
        entries.users.retain(|_, of_user| {
            of_user.expire(now);
            !of_user.is_empty()
        });
        // Release the memory of a past burst.
        entries.tokens.shrink_to_fit();
        entries.users.shrink_to_fit();
        self.any.store(!entries.tokens.is_empty() || !entries.users.is_empty(), Ordering::Release);
    }

    /// The number of tokens and users with entries.
    pub fn len(&self) -> usize {
        let entries = self.entries.read();
        entries.tokens.len() + entries.users.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = 1_800_000_000_000;
    const SECOND: u64 = NOW / 1_000;

    fn ann() -> UserId {
        UserId::parse("ann").unwrap()
    }

    fn entry(kind: RevocationKind, subject: &str, value: u64) -> Revocation {
        let expires_at = Some(NOW + 1_000);
        Revocation { kind, subject: subject.into(), owner: None, value, spared: None, at: NOW, expires_at }
    }

    fn token(id: Option<&str>, issued_at: Option<u64>) -> TokenIdentity {
        TokenIdentity { kind: TokenKind::Application, id: id.map(Into::into), issued_at, expires_at: None }
    }

    fn session(id: &str, generation: u64) -> TokenIdentity {
        TokenIdentity { kind: TokenKind::Session { generation }, ..token(Some(id), Some(SECOND)) }
    }

    fn check(list: &RevocationList, token: &TokenIdentity) -> Result<(), Revoked> {
        list.check(Some(&ann()), Some(token), NOW)
    }

    #[test]
    fn a_token_is_revoked_by_its_id_until_the_entry_expires() {
        let list = RevocationList::default();
        assert_eq!(check(&list, &token(Some("a"), None)), Ok(()));
        list.apply(&entry(RevocationKind::Token, "a", 0));
        assert_eq!(check(&list, &token(Some("a"), None)), Err(Revoked::Token));
        assert_eq!(check(&list, &session("a", 7)), Err(Revoked::Token), "a session's, too");
        assert_eq!(list.check(None, Some(&token(Some("a"), None)), NOW), Err(Revoked::Token), "nobody's, too");
        for other in [token(Some("b"), None), token(None, None), token(None, Some(0))] {
            assert_eq!(check(&list, &other), Ok(()), "{other:?}");
        }
        let later = list.check(Some(&ann()), Some(&token(Some("a"), None)), NOW + 1_000);
        assert_eq!(later, Ok(()));
    }

    #[test]
    fn tokens_issued_before_are_invalid_and_those_without_iat() {
        let list = RevocationList::default();
        list.apply(&entry(RevocationKind::UserTokens, "ann", SECOND));
        for at in [None, Some(0), Some(SECOND - 1)] {
            assert_eq!(check(&list, &token(Some("t"), at)), Err(Revoked::Token), "{at:?}");
        }
        for at in [SECOND, SECOND + 1] {
            assert_eq!(check(&list, &token(None, Some(at))), Ok(()), "{at}");
        }
        assert_eq!(check(&list, &session("s", 0)), Ok(()), "a session that was issued later");
        let old = TokenIdentity { issued_at: Some(SECOND - 1), ..session("s", 9) };
        assert_eq!(check(&list, &old), Err(Revoked::Token), "sessions, too, whatever their generation");
        let bo = UserId::parse("bo");
        assert_eq!(list.check(bo.as_ref(), Some(&token(None, None)), NOW), Ok(()));
    }

    #[test]
    fn older_session_generations_end_except_the_spared_one() {
        let list = RevocationList::default();
        list.apply(&Revocation { spared: Some("s1".into()), ..entry(RevocationKind::Sessions, "ann", 3) });
        assert_eq!(check(&list, &session("s1", 2)), Ok(()));
        assert_eq!(check(&list, &session("s2", 2)), Err(Revoked::Token), "though it was issued in the same second");
        assert_eq!(check(&list, &session("s3", 3)), Ok(()), "though it was issued in the same second");
        assert_eq!(check(&list, &token(None, None)), Ok(()), "the application's tokens go by their time");
        list.apply(&entry(RevocationKind::Sessions, "ann", 4));
        assert_eq!(check(&list, &session("s1", 2)), Err(Revoked::Token), "nothing is spared for ever");
    }

    #[test]
    fn blocked_users_are_rejected_until_unblocked() {
        let list = RevocationList::default();
        list.apply(&Revocation { expires_at: None, ..entry(RevocationKind::Block, "ann", 1) });
        list.apply(&entry(RevocationKind::UserTokens, "ann", SECOND));
        assert_eq!(check(&list, &token(None, None)), Err(Revoked::User));
        assert_eq!(list.check(Some(&ann()), None, NOW), Err(Revoked::User));
        list.apply(&entry(RevocationKind::Block, "ann", 0));
        assert_eq!(check(&list, &token(None, None)), Err(Revoked::Token), "the other entry stays");
        assert_eq!(list.check(Some(&ann()), None, NOW), Ok(()));
    }

    #[test]
    fn erased_users_are_rejected_with_any_token() {
        let list = RevocationList::default();
        list.apply(&Revocation { expires_at: None, ..entry(RevocationKind::Erased, "ann", NOW) });
        for token in [token(Some("t"), Some(SECOND + 9)), session("s", 9)] {
            assert_eq!(check(&list, &token), Err(Revoked::Token));
        }
        list.sweep(Millis::MAX - 1);
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn expired_entries_are_removed() {
        let list = RevocationList::default();
        for n in 0..1_000 {
            list.apply(&entry(RevocationKind::Token, &format!("t{n}"), 0));
            list.apply(&entry(RevocationKind::UserTokens, &format!("u{n}"), SECOND));
        }
        list.apply(&Revocation { expires_at: None, ..entry(RevocationKind::Block, "ann", 1) });
        list.apply(&entry(RevocationKind::Unknown, "what", 1));
        list.apply(&entry(RevocationKind::Block, "not a user id", 1));
        assert_eq!(list.len(), 2_001);
        list.sweep(NOW + 1_000);
        assert_eq!((list.len(), list.is_empty()), (1, false));
        list.apply(&entry(RevocationKind::Block, "ann", 0));
        list.sweep(NOW);
        assert!(list.is_empty());
    }
}

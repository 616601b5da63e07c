//! Built-in accounts: a name and a password, so that the page and small deployments need no other system.

use std::sync::Arc;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::revocations::RevocationService;
use super::user_origins::UserOrigins;
use crate::auth::{Passwords, SessionIssuer, SignInAttempt, SignInGuard, TokenKind, Verdict};
use crate::broker::Invalidation;
use crate::feed::base::Base;
use crate::feed::call::{Call, Caller, Credential, Origin};
use crate::feed::error::{FeedError, Result};
use crate::feed::input::{Done, checked_name};
use crate::feed::query_values::flag;
use crate::feed::runtime::now;
use crate::ledger::NewAccount;
use crate::model::{Millis, UserId, UserOrigin};
use crate::net::subscriber_network;
use crate::reloadable::Reloadable;
use crate::text::nfc;

/// A new account.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignUp {
    /// Its id.
    user: UserId,
    /// 8 to 200 characters.
    password: String,
    /// The display name, up to 100 characters; the id by default.
    #[serde(default)]
    name: Option<String>,
}

/// The credentials of an account.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignIn {
    /// The id.
    user: UserId,
    /// The password.
    password: String,
}

/// Selects the sessions that a sign-out ends.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignOut {
    /// Whether to end all sessions and tokens of the user; `false` ends only the session of this request.
    #[serde(default, deserialize_with = "flag")]
    all: bool,
}

/// A new password.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PasswordChange {
    /// The current password.
    old: String,
    /// The new password, 8 to 200 characters.
    new: String,
}

/// A new session.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Session")]
pub(crate) struct SignedIn {
    /// The user.
    user: UserId,
    /// The session's token, for connections and HTTP.
    token: String,
    /// When the token expires, in Unix milliseconds.
    expires_at: Millis,
}

const WRONG: FeedError = FeedError::Unauthorized("unknown user or wrong password");

/// Accounts, and their sessions.
pub(crate) struct AccountService {
    pub(crate) base: Arc<Base>,
    pub(crate) origins: Arc<UserOrigins>,
    pub(crate) revocations: Arc<RevocationService>,
    pub(crate) passwords: Passwords,
    /// Signs the tokens of sessions; `None` if accounts are off.
    pub(crate) issuer: Reloadable<Option<SessionIssuer>>,
    /// Delays sign-ins after failures on this node; `None` without a limit.
    pub(crate) guard: Reloadable<Option<Arc<SignInGuard>>>,
}

impl AccountService {
    pub(crate) async fn sign_up(&self, _: Caller, account: SignUp) -> Result<SignedIn> {
        let issuer = self.sessions()?;
        checked_password("password", &account.password)?;
        if account.user.is_reserved() {
            return Err(FeedError::invalid("user", "that id means something else here"));
        }
        let name = account.name.map_or_else(|| Ok(account.user.shown().to_owned()), |name| checked_name(&name))?;
        if self.base.identity.is_erased(&account.user) {
            return Err(taken(UserOrigin::Account));
        }
        if let Some(known) = self.origins.get(&account.user).await? {
            return Err(taken(known.origin));
        }
        let password = self.passwords.hash(account.password).await?;
        let user = account.user;
        let new = NewAccount { user: user.clone(), name, password, created_at: now() };
        if self.base.ledger.create_account(new).await? {
            // Another node may have cached that the ledger does not have this user. It must not accept an application's
            // credential for the new account.
            if let Err(error) = self.base.invalidator.invalidate(&[Invalidation::User(user.clone())]).await {
                tracing::warn!(%error, "a new account is not announced to the other nodes");
            }
            open_session(&issuer, user, 0)
        } else {
            Err(taken(self.origins.get(&user).await?.map_or(UserOrigin::Account, |known| known.origin)))
        }
    }

    pub(crate) async fn sign_in(&self, call: Call, who: SignIn) -> Result<SignedIn> {
        let issuer = self.sessions()?;
        let attempt = self.begin_sign_in(call.origin, &who.user)?;
        let account = self.base.ledger.account(&who.user).await.map_err(FeedError::from);
        let (account, attempt) = cancel_on_error(account, attempt)?;
        let stored = account.as_ref().map(|account| account.password.clone());
        self.check_password(who.password, stored, attempt).await?;
        self.base.identity.check_revoked(Some(&who.user), None)?;
        let account = account.ok_or(WRONG)?;
        open_session(&issuer, account.user, account.generation)
    }

    pub(crate) async fn sign_out(&self, call: Call, which: SignOut) -> Result<Done> {
        let user = call.caller.user()?;
        if which.all {
            self.revocations.invalidate_user_tokens(user, None).await?;
            return Ok(Done {});
        }
        let Some(token) = call.credential.token() else {
            return Err(FeedError::invalid("all", "a backend has no session of its own: end all of the user's"));
        };
        let Some(id) = &token.id else {
            return Err(FeedError::invalid("all", "this token has no jti, so it cannot be ended alone: end all"));
        };
        self.revocations.revoke_own_token(user, id, token.expires_at).await?;
        Ok(Done {})
    }

    pub(crate) async fn change_password(&self, call: Call, change: PasswordChange) -> Result<Done> {
        self.sessions()?;
        let user = call.caller.user()?;
        checked_password("new", &change.new)?;
        let spared = match &call.credential {
            Credential::Token(token) if token.kind != TokenKind::Application => token.id.as_deref(),
            Credential::Backend(UserOrigin::Account) => None,
            _ => return Err(FeedError::Forbidden("this user has no account, and so no password")),
        };
        let attempt = self.begin_sign_in(call.origin, user)?;
        let stored = self.base.ledger.account(user).await.map_err(FeedError::from);
        let (account, attempt) = cancel_on_error(stored, attempt)?;
        let account = account.ok_or(FeedError::Forbidden("this user has no account, and so no password"))?;
        // The session to be spared may have been revoked since the call was authorised. A later revocation changes the
        // generation.
        let (_, attempt) = cancel_on_error(self.check_again(user, &call.credential).await, attempt)?;
        self.check_password(change.old, Some(account.password.clone()), attempt).await?;
        let new = self.passwords.hash(change.new).await?;
        let end = self.revocations.sessions_end(spared);
        if self.base.ledger.change_password(user, &account.password, account.generation, &new, &end).await?.is_none() {
            let message = "the password was changed, or all sessions were ended, meanwhile";
            return Err(FeedError::Conflict { field: "old", message });
        }
        self.revocations.publish().await?;
        Ok(Done {})
    }

    /// Checks a credential against all revocations up to now, on any node.
    async fn check_again(&self, user: &UserId, credential: &Credential) -> Result<()> {
        self.revocations.follow().await?;
        Ok(self.base.identity.check_revoked(Some(user), credential.token().map(|token| &**token))?)
    }

    /// Replaces the rate of failed sign-ins. With another rate, all counters begin again.
    pub(crate) fn replace_guard(&self, failures_per_minute: Option<u32>) {
        let guard = SignInGuard::new(failures_per_minute);
        let is_same = match (&*self.guard.get(), &guard) {
            (Some(current), Some(new)) => current.has_rate_of(new),
            (current, new) => current.is_none() && new.is_none(),
        };
        if !is_same {
            self.guard.set(guard);
        }
    }

    /// Signs the tokens of sessions.
    fn sessions(&self) -> Result<SessionIssuer> {
        let issuer = Option::clone(&self.issuer.get());
        issuer.ok_or(FeedError::Forbidden("accounts are not enabled on this server"))
    }

    /// Admits an attempt to sign in, unless there were too many failures. Backends are trusted to limit their own
    /// attempts.
    fn begin_sign_in(&self, origin: Origin, user: &UserId) -> Result<Option<SignInAttempt>> {
        let Some(guard) = &*self.guard.get() else { return Ok(None) };
        let (Origin::Address(address) | Origin::Connection(address)) = origin else { return Ok(None) };
        let is_shared = self.base.options.trusted_proxies.is_exempt(address);
        let attempt = guard.begin(subscriber_network(address), is_shared, user, Instant::now());
        let too_many = |retry_after| FeedError::RateLimited { what: "failed sign-ins", retry_after };
        attempt.map(Some).map_err(too_many)
    }

    async fn check_password(
        &self,
        password: String,
        stored: Option<String>,
        attempt: Option<SignInAttempt>,
    ) -> Result<()> {
        let verdict = self.passwords.verify(password, stored).await.map_err(FeedError::from);
        match cancel_on_error(verdict, attempt)? {
            (Verdict::Right, attempt) => {
                if let Some(attempt) = attempt {
                    attempt.succeeded();
                }
                Ok(())
            }
            (Verdict::Wrong, attempt) => {
                if let Some(attempt) = attempt {
                    let (address, user) = attempt.who();
                    let delays = self.base.rates.count_failed_sign_in(address, user).await;
                    attempt.failed(delays);
                }
                Err(WRONG)
            }
        }
    }
}

/// Cancels the attempt if the server failed: such a failure is not counted.
fn cancel_on_error<T>(result: Result<T>, attempt: Option<SignInAttempt>) -> Result<(T, Option<SignInAttempt>)> {
    match result {
        Ok(value) => Ok((value, attempt)),
        Err(error) => {
            if let Some(attempt) = attempt {
                attempt.cancelled();
            }
            Err(error)
        }
    }
}

fn taken(origin: UserOrigin) -> FeedError {
    let message = match origin {
        UserOrigin::Account => "that id is taken",
        UserOrigin::Application => "that id is taken: it belongs to the application, so it cannot be signed up",
    };
    FeedError::Conflict { field: "user", message }
}

fn checked_password(field: &'static str, password: &str) -> Result<()> {
    // Counted as it is compared.
    let fits = (8..=200).contains(&nfc(password).chars().count());
    if fits { Ok(()) } else { Err(FeedError::invalid(field, "a password has 8 to 200 characters")) }
}

fn open_session(issuer: &SessionIssuer, user: UserId, generation: u64) -> Result<SignedIn> {
    let issued = issuer.issue(&user, generation, now() / 1_000).map_err(|error| {
        tracing::error!(%error, "a token could not be signed");
        FeedError::Internal
    })?;
    let token = issued.token.reveal().to_owned();
    Ok(SignedIn { user, token, expires_at: issued.expires_at * 1_000 })
}

//! Built-in accounts: a name and a password, so that the page and small deployments need no other system.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::people::checked_name;
use super::{Caller, Feed, FeedError, Result, now};
use crate::auth::Verdict;
use crate::ledger::NewAccount;
use crate::model::{Millis, UserId};

/// An account to be made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignUp {
    /// Its id.
    user: UserId,
    /// 8 to 200 characters.
    password: String,
    /// What to call them, up to 100 characters; the id, if nothing is said.
    #[serde(default)]
    name: Option<String>,
}

/// Who wants to sign in.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignIn {
    /// The id.
    user: UserId,
    /// The password.
    password: String,
}

/// Somebody is signed in.
#[derive(Serialize, JsonSchema)]
pub(super) struct SignedIn {
    /// Who.
    user: UserId,
    /// What proves it, to the socket and to HTTP.
    token: String,
    /// Until when, in Unix milliseconds.
    expires_at: Millis,
}

const WRONG: FeedError = FeedError::Unauthorized("unknown user or wrong password");

impl Feed {
    pub(super) async fn sign_up(&self, _: Caller, account: SignUp) -> Result<SignedIn> {
        if !(8..=200).contains(&account.password.chars().count()) {
            return Err(FeedError::invalid("password", "a password has 8 to 200 characters"));
        }
        if account.user.is_reserved() {
            return Err(FeedError::invalid("user", "that id means something else here"));
        }
        let name = account.name.map_or_else(|| Ok(account.user.to_string()), |name| checked_name(&name))?;
        let signed_in = self.signed_in(&account.user)?;
        let password = self.passwords.hash(account.password).await?;
        let new = NewAccount { user: account.user, name, password, created_at: now() };
        if self.ledger.create_account(new).await? {
            Ok(signed_in)
        } else {
            Err(FeedError::Conflict { field: "user", message: "that id is taken" })
        }
    }

    pub(super) async fn sign_in(&self, _: Caller, who: SignIn) -> Result<SignedIn> {
        let signed_in = self.signed_in(&who.user)?;
        let stored = self.ledger.account(&who.user).await?.map(|account| account.password);
        match self.passwords.verify(who.password, stored).await? {
            Verdict::Right => Ok(signed_in),
            Verdict::Wrong => Err(WRONG),
        }
    }

    fn signed_in(&self, user: &UserId) -> Result<SignedIn> {
        let issuer = self.issuer.as_ref().filter(|_| self.options.accounts);
        let issuer = issuer.ok_or(FeedError::Forbidden("accounts are not enabled on this server"))?;
        let issued = issuer.issue(user, now() / 1_000).map_err(|error| {
            tracing::error!(%error, "a token could not be signed");
            FeedError::Internal
        })?;
        let token = issued.token.reveal().to_owned();
        Ok(SignedIn { user: user.clone(), token, expires_at: issued.expires_at * 1_000 })
    }
}

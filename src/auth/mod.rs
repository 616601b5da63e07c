//! Credentials: tokens of users, API keys of backends, passwords of accounts.
//!
//! This module reads neither a clock nor a store: the current time and stored values are parameters. Only the password
//! queue and the end of a sign-in attempt use the clock of the process.

mod api_key;
mod claims;
mod issuer;
mod password;
mod raw_claims;
mod revocations;
mod sign_in_guard;
mod tokens;

pub use api_key::ApiKeys;
pub use claims::{ConnectClaims, SubscribeClaims, SubscribeOptions, TokenError, TokenIdentity, TokenKind};
pub use issuer::{Issued, Issuer, SessionIssuer};
pub use password::{PasswordError, Passwords, Verdict};
pub use revocations::{RevocationList, Revoked};
pub use sign_in_guard::{SignInAttempt, SignInGuard};
pub use tokens::{KeyError, Verifier};

//! Credentials: tokens of users, API keys of backends, passwords of accounts.
//!
//! No file here reads a clock or a store: time and stored values are parameters.

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

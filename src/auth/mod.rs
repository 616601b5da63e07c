//! Who somebody is: tokens of users, keys of backends, passwords of accounts.
//!
//! Nothing here reads a clock or a store: time and what is stored are passed in.

mod api_key;
mod claims;
mod issuer;
mod password;
mod revocations;
mod sign_in_guard;
mod tokens;

pub use api_key::ApiKeys;
pub use issuer::{Issued, Issuer, SessionIssuer};
pub use password::{PasswordError, Passwords, Verdict};
pub use revocations::{RevocationList, Revoked};
pub use sign_in_guard::{Attempt, SignInGuard};
pub use tokens::{
    ConnectClaims, KeyError, SubscribeClaims, SubscribeOptions, TokenError, TokenIdentity, TokenKind, Verifier,
};

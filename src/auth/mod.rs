//! Credentials: tokens of users, API keys of backends, passwords of accounts.
//!
//! This module reads neither a clock nor a store: the current time and stored values are parameters. Only the password
//! queue, the end of a sign-in attempt and the age of fetched keys use the clock of the process.

mod api_key;
mod claims;
mod config;
mod issuer;
mod issuer_config;
mod jwks;
mod password;
mod raw_claims;
mod remote_keys;
mod revocations;
mod secrets;
mod sign_in_guard;
mod tokens;
mod trusted_issuer;
mod verification_key;

pub use api_key::ApiKeys;
pub use claims::{ConnectClaims, SubscribeClaims, SubscribeOptions, TokenError, TokenIdentity, TokenKind};
pub use config::{AccountsConfig, AuthConfig};
pub use issuer::{Issued, Issuer, SessionIssuer};
pub use issuer_config::IssuerConfig;
pub use jwks::{KeySet, KeySetError};
pub use password::{PasswordError, Passwords, Verdict};
pub use remote_keys::{KeyLookup, MissingKey, RemoteKeys};
pub use revocations::{RevocationList, Revoked};
pub use secrets::Secrets;
pub use sign_in_guard::{SignInAttempt, SignInGuard};
pub use tokens::{KeyError, Verifier};

//! Who somebody is: tokens of users, keys of backends, passwords of accounts.
//!
//! Nothing here reads a clock or a store: time and what is stored are passed in.

mod api_key;
mod password;
mod tokens;

pub use api_key::ApiKeys;
pub use password::{PasswordError, Passwords, Verdict};
pub use tokens::{ConnectClaims, Issued, Issuer, KeyError, SubscribeClaims, SubscribeOptions, TokenError, Verifier};

//! Identity: the identity of callers, and the validity of their credentials.
//!
//! | file | contents |
//! |---|---|
//! | `verifier.rs` | checks callers |
//! | `user_origins.rs` | the origins of user ids |
//! | `revocations.rs` | revoked tokens and sessions, blocked users |
//! | `authorization_checks.rs` | the connections that a revocation concerns |
//! | `accounts.rs` | sign up, sign in, sign out, passwords |
//! | `erased_users.rs` | hides erased users |
//! | `standings.rs` | limited and suspended users |
//! | `erasure_records.rs`, `erasure_log.rs` | erasures on record, also beside the backups |
//!
//! A user's id comes either from an account created here or from the application (a token, or a backend's `X-User`).
//! The origin never changes: neither side can take the other's ids. The ledger records it once for each id; this node
//! caches it. Revoked tokens are looked up in memory, so authorising a request costs no store call.

mod accounts;
mod authorization_checks;
mod erased_users;
mod erasure_log;
mod erasure_records;
mod revocations;
mod standings;
mod user_origins;
mod verifier;

pub(crate) use accounts::{AccountService, PasswordChange, SignIn, SignOut, SignUp, SignedIn};
pub(crate) use authorization_checks::AuthorizationChecks;
pub use authorization_checks::PendingChecks;
pub(crate) use erased_users::ErasedUsers;
pub(crate) use erasure_log::ErasureLog;
pub use erasure_log::{ErasureLogContents, ErasureLogEntry, read_erasure_log};
pub(crate) use erasure_records::ErasureRecords;
pub(crate) use revocations::{LogProgress, RevocationService};
pub(crate) use standings::Standings;
pub(crate) use user_origins::UserOrigins;
pub(crate) use verifier::IdentityService;
pub use verifier::NewUser;

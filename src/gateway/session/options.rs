//! The settings of sessions.

use std::sync::Arc;

use super::client_config::ClientConfig;
use crate::auth::{RevocationList, Verifier};
use crate::gateway::channels::Channels;
use crate::hooks::HookPolicy;
use crate::reloadable::Reloadable;

/// The name and version of this server in replies.
pub const VERSION: &str = concat!("feedline ", env!("CARGO_PKG_VERSION"));

/// Settings that all sessions of a server share.
#[derive(Debug)]
pub struct SessionOptions {
    /// Verifies tokens.
    pub verifier: Reloadable<Verifier>,
    /// The revoked tokens and blocked users. Written by the feed.
    pub revocations: Arc<RevocationList>,
    /// The channels of this server.
    pub channels: Channels,
    /// Whether clients may connect without a token.
    pub anonymous: bool,
    /// The limits of one client. Some apply to backends, too.
    pub client: ClientConfig,
    /// What the application's backend is asked.
    pub hooks: HookPolicy,
}

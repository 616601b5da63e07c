//! The settings of sessions.

use std::sync::Arc;
use std::time::Duration;

use crate::auth::{RevocationList, Verifier};
use crate::gateway::channels::Channels;
use crate::hooks::HookPolicy;

/// The name and version of this server in replies.
pub const VERSION: &str = concat!("feedline ", env!("CARGO_PKG_VERSION"));

/// Settings that all sessions of a server share.
#[derive(Debug)]
pub struct SessionOptions {
    /// Verifies tokens.
    pub verifier: Verifier,
    /// The revoked tokens and blocked users. Written by the feed.
    pub revocations: Arc<RevocationList>,
    /// The channels of this server.
    pub channels: Channels,
    /// Whether clients may connect without a token.
    pub anonymous: bool,
    /// Whether the server subscribes signed-in users to `#<user>`.
    pub personal_channels: bool,
    /// Whether a new connection of a signed-in user closes the user's others.
    pub single_connection: bool,
    /// Whether the server subscribes the users of the application to their timelines and notifications.
    pub feed_channels: bool,
    /// The maximum number of client-side subscriptions. Also the maximum number of channels that a connect token may
    /// name.
    pub max_channels: usize,
    /// The maximum length of a channel name, in bytes.
    pub channel_length: usize,
    /// The maximum number of commands per second; bursts may be twice as large. `None`: unlimited.
    pub commands_per_second: Option<u32>,
    /// The maximum number of publications in one reply to `history`.
    pub history_limit: usize,
    /// The maximum number of clients in one reply to `presence`.
    pub presence_limit: usize,
    /// The interval between pings.
    pub ping_interval: Duration,
    /// How long the server waits for a pong.
    pub pong_timeout: Duration,
    /// How long the server waits for the `connect` command.
    pub connect_timeout: Duration,
    /// What the application's backend is asked.
    pub hooks: HookPolicy,
}

//! Presence: the clients in a channel.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::Result;

/// The maximal number of expired entries that one call removes. A call adds at most one entry, so expired entries do
/// not accumulate, and no single call removes all entries of a node that died with thousands of clients.
pub(super) const EXPIRED_PER_CALL: usize = 100;

/// A client that is in a channel.
#[derive(Clone, Copy, Debug)]
pub struct PresentClient<'a> {
    /// The client id, one for each connection.
    pub client: &'a str,
    /// Its user, a [`UserId`](crate::model::UserId) in text form; empty for an anonymous client.
    pub user: &'a str,
    /// The `ClientInfo` of the client, as JSON.
    pub info: &'a Bytes,
}

/// The size of a channel's presence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PresenceStats {
    /// The number of clients.
    pub clients: u64,
    /// The number of distinct users. All anonymous clients together count as one.
    pub users: u64,
}

/// Presence in channels. An entry expires unless it is renewed. The number of entries that a call reads and removes is
/// bounded.
#[async_trait]
pub trait PresenceStore: Send + Sync {
    /// Adds a client to a channel, or renews its entry, for `ttl` from now.
    async fn present(&self, channel: &str, client: PresentClient<'_>, ttl: Duration) -> Result<()>;

    /// Removes a client from a channel.
    async fn absent(&self, channel: &str, client: &str) -> Result<()>;

    /// Returns the clients in a channel with their `ClientInfo`: at most `limit` of them, those that were renewed last.
    async fn presence(&self, channel: &str, limit: usize) -> Result<Vec<(String, Bytes)>>;

    /// Counts the clients and users in a channel, without reading them. In memory, expired entries may be counted until
    /// a few more calls have removed them.
    async fn presence_stats(&self, channel: &str) -> Result<PresenceStats>;
}

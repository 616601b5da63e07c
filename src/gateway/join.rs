//! Joining a channel: the request that a session grants, and the position at which the hub added the client.

use std::net::IpAddr;
use std::sync::Arc;

use super::channels::ResolvedChannel;
use crate::auth::TokenIdentity;
use crate::model::{Position, UserId};
use crate::protocol::{ClientInfo, Publication, Recover};

/// A subscription that the session grants. Whether the user may see the object of the channel is checked when it is
/// executed.
#[derive(Debug)]
pub struct Join {
    /// The command's id; 0 of a server-side subscription.
    pub id: u32,
    /// The channel's name.
    pub name: Arc<str>,
    /// The channel.
    pub channel: ResolvedChannel,
    /// The position from which the client recovers.
    pub recover: Recover,
    /// When the subscription expires, in Unix seconds; `None` is never.
    pub expires_at: Option<u64>,
    /// The subscription token, if the client sent one.
    pub token: Option<Arc<TokenIdentity>>,
    /// The client as other subscribers see it, where the channel has presence or pushes joins.
    pub info: Option<ClientInfo>,
    /// The client's user; `None` of an anonymous client.
    pub user: Option<UserId>,
    /// The client's address: what the client recovers is counted by it.
    pub address: IpAddr,
}

/// The result of joining a channel.
#[derive(Debug, Default)]
pub struct Joined {
    /// The position of the channel: later entries are pushed. `None` of a channel without a log.
    pub position: Option<Position>,
    /// All publications between the position of [`Join::recover`] and [`position`](Self::position). `None` if the
    /// client did not ask for them, or they are not complete.
    pub missed: Option<Vec<Publication>>,
}

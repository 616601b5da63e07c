//! Joining a channel: the request that a session grants, and the position at which the hub added the client.

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::ResolvedChannel;
use super::subscription_features::SubscriptionFeatures;
use crate::auth::TokenIdentity;
use crate::model::{Position, UserId};
use crate::protocol::{ClientInfo, Publication, Recover};

/// A subscription that the session grants. Whether the user may see the object of the channel is checked when it is
/// executed.
#[derive(Debug)]
pub struct Join {
    /// The command's id; 0 of a server-side subscription.
    pub id: u32,
    /// The channel's name, as it is stored and found: see [`canonical_name`](crate::model::canonical_name).
    pub name: Arc<str>,
    /// The name as the client wrote it, if that differs. Replies and pushes contain it.
    pub spelling: Option<Arc<str>>,
    /// The channel.
    pub channel: ResolvedChannel,
    /// The position from which the client recovers.
    pub recover: Recover,
    /// Whether the client receives publications as patches. Only if it follows the position of the channel.
    pub wants_deltas: bool,
    /// When the subscription expires, in Unix seconds; `None` is never.
    pub expires_at: Option<u64>,
    /// The subscription token, if the client sent one.
    pub token: Option<Arc<TokenIdentity>>,
    /// What the subscription has.
    pub features: SubscriptionFeatures,
    /// The client as other subscribers see it, if they learn of it.
    pub info: Option<ClientInfo>,
    /// What other subscribers see of the client in this channel: JSON.
    pub chan_info: Option<Box<RawValue>>,
    /// JSON for the reply, from the token.
    pub data: Option<Box<RawValue>>,
    /// The client's user; `None` of an anonymous client.
    pub user: Option<UserId>,
    /// The client's address: what the client recovers is counted by it.
    pub address: IpAddr,
}

impl Join {
    /// The name for replies and pushes.
    pub fn shown_name(&self) -> &Arc<str> {
        self.spelling.as_ref().unwrap_or(&self.name)
    }

    /// Replaces the user by the id as first written: in what others see of the client, and in the names of the user's
    /// own channels, unless the client wrote these.
    pub fn respell(&mut self, user: &UserId) {
        if let Some(info) = &mut self.info {
            user.shown().clone_into(&mut info.user);
        }
        let prefix = self.name.strip_suffix(user.as_str());
        if let (Some(prefix @ ("timeline:" | "notifications:" | "#")), None, Some(handle)) =
            (prefix, &self.spelling, user.handle())
        {
            self.spelling = Some(format!("{prefix}{handle}").into());
        }
        self.user = Some(user.clone());
    }
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

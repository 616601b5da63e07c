//! The client of a session: the connection, and the identity that its token proves.

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::options::SessionOptions;
use super::refusal::disconnect_for;
use super::time::SessionTime;
use crate::auth::TokenIdentity;
use crate::gateway::channels::ResolvedChannel;
use crate::model::UserId;
use crate::protocol::{ClientInfo, Disconnect};

/// The connection of a session.
#[derive(Debug)]
pub(super) struct SessionContext {
    pub(super) options: Arc<SessionOptions>,
    /// The id of the connection.
    pub(super) client: Arc<str>,
    /// The client's address.
    pub(super) address: IpAddr,
}

/// The identity of a client, from its connect token.
#[derive(Debug, Default)]
pub(super) struct ClientIdentity {
    /// The user; `None` for an anonymous client.
    pub(super) user: Option<UserId>,
    /// The token of `connect`, or of the last `refresh`.
    pub(super) token: Option<Arc<TokenIdentity>>,
    /// The `info` claim of the token, which other subscribers receive.
    pub(super) info: Option<Box<RawValue>>,
    /// When the connection expires, in Unix seconds; `None`: never.
    pub(super) expires_at: Option<u64>,
    /// A digest of the channels that the token names. A refresh cannot change them; only a new connection can.
    pub(super) channels: u64,
}

impl SessionContext {
    /// The description of the client for other subscribers. `chan_info` comes from the token of the subscription.
    pub(super) fn client_info(&self, identity: &ClientIdentity, chan_info: Option<Box<RawValue>>) -> ClientInfo {
        ClientInfo {
            user: identity.user.as_ref().map_or("", UserId::as_str).to_owned(),
            client: self.client.to_string(),
            conn_info: identity.info.clone(),
            chan_info,
        }
    }

    /// The same as [`client_info`](Self::client_info), if the channel has presence or announces joins; otherwise
    /// `None`.
    pub(super) fn presence_info(
        &self,
        identity: &ClientIdentity,
        channel: &ResolvedChannel,
        chan_info: Option<Box<RawValue>>,
    ) -> Option<ClientInfo> {
        (channel.has_presence() || channel.tells_joins()).then(|| self.client_info(identity, chan_info))
    }

    /// Checks that the token is not revoked and the user is not blocked.
    pub(super) fn check_revoked(
        &self,
        user: Option<&UserId>,
        token: &TokenIdentity,
        now: SessionTime,
    ) -> Result<(), Disconnect> {
        self.options.revocations.check(user, Some(token), now.unix.saturating_mul(1_000)).map_err(disconnect_for)
    }
}

//! The client of a session: the connection, and the identity that its token proves.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::HeaderMap;
use serde_json::value::RawValue;

use super::close_codes::disconnect_for;
use super::options::SessionOptions;
use super::time::SessionTime;
use crate::auth::{SubscribeOptions, TokenIdentity};
use crate::gateway::channels::ResolvedChannel;
use crate::gateway::channels::join::Join;
use crate::gateway::channels::subscription_features::SubscriptionFeatures;
use crate::model::{UserId, canonical_name};
use crate::protocol::{ClientInfo, Disconnect, Recover};

/// How the server pings a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PingKind {
    /// With empty messages, which the client answers with empty commands.
    #[default]
    Message,
    /// With pings of the transport, which the client's WebSocket library answers.
    Frame,
    /// With empty messages that no client answers: it cannot send anything.
    OneWay,
}

/// The connection of a session.
#[derive(Clone, Debug)]
pub struct SessionClient {
    /// The id of the connection.
    pub id: Arc<str>,
    /// The address of the client.
    pub address: IpAddr,
    /// How the client is pinged.
    pub pings: PingKind,
    /// The headers of the handshake that the application's backend receives.
    pub headers: Option<Arc<HeaderMap>>,
}

/// The connection of a session, with the settings of all sessions.
#[derive(Debug)]
pub(super) struct SessionContext {
    pub(super) options: Arc<SessionOptions>,
    /// The id of the connection.
    pub(super) client: Arc<str>,
    /// The client's address.
    pub(super) address: IpAddr,
    /// How the client is pinged.
    pub(super) pings: PingKind,
    /// The client's headers that the application's backend receives.
    pub(super) headers: Option<Arc<HeaderMap>>,
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
    /// The `meta` claim of the token, for the application's backend.
    pub(super) meta: Option<Box<RawValue>>,
    /// When the connection expires, in Unix seconds; `None`: never.
    pub(super) expires_at: Option<u64>,
    /// A digest of the channels that the token names. A refresh cannot change them; only a new connection can.
    pub(super) channels: u64,
}

impl SessionContext {
    /// The description of the client for other subscribers. `chan_info` comes from the token of the subscription.
    pub(super) fn client_info(&self, identity: &ClientIdentity, chan_info: Option<Box<RawValue>>) -> ClientInfo {
        ClientInfo {
            user: identity.user.as_ref().map_or("", UserId::shown).to_owned(),
            client: self.client.to_string(),
            conn_info: identity.info.clone(),
            chan_info,
        }
    }

    /// The subscription of a client to a channel. It recovers only what `recover` says, has no deltas and does not
    /// expire.
    pub(super) fn join(
        &self,
        identity: &ClientIdentity,
        name: &str,
        channel: ResolvedChannel,
        recover: Recover,
        options: SubscribeOptions,
    ) -> Join {
        let canonical = canonical_name(name);
        let SubscribeOptions { info: chan_info, data, replaced } = options;
        let features = SubscriptionFeatures::of(&channel, &replaced);
        let info = features.is_visible().then(|| self.client_info(identity, chan_info.clone()));
        Join {
            id: 0,
            spelling: (canonical != name).then(|| name.into()),
            name: canonical.into(),
            channel,
            // Without a position, there is nothing to recover from.
            recover: if features.recoverable { recover } else { Recover::default() },
            wants_deltas: false,
            expires_at: None,
            token: None,
            features,
            info,
            chan_info,
            data,
            user: identity.user.clone(),
            address: self.address,
        }
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

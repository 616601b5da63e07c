//! The sockets of this node by user. They are closed at the request of a backend, or when their token is revoked.

use std::sync::{Arc, Weak};

use dashmap::DashMap;
use parking_lot::Mutex;

use super::client_map::ClientMap;
use crate::auth::{Revoked, TokenIdentity};
use crate::broker::{ConnectionSelector, DisconnectRequest};
use crate::feed::outlet::ConnectionActivity;
use crate::feed::{ConnectedUsers, DeviceUsage, PendingChecks};
use crate::gateway::session::{SubscriptionTokens, disconnect_for};
use crate::gateway::transport::stream_sessions::StreamSessions;
use crate::gateway::wire::outbox::Outbox;
use crate::gateway::wire::outgoing::Outgoing;
use crate::model::UserId;
use crate::protocol::Disconnect;

/// The connected sockets of this node, by user and connection id. The key of anonymous clients is `None`.
pub(crate) struct UserSockets {
    streams: Arc<StreamSessions>,
    by_user: DashMap<Option<UserId>, ClientMap<RegisteredSocket>>,
    /// Learns of users who connect to this node and leave it; `None`: nobody wants to.
    activity: Option<Arc<ConnectionActivity>>,
    /// Learns of users who leave this node.
    devices: Weak<DeviceUsage>,
}

impl std::fmt::Debug for UserSockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserSockets").field("by_user", &self.by_user).finish_non_exhaustive()
    }
}

impl ConnectedUsers for UserSockets {
    fn connected_users(&self) -> Vec<UserId> {
        self.by_user.iter().filter_map(|entry| entry.key().clone()).collect()
    }
}

/// A connected socket.
#[derive(Debug)]
struct RegisteredSocket {
    /// The token of `connect` or of the last `refresh`; `None` for an anonymous client.
    token: Option<Arc<TokenIdentity>>,
    /// The tokens of the subscriptions that required one.
    subscriptions: SubscriptionTokens,
    outbox: Arc<Outbox>,
}

/// The connections and subscriptions that a revocation ends.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// The connections to close, each with its close code.
    pub(crate) sockets: Vec<(Arc<Outbox>, Disconnect)>,
    /// The subscriptions to end, by channel.
    pub(crate) subscriptions: Vec<(Arc<Outbox>, Arc<str>)>,
}

/// Registers a socket until it is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    sockets: Arc<UserSockets>,
    user: Option<UserId>,
    client: Arc<str>,
    token: Option<Arc<TokenIdentity>>,
}

impl RegisteredSocket {
    /// Whether the socket of a user's client is selected. An empty client or session matches every socket. `streaming`:
    /// the client of the stream with this session.
    fn is_selected(&self, client: &str, by: &ConnectionSelector, streaming: Option<&str>) -> bool {
        let of_client = by.client.is_empty() || by.client == client;
        let session = self.token.as_ref().and_then(|token| token.id.as_deref()).unwrap_or_default();
        of_client && (by.session.is_empty() || by.session == session || streaming == Some(client))
    }
}

impl UserSockets {
    /// No sockets yet. `activity` and `devices` learn of the users.
    pub(crate) fn new(
        streams: Arc<StreamSessions>,
        activity: Option<Arc<ConnectionActivity>>,
        devices: Weak<DeviceUsage>,
    ) -> Self {
        Self { streams, by_user: DashMap::new(), activity, devices }
    }

    /// Registers a socket.
    pub(crate) fn register(
        self: &Arc<Self>,
        user: Option<UserId>,
        client: &Arc<str>,
        token: Option<Arc<TokenIdentity>>,
        outbox: &Arc<Outbox>,
    ) -> Registration {
        let socket = RegisteredSocket { token: token.clone(), subscriptions: Vec::new(), outbox: Arc::clone(outbox) };
        let mut sockets = self.by_user.entry(user.clone()).or_default();
        if let (true, Some(activity), Some(user)) = (sockets.is_empty(), &self.activity, &user) {
            activity.connected(user);
        }
        sockets.insert(Arc::clone(client), socket);
        drop(sockets);
        Registration { sockets: Arc::clone(self), user, client: Arc::clone(client), token }
    }

    /// Closes the sockets to which a backend's disconnect request applies.
    pub(crate) fn disconnect(&self, request: &DisconnectRequest) {
        for (client, outbox) in self.select(&request.connections) {
            if request.whitelist.iter().any(|spared| *spared == *client) {
                continue;
            }
            tracing::debug!(%client, code = request.code, "disconnected by a backend");
            outbox.close(Disconnect { code: request.code, reason: request.reason.clone().into() });
        }
    }

    /// Puts an item into the send queues of the selected sockets.
    pub(crate) fn push(&self, connections: &ConnectionSelector, item: &Outgoing) {
        for (_, outbox) in self.select(connections) {
            outbox.push(item.clone());
        }
    }

    /// The selected sockets, by client.
    fn select(&self, by: &ConnectionSelector) -> Vec<(Arc<str>, Arc<Outbox>)> {
        let user = match by.user.as_str() {
            "" => None,
            user => match UserId::parse(user) {
                Some(user) => Some(user),
                None => return Vec::new(),
            },
        };
        let Some(sockets) = self.by_user.get(&user) else { return Vec::new() };
        let streaming = self.streams.client(&by.session);
        let selected = sockets.iter().filter(|(client, socket)| socket.is_selected(client, by, streaming.as_deref()));
        selected.map(|(client, socket)| (Arc::clone(client), Arc::clone(&socket.outbox))).collect()
    }

    /// The number of signed-in users with a socket.
    pub(crate) fn users(&self) -> usize {
        self.by_user.len().saturating_sub(usize::from(self.by_user.contains_key(&None)))
    }

    /// The send queues of a user's sockets.
    pub(crate) fn outboxes(&self, user: &UserId) -> Vec<Arc<Outbox>> {
        let Some(sockets) = self.by_user.get(&Some(user.clone())) else { return Vec::new() };
        sockets.iter().map(|(_, socket)| Arc::clone(&socket.outbox)).collect()
    }

    /// Checks the sockets of the pending users and their subscriptions. Returns those that `check` refuses.
    pub(crate) fn refused(
        &self,
        pending: &PendingChecks,
        check: impl Fn(Option<&UserId>, Option<&TokenIdentity>) -> Result<(), Revoked>,
    ) -> Refused {
        let found = Mutex::new(Refused::default());
        let look = |user: &Option<UserId>, sockets: &ClientMap<RegisteredSocket>| {
            for (_, socket) in sockets.iter() {
                if let Err(revoked) = check(user.as_ref(), socket.token.as_deref()) {
                    found.lock().sockets.push((Arc::clone(&socket.outbox), disconnect_for(revoked)));
                    continue;
                }
                for (channel, token) in &socket.subscriptions {
                    if check(user.as_ref(), Some(token)).is_err() {
                        found.lock().subscriptions.push((Arc::clone(&socket.outbox), Arc::clone(channel)));
                    }
                }
            }
        };
        if pending.all {
            self.by_user.iter().for_each(|entry| look(entry.key(), entry.value()));
        } else {
            for user in &pending.users {
                if let Some(entry) = self.by_user.get(&Some(user.clone())) {
                    look(entry.key(), entry.value());
                }
            }
        }
        found.into_inner()
    }
}

impl Registration {
    /// Stores the token of a `refresh`. Returns whether it differs from the current one.
    pub(crate) fn renew(&mut self, token: Option<&Arc<TokenIdentity>>) -> bool {
        if self.token.as_ref().map(Arc::as_ptr) == token.map(Arc::as_ptr) {
            return false;
        }
        self.token = token.cloned();
        if let Some(mut sockets) = self.sockets.by_user.get_mut(&self.user)
            && let Some(socket) = sockets.get_mut(&self.client)
        {
            socket.token = self.token.clone();
        }
        true
    }

    /// Stores the tokens of the socket's subscriptions.
    pub(crate) fn set_subscriptions(&self, tokens: SubscriptionTokens) {
        if let Some(mut sockets) = self.sockets.by_user.get_mut(&self.user)
            && let Some(socket) = sockets.get_mut(&self.client)
        {
            socket.subscriptions = tokens;
        }
    }

    /// The user of the socket; `None` for an anonymous client.
    pub(crate) fn user(&self) -> Option<&UserId> {
        self.user.as_ref()
    }

    /// The token of `connect` or of the last `refresh`; `None` for an anonymous client.
    pub(crate) fn token(&self) -> Option<&TokenIdentity> {
        self.token.as_deref()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(mut sockets) = self.sockets.by_user.get_mut(&self.user) {
            sockets.remove(&self.client);
        }
        self.sockets.by_user.remove_if(&self.user, |user, sockets| {
            // Reported under the lock of the entry, so that reports of one user are in order.
            if let (true, Some(user)) = (sockets.is_empty(), user) {
                if let Some(devices) = self.sockets.devices.upgrade() {
                    devices.on_left(user);
                }
                if let Some(activity) = &self.sockets.activity {
                    activity.gone(user);
                }
            }
            sockets.is_empty()
        });
    }
}

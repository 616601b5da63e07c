//! The sockets of this node by user. They are closed at the request of a backend, or when their token is revoked.

use std::collections::HashMap;
use std::sync::Arc;

use dashmap::DashMap;
use parking_lot::Mutex;

use super::outbox::Outbox;
use super::session::{SubscriptionTokens, disconnect_for};
use crate::auth::{Revoked, TokenIdentity};
use crate::broker::DisconnectRequest;
use crate::feed::PendingChecks;
use crate::model::UserId;
use crate::protocol::Disconnect;

/// The connected sockets of this node, by user and connection id. The key of anonymous clients is `None`.
#[derive(Debug, Default)]
pub(super) struct UserSockets {
    by_user: DashMap<Option<UserId>, HashMap<Arc<str>, RegisteredSocket>>,
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
pub(super) struct Refused {
    /// The connections to close, each with its close code.
    pub(super) sockets: Vec<(Arc<Outbox>, Disconnect)>,
    /// The subscriptions to end, by channel.
    pub(super) subscriptions: Vec<(Arc<Outbox>, Arc<str>)>,
}

/// Registers a socket until it is dropped.
#[derive(Debug)]
pub(super) struct Registration {
    sockets: Arc<UserSockets>,
    user: Option<UserId>,
    client: Arc<str>,
    token: Option<Arc<TokenIdentity>>,
}

impl RegisteredSocket {
    /// Whether a disconnect request for the user applies to this socket. An empty client or session matches every
    /// socket; clients on the whitelist are spared.
    fn is_meant(&self, client: &str, request: &DisconnectRequest) -> bool {
        let of_client = request.client.is_empty() || request.client == client;
        let session = self.token.as_ref().and_then(|token| token.id.as_deref()).unwrap_or_default();
        let of_session = request.session.is_empty() || request.session == session;
        of_client && of_session && !request.whitelist.iter().any(|spared| spared == client)
    }
}

impl UserSockets {
    /// Registers a socket.
    pub(super) fn register(
        self: &Arc<Self>,
        user: Option<UserId>,
        client: &Arc<str>,
        token: Option<Arc<TokenIdentity>>,
        outbox: &Arc<Outbox>,
    ) -> Registration {
        let socket = RegisteredSocket { token: token.clone(), subscriptions: Vec::new(), outbox: Arc::clone(outbox) };
        self.by_user.entry(user.clone()).or_default().insert(Arc::clone(client), socket);
        Registration { sockets: Arc::clone(self), user, client: Arc::clone(client), token }
    }

    /// Closes the sockets to which a backend's disconnect request applies.
    pub(super) fn disconnect(&self, request: &DisconnectRequest) {
        let user = match request.user.as_str() {
            "" => None,
            user => match UserId::parse(user) {
                Some(user) => Some(user),
                None => return,
            },
        };
        let Some(sockets) = self.by_user.get(&user) else { return };
        for (client, socket) in sockets.iter().filter(|(client, socket)| socket.is_meant(client, request)) {
            tracing::debug!(%client, code = request.code, "disconnected by a backend");
            socket.outbox.close(Disconnect { code: request.code, reason: request.reason.clone().into() });
        }
    }

    /// Checks the sockets of the pending users and their subscriptions. Returns those that `check` refuses.
    pub(super) fn refused(
        &self,
        pending: &PendingChecks,
        check: impl Fn(Option<&UserId>, Option<&TokenIdentity>) -> Result<(), Revoked>,
    ) -> Refused {
        let found = Mutex::new(Refused::default());
        let look = |user: &Option<UserId>, sockets: &HashMap<Arc<str>, RegisteredSocket>| {
            for socket in sockets.values() {
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
    pub(super) fn renew(&mut self, token: Option<&Arc<TokenIdentity>>) -> bool {
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
    pub(super) fn set_subscriptions(&self, tokens: SubscriptionTokens) {
        if let Some(mut sockets) = self.sockets.by_user.get_mut(&self.user)
            && let Some(socket) = sockets.get_mut(&self.client)
        {
            socket.subscriptions = tokens;
        }
    }

    /// The user of the socket; `None` for an anonymous client.
    pub(super) fn user(&self) -> Option<&UserId> {
        self.user.as_ref()
    }

    /// The token of `connect` or of the last `refresh`; `None` for an anonymous client.
    pub(super) fn token(&self) -> Option<&TokenIdentity> {
        self.token.as_deref()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(mut sockets) = self.sockets.by_user.get_mut(&self.user) {
            sockets.remove(&self.client);
        }
        self.sockets.by_user.remove_if(&self.user, |_, sockets| sockets.is_empty());
    }
}

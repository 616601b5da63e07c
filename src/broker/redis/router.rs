//! Routes the messages of a pub/sub connection to the listener.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;

use super::hint::Hint;
use super::invalidation_log::InvalidationLog;
use super::keys::Keys;
use super::node_hints::{NodeHint, Redirector};
use super::subscribed_channels::SubscribedChannels;
use crate::broker::listener::ListenerCell;
use crate::broker::{MessageListener, Signal};
use crate::model::Position;

/// Routes messages to the listener.
#[derive(Clone)]
pub(super) struct MessageRouter {
    pub(super) keys: Keys,
    /// The channel on which the node publishes probes to itself.
    pub(super) probe: Arc<str>,
    /// The channel of the signals for this node alone. They are handled as those for all nodes.
    pub(super) node_signals: Arc<str>,
    pub(super) listener: ListenerCell,
    pub(super) invalidations: Arc<InvalidationLog>,
    /// The channels of the invalidation log: invalidations, and confirmations for this node.
    pub(super) log_channels: [String; 2],
    pub(super) subscriptions: Arc<SubscribedChannels>,
    pub(super) redirector: Redirector,
    /// The connection whose messages these are.
    pub(super) connection: ConnectionName,
}

/// The health of the connection.
#[derive(Default)]
pub(super) struct ConnectionHealth {
    /// Notified when the connection is lost.
    pub(super) lost: Notify,
    /// Probes that have not arrived since the last one that did.
    pub(super) unanswered: AtomicU32,
}

impl MessageRouter {
    /// Delivers a message. Runs in the connection's own task.
    pub(super) fn push(&self, health: &ConnectionHealth, push: PushInfo) {
        match push.kind {
            PushKind::Disconnection => health.lost.notify_one(),
            PushKind::Message => {
                let mut data = push.data.into_iter();
                if let (Some(Value::BulkString(to)), Some(Value::BulkString(payload))) = (data.next(), data.next()) {
                    self.message(health, &to, &payload.into());
                }
            }
            _ => {}
        }
    }

    fn message(&self, health: &ConnectionHealth, to: &[u8], payload: &Bytes) {
        let Ok(to) = std::str::from_utf8(to) else { return };
        if to == &*self.probe {
            health.unanswered.store(0, Ordering::Relaxed);
            return;
        }
        let [invalidations, confirmations] = &self.log_channels;
        if to == invalidations {
            return self.invalidations.on_published(payload);
        }
        if to == confirmations {
            return self.invalidations.on_confirmation(payload);
        }
        let Some(listener) = self.listener.get() else { return };
        if to == &*self.connection.channel {
            return self.node_hint(&**listener, payload);
        }
        let Some(channel) = self.keys.channel(to) else {
            if let Some(signal) = Signal::decode(payload) {
                listener.signal(signal);
            }
            return;
        };
        match Hint::decode(payload) {
            Some(Hint::Entry(position, entry)) => {
                listener.entry(channel, position.as_ref().map(Position::borrowed), &entry);
            }
            Some(Hint::PresenceEvent(event)) => listener.presence_event(channel, &event),
            // Of a newer version: subscribers detect the gap in the log.
            None => {}
        }
    }

    /// Delivers the hints of many inboxes. Those of inboxes to whose channels this connection is not subscribed are
    /// redirected.
    fn node_hint(&self, listener: &dyn MessageListener, payload: &Bytes) {
        let Some(hint) = NodeHint::decode(payload) else { return };
        let is_subscribed = |inbox: &(&str, _)| self.subscriptions.is_subscribed(inbox.0, self.connection.number);
        let mut names = String::new();
        let (delivered, misrouted): (Vec<_>, Vec<_>) = hint.inboxes(&mut names).partition(is_subscribed);
        listener.entries(&delivered, &hint.entry);
        if !misrouted.is_empty() {
            self.redirector.redirect(&self.connection.id, &hint, &misrouted);
        }
    }

    /// The same for the messages of another connection.
    pub(super) fn of(&self, number: u64) -> Self {
        let id: Arc<str> = self.subscriptions.connection_id(number).into();
        let channel = self.keys.node_hints(&id).into();
        Self { connection: ConnectionName { number, id, channel }, ..self.clone() }
    }
}

/// The names of a pub/sub connection.
#[derive(Clone, Default)]
pub(super) struct ConnectionName {
    /// Its number at this node.
    pub(super) number: u64,
    /// Its id; see [`SubscribedChannels::connection_id`].
    id: Arc<str>,
    /// The pub/sub channel of its own.
    pub(super) channel: Arc<str>,
}

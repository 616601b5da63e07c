//! Receives what the broker sends to this node.

use std::sync::{Arc, Weak};

use super::emulation::on_emulated;
use super::survey::NodeSurvey;
use crate::broker::{Invalidation, MessageListener, PresenceEvent, Signal, UnsubscribeRequest};
use crate::feed::Feed;
use crate::gateway::hub::broadcaster::Broadcaster;
use crate::gateway::hub::room_queue::RoomQueue;
use crate::gateway::hub::room_update::RoomUpdate;
use crate::gateway::hub::rooms::RoomTable;
use crate::gateway::registry::sockets::UserSockets;
use crate::gateway::transport::stream_sessions::StreamSessions;
use crate::gateway::wire::outgoing::Outgoing;
use crate::model::{Entry, PositionRef};

/// The broker's listener. The broker keeps it, so it must hold nothing that holds the broker: the feed and the survey
/// are weak references.
pub(crate) struct MessageDispatcher {
    pub(crate) rooms: Arc<RoomTable>,
    pub(crate) queue: Arc<RoomQueue>,
    pub(crate) broadcaster: Arc<Broadcaster>,
    pub(crate) sockets: Arc<UserSockets>,
    pub(crate) sessions: Arc<StreamSessions>,
    /// Answers questions to nodes. Gone once the server has stopped.
    pub(crate) nodes: Weak<NodeSurvey>,
    /// Handles signals and invalidations. Gone once the server has stopped.
    pub(crate) feed: Weak<Feed>,
}

impl MessageListener for MessageDispatcher {
    fn entry(&self, channel: &str, position: Option<PositionRef<'_>>, entry: &Entry) {
        let Some(room) = self.rooms.get(channel) else { return };
        let update = room.receive(position, entry, &self.broadcaster);
        self.queue.apply(&room, update);
    }

    fn entries(&self, channels: &[(&str, PositionRef<'_>)], entry: &Entry) {
        let mut scheduled = Vec::new();
        for (channel, position) in channels {
            let Some(room) = self.rooms.get(channel) else { continue };
            match room.receive(Some(*position), entry, &self.broadcaster) {
                RoomUpdate::Scheduled => scheduled.push(room),
                update => self.queue.apply(&room, update),
            }
        }
        // All at once: a worker that began with the first room would render the entry again for the others.
        self.queue.push_all(scheduled);
    }

    fn presence_event(&self, channel: &str, event: &PresenceEvent) {
        if let Some(room) = self.rooms.get(channel) {
            room.presence_event(event, &self.broadcaster);
        }
    }

    fn signal(&self, signal: Signal) {
        match signal {
            Signal::Disconnect(request) => self.sockets.disconnect(&request),
            Signal::Subscribe(request) => {
                let request = Arc::new(request);
                self.sockets.push(&request.connections, &Outgoing::Subscribed(Arc::clone(&request)));
            }
            Signal::Unsubscribe(UnsubscribeRequest { connections, channel }) => {
                self.sockets.push(&connections, &Outgoing::Unsubscribed(channel.into()));
            }
            Signal::Refresh(request) => {
                let request = Arc::new(request);
                self.sockets.push(&request.connections, &Outgoing::Refreshed(Arc::clone(&request)));
            }
            Signal::AskNodes { request, question } => {
                if let Some(nodes) = self.nodes.upgrade() {
                    nodes.on_question(request, question);
                }
            }
            Signal::NodeAnswered { request, answer } => {
                if let Some(nodes) = self.nodes.upgrade() {
                    nodes.on_answer(&request, &answer);
                }
            }
            Signal::Emulated(commands) => on_emulated(&self.sessions, commands),
            signal => {
                if let Some(feed) = self.feed.upgrade() {
                    feed.on_signal(signal);
                }
            }
        }
    }

    fn invalidate(&self, what: &[Invalidation]) {
        if let Some(feed) = self.feed.upgrade() {
            feed.base.invalidator.apply(what);
        }
    }

    fn invalidate_all(&self) {
        if let Some(feed) = self.feed.upgrade() {
            feed.base.invalidator.clear();
        }
    }

    fn resync(&self) {
        if let Some(feed) = self.feed.upgrade() {
            feed.on_resync();
        }
        self.queue.request_resync();
    }
}

//! Puts pushes into the send queues of clients.

use std::sync::Arc;

use crate::gateway::outbox::{Outbox, Outgoing};
use crate::gateway::transport::Framed;
use crate::metrics::Metrics;
use crate::model::{Entry, Epoch, Millis};
use crate::protocol::{append_publication, publication_size};

/// Sends one push to many clients: it is encoded once, and all send queues share it.
#[derive(Debug)]
pub(in crate::gateway) struct Broadcaster {
    metrics: Arc<Metrics>,
}

impl Broadcaster {
    pub(in crate::gateway) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics }
    }

    /// Sends a publication: its members, and its place in the log if it has one.
    pub(super) fn publish<'a>(
        &self,
        outboxes: impl Iterator<Item = &'a Outbox>,
        channel: &str,
        members: &[u8],
        place: Option<(u64, &Epoch)>,
    ) {
        let size = publication_size(channel, members);
        let push = Framed::written(size, |push| append_publication(push, channel, members, place));
        self.send_frame(outboxes, &push);
    }

    /// Sends an encoded push.
    pub(super) fn send<'a>(&self, outboxes: impl Iterator<Item = &'a Outbox>, push: &[u8]) {
        self.send_frame(outboxes, &Framed::text(push));
    }

    fn send_frame<'a>(&self, outboxes: impl Iterator<Item = &'a Outbox>, push: &Framed) {
        let mut deliveries = 0;
        for outbox in outboxes {
            deliveries += 1;
            self.queue(outbox, push.clone());
        }
        self.metrics.delivered(deliveries);
    }

    /// Sends several publications to one client, in one frame.
    pub(in crate::gateway) fn send_in_one_frame(&self, outbox: &Outbox, pushes: &[impl AsRef<[u8]>]) {
        let bytes: Vec<&[u8]> = pushes.iter().map(AsRef::as_ref).collect();
        self.queue(outbox, Framed::text(&bytes.join(&b'\n')));
        self.metrics.delivered(pushes.len() as u64);
    }

    fn queue(&self, outbox: &Outbox, push: Framed) {
        if !outbox.push(Outgoing::Push(push)) {
            self.metrics.dropped_slow();
        }
    }

    /// Records how long ago a post was accepted, when it is delivered.
    pub(super) fn record_latency(&self, entry: &Entry, now: Millis) {
        if let Entry::Post(id) = entry {
            self.metrics.published_to_socket(now.saturating_sub(id.time()));
        }
    }
}

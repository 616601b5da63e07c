//! Puts pushes into the send queues of clients.

use std::collections::HashMap;
use std::sync::Arc;

use crate::feed::DeliveryReceipts;
use crate::gateway::wire::framed::Framed;
use crate::gateway::wire::message_codec::PushFrames;
use crate::gateway::wire::outbox::Outbox;
use crate::gateway::wire::outgoing::Outgoing;
use crate::gateway::wire::probe::Probe;
use crate::metrics::Metrics;
use crate::model::{DeliveredNotification, Entry, Millis};
use crate::protocol::Push;

/// A client that a push is for.
#[derive(Clone, Copy)]
pub(super) struct Recipient<'a> {
    pub(super) outbox: &'a Outbox,
    /// The channel's name as the client wrote it, if that differs.
    pub(super) spelling: Option<&'a str>,
}

/// Sends one push to many clients: it is encoded once for each format, and all send queues share it.
#[derive(Debug)]
pub(crate) struct Broadcaster {
    metrics: Arc<Metrics>,
    /// Takes the receipts of notifications; `None`: nobody needs them, since there are no pushes.
    receipts: Option<Arc<DeliveryReceipts>>,
}

impl Broadcaster {
    pub(crate) fn new(metrics: Arc<Metrics>, receipts: Option<Arc<DeliveryReceipts>>) -> Self {
        Self { metrics, receipts }
    }

    /// Pings these clients right behind a notification that may be pushed: their next frame is its receipt.
    pub(super) fn ask_for_receipts<'a>(
        &self,
        outboxes: impl Iterator<Item = &'a Outbox>,
        delivered: DeliveredNotification,
    ) {
        let Some(receipts) = &self.receipts else { return };
        let delivered = Arc::new(delivered);
        for outbox in outboxes {
            outbox.push(Outgoing::Probe(Probe::behind(&delivered, receipts)));
        }
    }

    /// Sends a push to these clients. It is encoded once for each spelling of the channel's name, too.
    /// Returns the number of clients.
    pub(super) fn send<'a>(&self, recipients: impl Iterator<Item = Recipient<'a>>, push: Push<'a>) -> u64 {
        let mut frames = PushFrames::new(push);
        let mut spelled: HashMap<&str, PushFrames<'_>> = HashMap::new();
        let mut deliveries = 0;
        for Recipient { outbox, spelling } in recipients {
            deliveries += 1;
            let frames = match spelling {
                Some(channel) => spelled.entry(channel).or_insert_with(|| PushFrames::new(Push { channel, ..push })),
                None => &mut frames,
            };
            self.queue(outbox, frames.get(outbox.format()).clone());
        }
        self.metrics.delivered(deliveries);
        deliveries
    }

    /// Sends a frame to one client. It contains this number of publications.
    pub(crate) fn send_frame(&self, outbox: &Outbox, frame: &Framed, publications: u64) {
        self.queue(outbox, frame.clone());
        self.metrics.delivered(publications);
    }

    /// As [`send_frame`](Self::send_frame), but the frame waits for another one, or for [`Outbox::flush`].
    pub(crate) fn queue_frame(&self, outbox: &Outbox, frame: Framed, publications: u64) {
        if !outbox.push_for_later(Outgoing::Push(frame)) {
            self.metrics.dropped_slow();
        }
        self.metrics.delivered(publications);
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

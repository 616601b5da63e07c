//! The question to one connection whether its client is there: see `socket_prober`, and `hub::room`.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::feed::DeliveryReceipts;
use crate::model::{DeliveredNotification, PostId, UserId};

/// A question to one connection. It is dropped when the connection ends.
#[derive(Clone, Debug)]
pub struct Probe(Question);

#[derive(Clone, Debug)]
enum Question {
    /// Behind a notification: the answer is a receipt of it.
    Notification { delivered: Arc<DeliveredNotification>, receipts: Arc<DeliveryReceipts> },
    /// Before a push about a post in the timeline of the connection.
    Post { post: (UserId, PostId), answers: mpsc::Sender<(UserId, PostId)> },
}

impl Probe {
    /// A question behind a notification. These take the receipt.
    pub(crate) fn behind(delivered: &Arc<DeliveredNotification>, receipts: &Arc<DeliveryReceipts>) -> Self {
        Self(Question::Notification { delivered: Arc::clone(delivered), receipts: Arc::clone(receipts) })
    }

    /// A question before a push about a post. The answer goes to this channel, which has room for it.
    pub(crate) fn about(post: (UserId, PostId), answers: mpsc::Sender<(UserId, PostId)>) -> Self {
        Self(Question::Post { post, answers })
    }

    /// The client sent a frame after the ping was queued.
    pub(crate) fn answered(self) {
        match self.0 {
            Question::Notification { delivered, receipts } => receipts.record(&delivered),
            // There is room for every answer.
            Question::Post { post, answers } => drop(answers.try_send(post)),
        }
    }
}

impl PartialEq for Probe {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Question::Notification { delivered: one, .. }, Question::Notification { delivered: other, .. }) => {
                Arc::ptr_eq(one, other)
            }
            (Question::Post { post, answers }, Question::Post { post: other, answers: others }) => {
                post == other && answers.same_channel(others)
            }
            _ => false,
        }
    }
}

impl Eq for Probe {}

//! The question to one connection whether its client is there: see `socket_prober`.

use tokio::sync::mpsc;

use crate::model::UserId;

/// A question to one connection. It is dropped when the connection ends.
#[derive(Clone, Debug)]
pub struct Probe {
    user: UserId,
    answers: mpsc::Sender<UserId>,
}

impl Probe {
    /// A question whose answer goes to this channel, which has room for it.
    pub(super) fn new(user: UserId, answers: mpsc::Sender<UserId>) -> Self {
        Self { user, answers }
    }

    /// The client sent a frame after the ping was queued.
    pub(super) fn answered(self) {
        // There is room for every answer.
        let _ = self.answers.try_send(self.user);
    }
}

impl PartialEq for Probe {
    fn eq(&self, other: &Self) -> bool {
        self.user == other.user && self.answers.same_channel(&other.answers)
    }
}

impl Eq for Probe {}

//! A write whose jobs or deliveries are under way.

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit};

/// One write, as its reply knows it.
#[derive(Default)]
pub(super) struct WriteUnderWay {
    state: Mutex<WriteState>,
    /// Signals the reply that the write is not under way any more.
    ended: Notify,
}

#[derive(Default)]
struct WriteState {
    has_ended: bool,
    /// Freed when the write ends.
    permit: Option<OwnedSemaphorePermit>,
}

impl WriteUnderWay {
    /// Keeps the permit of the reply while the write is under way.
    pub(super) fn keep(&self, permit: OwnedSemaphorePermit) {
        let mut state = self.state.lock();
        if !state.has_ended {
            state.permit = Some(permit);
        }
    }

    /// Lets the reply go, and another one if this write was answered before.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.has_ended = true;
        let permit = state.permit.take();
        drop(state);
        drop(permit);
        self.ended.notify_one();
    }

    /// Waits for [`end`](Self::end). At most one task waits.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }
}

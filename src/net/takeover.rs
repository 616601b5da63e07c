//! Takes the stream of an HTTP connection away from the HTTP server, in the middle of a request.
//!
//! The HTTP server does this only for upgrades, with status 101. A response that never ends is served without it, too:
//! for each connection, the server would keep 16 KiB of buffers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The request for the stream of one connection.
#[derive(Debug)]
pub struct Takeover<S>(Arc<TakeoverRequest<S>>);

#[derive(Debug)]
struct TakeoverRequest<S> {
    /// Whether there is a receiver. It is checked for every flush.
    is_requested: AtomicBool,
    receiver: Mutex<Option<oneshot::Sender<S>>>,
}

impl<S> Clone for Takeover<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Default for Takeover<S> {
    fn default() -> Self {
        Self(Arc::new(TakeoverRequest { is_requested: AtomicBool::new(false), receiver: Mutex::default() }))
    }
}

impl<S> Takeover<S> {
    /// Requests the stream. It arrives after the current turn of the HTTP server, which then ends with an error. The
    /// caller must not answer its request.
    pub fn request(&self) -> oneshot::Receiver<S> {
        let (sender, receiver) = oneshot::channel();
        *self.0.receiver.lock() = Some(sender);
        self.0.is_requested.store(true, Ordering::Release);
        receiver
    }

    /// The receiver of the stream, once it was requested.
    pub(super) fn receiver(&self) -> Option<oneshot::Sender<S>> {
        if !self.0.is_requested.load(Ordering::Acquire) {
            return None;
        }
        self.0.receiver.lock().take()
    }
}

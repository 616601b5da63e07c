//! The trait of a transport.

use async_trait::async_trait;

use super::{Outcome, Push};

/// A transport.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Gets what the next message needs besides itself, such as an access token, so that it need not wait for it. A
    /// failure is that of the next message.
    async fn prepare(&self) {}

    /// Sends a message. Every call ends within the configured timeout.
    async fn send(&self, push: &Push) -> Outcome;
}

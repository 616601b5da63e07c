//! The trait of a transport.

use async_trait::async_trait;

use super::{Outcome, Push};

/// A transport.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Sends a message. Every call ends within the configured timeout.
    async fn send(&self, push: &Push) -> Outcome;
}

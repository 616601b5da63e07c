//! A transport that sends nothing, for load tests.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tokio::time::sleep;

use super::clock::now;
use super::settings::DryRunSettings;
use super::{Outcome, Provider, Push};

/// Accepts every message after a configured latency.
#[derive(Debug)]
pub struct DryRun {
    settings: DryRunSettings,
    accepted: AtomicU64,
}

impl DryRun {
    /// Has sent nothing yet.
    pub fn new(settings: DryRunSettings) -> Self {
        Self { settings, accepted: AtomicU64::new(0) }
    }
}

#[async_trait]
impl Provider for DryRun {
    async fn send(&self, push: &Push) -> Outcome {
        if push.expires_at <= now() {
            return Outcome::rejected("expired");
        }
        if !self.settings.latency.is_zero() {
            sleep(self.settings.latency).await;
        }
        let number = self.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        Outcome::accepted(Some(format!("dry-run-{number}")))
    }
}

//! Sockets that are read by a task each.

use std::future::Future;

use anyhow::{Error, Result, anyhow};
use tokio::task::{JoinError, JoinSet};

/// The tasks that read sockets. They end when this is dropped.
#[derive(Debug, Default)]
pub(super) struct SocketGroup(JoinSet<Result<()>>);

impl SocketGroup {
    /// Starts a task that reads a socket until it fails.
    pub(super) fn spawn(&mut self, reading: impl Future<Output = Result<()>> + Send + 'static) {
        self.0.spawn(reading);
    }

    /// Waits until a socket fails, and returns the reason.
    pub(super) async fn failure(&mut self) -> Error {
        match self.0.join_next().await {
            Some(ended) => reason(ended).context("a socket failed"),
            None => std::future::pending().await,
        }
    }
}

fn reason(ended: Result<Result<()>, JoinError>) -> Error {
    match ended {
        Ok(Err(error)) => error,
        Ok(Ok(())) => anyhow!("it ended"),
        Err(error) => error.into(),
    }
}

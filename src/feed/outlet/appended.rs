//! Wakes the consumers of this process when the log of the outlet has new entries.

use std::time::Duration;

use tokio::sync::watch;

/// The signal that the log has new entries. It may be missed; consumers that wait also poll.
#[derive(Debug)]
pub(crate) struct AppendedSignal(watch::Sender<()>);

/// The signals since a moment.
pub(crate) struct AppendedWatch(watch::Receiver<()>);

impl Default for AppendedSignal {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl AppendedSignal {
    /// Wakes all that wait.
    pub(crate) fn notify(&self) {
        self.0.send_replace(());
    }

    /// Begins to listen. A consumer that reads the log afterwards misses no entry.
    pub(crate) fn listen(&self) -> AppendedWatch {
        AppendedWatch(self.0.subscribe())
    }
}

impl AppendedWatch {
    /// Waits for a signal since the last wait, up to `at_most`.
    pub(crate) async fn wait(&mut self, at_most: Duration) {
        // The end of the wait is as good as a signal.
        let _ = tokio::time::timeout(at_most, self.0.changed()).await;
    }
}

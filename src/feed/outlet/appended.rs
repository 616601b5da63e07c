//! Wakes the consumers of this process when the log of the outlet has new entries.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::feed::work::Waker;

/// The signal that the log has new entries. It may be missed; consumers that wait also poll.
#[derive(Debug)]
pub(crate) struct AppendedSignal {
    readers: watch::Sender<()>,
    workers: Mutex<Vec<Arc<Waker>>>,
}

/// The signals since a moment.
pub(crate) struct AppendedWatch(watch::Receiver<()>);

impl Default for AppendedSignal {
    fn default() -> Self {
        Self { readers: watch::Sender::new(()), workers: Mutex::default() }
    }
}

impl AppendedSignal {
    /// Wakes all that wait.
    pub(crate) fn notify(&self) {
        self.readers.send_replace(());
        self.workers.lock().iter().for_each(|waker| waker.notify_one());
    }

    /// Begins to listen. A consumer that reads the log afterwards misses no entry.
    pub(crate) fn listen(&self) -> AppendedWatch {
        AppendedWatch(self.readers.subscribe())
    }

    /// A waker of a worker of this process.
    pub(crate) fn waker(&self) -> Arc<Waker> {
        let waker: Arc<Waker> = Arc::default();
        self.workers.lock().push(Arc::clone(&waker));
        waker
    }
}

impl AppendedWatch {
    /// Waits for a signal since the last wait, up to `at_most`.
    pub(crate) async fn wait(&mut self, at_most: Duration) {
        // The end of the wait is as good as a signal.
        let _ = tokio::time::timeout(at_most, self.0.changed()).await;
    }
}

//! The background work of this process: tasks, shutdown, and the name of the process in leases.
//!
//! Every task that outlives a request runs on [`Runtime`], and sleeps by [`Runtime::sleep`]. A task that runs as long
//! as the process is supervised. [`Runtime::stop`] ends all of them and waits until they have ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::model::Millis;
use crate::supervisor::supervise;

/// The background tasks of this process, and their shutdown.
pub(crate) struct Runtime {
    /// Names this process in leases. A new name at each start, so that a process does not take over the leases of its
    /// predecessor.
    holder: Arc<str>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Runtime {
    /// A runtime without tasks, for a process with a new name.
    pub(crate) fn new() -> Arc<Self> {
        let holder = uuid::Uuid::now_v7().simple().to_string().into();
        Arc::new(Self { holder, tasks: TaskTracker::new(), stopping: CancellationToken::new() })
    }

    /// The name of this process in leases.
    pub(crate) fn holder(&self) -> &Arc<str> {
        &self.holder
    }

    /// Cancelled when the tasks are to end.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Starts a task that ends by itself. [`stop`](Self::stop) waits for it, so it has to end soon after the process
    /// begins to stop.
    pub(crate) fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.tasks.spawn(task)
    }

    /// Starts a task of a service that runs until the process begins to stop. It is restarted if it ends before.
    pub(crate) fn supervise<S, F>(
        &self,
        task: &'static str,
        service: &Arc<S>,
        run: impl Fn(Arc<S>) -> F + Send + Sync + 'static,
    ) where
        S: Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let service = Arc::clone(service);
        let stopping = self.stopping.clone();
        self.tasks.spawn(async move { supervise(task, &stopping, service, run).await });
    }

    /// Sleeps. Returns `false` if the process began to stop.
    pub(crate) async fn sleep(&self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => true,
            () = self.stopping.cancelled() => false,
        }
    }

    /// Waits until the process begins to stop.
    pub(crate) async fn stopped(&self) {
        self.stopping.cancelled().await;
    }

    /// Ends all tasks, and waits until they have ended.
    pub(crate) async fn stop(&self) {
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// The wall clock, in Unix milliseconds.
pub fn now() -> Millis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

//! Restarts background tasks that end.
//!
//! A task that panics, or returns before the process stops, is logged, counted, and started again after a delay.
//! `/ready` fails meanwhile. What a task must keep over a restart (a receiver, a connection's number) belongs to its
//! service, not to its future.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::backoff::Backoff;

/// The delays before a restart. They grow while the task ends soon after each restart.
const MIN_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(10);

/// A task that ran for this long was healthy: the next delay is the shortest one again.
const HEALTHY_AFTER: Duration = Duration::from_secs(1);

/// The label of the restarts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ByTask {
    task: &'static str,
}

/// The restarts of this process, by task. Each task that was started has a sample.
static RESTARTS: LazyLock<Family<ByTask, Counter>> = LazyLock::new(Family::default);

/// The tasks that wait for their restart, with the number of their instances.
static AWAY: Mutex<BTreeMap<&'static str, usize>> = Mutex::new(BTreeMap::new());

/// The counter of restarts, for the metrics.
pub(crate) fn restarts() -> Family<ByTask, Counter> {
    RESTARTS.clone()
}

/// The names of the tasks that ended and are not running again.
pub(crate) fn away() -> Vec<&'static str> {
    AWAY.lock().keys().copied().collect()
}

/// Runs a task of a service until `stopping`, and restarts it whenever it ends before that.
pub(crate) async fn supervise<S, F>(
    task: &'static str,
    stopping: &CancellationToken,
    service: Arc<S>,
    run: impl Fn(Arc<S>) -> F,
) where
    F: Future<Output = ()>,
{
    let mut backoff = Backoff::new(MIN_DELAY, MAX_DELAY);
    drop(RESTARTS.get_or_create(&ByTask { task }));
    loop {
        let begun = Instant::now();
        let ended = AssertUnwindSafe(async { run(Arc::clone(&service)).await }).catch_unwind().await;
        if stopping.is_cancelled() {
            return;
        }
        let (delay, _away) = ended_early(task, begun, &mut backoff, ended);
        if stopping.run_until_cancelled(tokio::time::sleep(delay)).await.is_none() {
            return;
        }
    }
}

/// Runs a task of a service while the handle exists, and restarts it whenever it ends.
pub(crate) fn supervise_while_held<S, F>(
    task: &'static str,
    service: Arc<S>,
    run: impl Fn(Arc<S>) -> F + Send + Sync + 'static,
) -> AbortOnDropHandle<()>
where
    S: Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    AbortOnDropHandle::new(tokio::spawn(async move {
        supervise(task, &CancellationToken::new(), service, run).await;
    }))
}

/// Runs a thread's work until it returns, and restarts it whenever it panics.
pub(crate) fn supervise_thread(task: &'static str, mut work: impl FnMut()) {
    let mut backoff = Backoff::new(MIN_DELAY, MAX_DELAY);
    drop(RESTARTS.get_or_create(&ByTask { task }));
    loop {
        let begun = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(&mut work));
        if ended.is_ok() {
            return;
        }
        let (delay, _away) = ended_early(task, begun, &mut backoff, ended);
        std::thread::sleep(delay);
    }
}

/// Logs and counts the end of a task. Returns the delay of its restart, and the mark of its absence.
fn ended_early(
    task: &'static str,
    begun: Instant,
    backoff: &mut Backoff,
    ended: Result<(), Box<dyn Any + Send>>,
) -> (Duration, AwayGuard) {
    if begun.elapsed() >= HEALTHY_AFTER {
        backoff.reset();
    }
    let delay = backoff.next_delay();
    match ended {
        Ok(()) => tracing::error!(task, ?delay, "a background task returned, restarting it"),
        Err(panic) => {
            tracing::error!(task, ?delay, panic = panic_message(&*panic), "a background task panicked, restarting it");
        }
    }
    RESTARTS.get_or_create(&ByTask { task }).inc();
    (delay, AwayGuard::new(task))
}

/// The message of a panic.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

/// Calls a function if a panic ends its scope: what a task had begun is repaired for its restart.
pub(crate) struct OnPanic<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

/// Marks a task as away until it is dropped.
struct AwayGuard(&'static str);

impl AwayGuard {
    fn new(task: &'static str) -> Self {
        *AWAY.lock().entry(task).or_default() += 1;
        Self(task)
    }
}

impl Drop for AwayGuard {
    fn drop(&mut self) {
        let mut away = AWAY.lock();
        if let Some(count) = away.get_mut(self.0) {
            *count -= 1;
            if *count == 0 {
                away.remove(self.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::{Mutex, mpsc};
    use tokio::time::sleep;

    use super::*;

    fn restarts_of(task: &'static str) -> u64 {
        RESTARTS.get_or_create(&ByTask { task }).get()
    }

    async fn until(is_true: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is_true() {
            assert!(Instant::now() < deadline, "it does not become true");
            sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn tasks_that_panic_or_return_are_restarted_and_away_meanwhile() {
        const TASK: &str = "test_restarts";
        let (sender, receiver) = mpsc::channel::<u32>(8);
        let received = Arc::new(AtomicUsize::new(0));
        let receiver = Arc::new(Mutex::new(receiver));
        let count = Arc::clone(&received);
        let stopping = CancellationToken::new();
        let stop = stopping.clone();
        let supervised = tokio::spawn(async move {
            supervise(TASK, &stop, receiver, |receiver| {
                let count = Arc::clone(&count);
                async move {
                    while let Some(number) = receiver.lock().await.recv().await {
                        count.fetch_add(1, Ordering::SeqCst);
                        assert_ne!(number, 13, "an unlucky number");
                        if number == 0 {
                            return;
                        }
                    }
                }
            })
            .await;
        });
        for (restarts, number) in [(1, 13), (2, 0)] {
            sender.send(number).await.unwrap();
            until(|| restarts_of(TASK) == restarts && away().contains(&TASK)).await;
            sender.send(7).await.unwrap();
            until(|| !away().contains(&TASK) && received.load(Ordering::SeqCst) as u64 == 2 * restarts).await;
        }
        stopping.cancel();
        drop(sender);
        supervised.await.unwrap();
        assert_eq!(restarts_of(TASK), 2, "an end after the stop is no early end");
    }

    #[tokio::test]
    async fn tasks_that_end_at_once_are_restarted_ever_later() {
        const TASK: &str = "test_delays";
        let handle = supervise_while_held(TASK, Arc::new(()), |_| async {});
        sleep(Duration::from_millis(1_500)).await;
        // Constant delays would give at least 15.
        let restarts = restarts_of(TASK);
        assert!((1..=7).contains(&restarts), "{restarts} restarts");
        until(|| away().contains(&TASK)).await;
        drop(handle);
        // A task that is aborted is not away.
        until(|| !away().contains(&TASK)).await;
    }

    #[test]
    fn threads_that_panic_are_restarted() {
        const TASK: &str = "test_threads";
        let mut runs = 0;
        supervise_thread(TASK, || {
            runs += 1;
            assert!(runs > 1 || away().contains(&TASK), "the first run fails");
        });
        assert_eq!((runs, restarts_of(TASK)), (2, 1));
        assert!(!away().contains(&TASK));
    }
}

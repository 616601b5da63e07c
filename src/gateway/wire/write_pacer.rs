//! Paces the wake-ups of connections that have something to write.
//!
//! A publication to 1,000 sockets makes 1,000 tasks ready. If all of them are woken at once, the publisher's next
//! request waits behind all of their writes, and each write has a single frame. Instead, the wake-ups wait in a queue,
//! and one task wakes a part of them at a time. Between two parts, the runtime polls the network and runs what became
//! ready: requests are accepted after at most one part, and sockets that still wait take several publications in one
//! write.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// The fewest connections that are woken at once, for each thread of the runtime: about half a millisecond of writes.
const MIN_BATCH: usize = 64;

/// The share of the queue that is woken at once, if that is more: a long queue is served in few turns, however many
/// requests come in between.
const SHARE: usize = 4;

/// The longest time for which wake-ups wait while the runtime has other work. It delays deliveries under load by as
/// much, and then each socket takes what has arrived meanwhile in one write.
const MAX_HOLD: Duration = Duration::from_millis(5);

/// A turn of the runtime that takes less had hardly anything to run: a poll of the network alone takes some
/// microseconds.
const IDLE_TURN: Duration = Duration::from_micros(20);

/// Wakers of connections, in the order in which they became ready. A connection is queued once at most, so the queue is
/// bounded by their number.
#[derive(Debug, Default)]
pub struct WritePacer {
    queue: Mutex<WakeQueue>,
    queued: Notify,
    /// A send queue grows: all connections are to be woken at once.
    is_urgent: AtomicBool,
}

#[derive(Debug, Default)]
struct WakeQueue {
    waiting: VecDeque<Waker>,
    /// The pacer has ended: wake-ups do not wait.
    is_stopped: bool,
}

/// How long the wake-ups of a queue have been held.
struct Hold {
    since: Instant,
    /// The wake-ups at the front of the queue that are not held any longer.
    overdue: usize,
}

impl WritePacer {
    /// Wakes a connection soon.
    pub(crate) fn schedule(&self, waker: Waker) {
        let mut queue = self.queue.lock();
        if queue.is_stopped {
            drop(queue);
            return waker.wake();
        }
        queue.waiting.push_back(waker);
        let is_first = queue.waiting.len() == 1;
        drop(queue);
        if is_first {
            self.queued.notify_one();
        }
    }

    /// Wakes all connections that wait at the next turn.
    pub(crate) fn hurry(&self) {
        self.is_urgent.store(true, Ordering::Relaxed);
    }

    /// Whether [`hurry`](Self::hurry) was called since the last turn.
    #[cfg(test)]
    pub(crate) fn is_urgent(&self) -> bool {
        self.is_urgent.load(Ordering::Relaxed)
    }

    /// The wake-ups that wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    /// Wakes connections until it is cancelled. Needs [`stop`](Self::stop) after it.
    pub(crate) async fn run(&self) {
        let min_batch = MIN_BATCH * Handle::current().metrics().num_workers();
        let mut woken = Vec::new();
        // Wake-ups that an earlier run left announced themselves to it.
        self.queued.notify_one();
        loop {
            self.queued.notified().await;
            let mut hold = Hold { since: Instant::now(), overdue: 0 };
            loop {
                self.let_others_run(&mut hold).await;
                let (count, is_left) = self.wake_some(min_batch, &mut woken);
                hold.overdue = hold.overdue.saturating_sub(count);
                if !is_left {
                    break;
                }
            }
        }
    }

    /// Waits for a turn of the runtime, which polls the network before it continues with this task. While it has other
    /// work, waits for more turns, up to [`MAX_HOLD`].
    async fn let_others_run(&self, hold: &mut Hold) {
        loop {
            let begun = Instant::now();
            tokio::task::yield_now().await;
            let now = Instant::now();
            if hold.overdue > 0 || self.is_urgent.load(Ordering::Relaxed) || now - begun < IDLE_TURN {
                return;
            }
            if now - hold.since >= MAX_HOLD {
                *hold = Hold { since: now, overdue: self.queue.lock().waiting.len() };
                return;
            }
        }
    }

    /// Wakes the next connections. Returns their number, and whether more wait.
    fn wake_some(&self, min_batch: usize, woken: &mut Vec<Waker>) -> (usize, bool) {
        let mut queue = self.queue.lock();
        let waiting = queue.waiting.len();
        let is_urgent = self.is_urgent.swap(false, Ordering::Relaxed);
        let count = if is_urgent { waiting } else { (waiting / SHARE).max(min_batch).min(waiting) };
        woken.extend(queue.waiting.drain(..count));
        drop(queue);
        woken.drain(..).for_each(Waker::wake);
        (count, count < waiting)
    }

    /// Wakes all connections that wait, and from now on every connection at once.
    pub(crate) fn stop(&self) {
        let mut queue = self.queue.lock();
        queue.is_stopped = true;
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Count {
        fn get(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn queued(connections: usize) -> (WritePacer, Arc<Count>) {
        let pacer = WritePacer::default();
        let count = Arc::new(Count::default());
        (0..connections).for_each(|_| pacer.schedule(Arc::clone(&count).into()));
        (pacer, count)
    }

    #[test]
    fn connections_are_woken_part_by_part() {
        let (pacer, count) = queued(100);
        let mut parts = Vec::new();
        while pacer.wake_some(10, &mut Vec::new()).1 {
            parts.push(count.get());
        }
        assert_eq!(parts[..3], [25, 43, 57], "a quarter of those that wait");
        assert_eq!(parts[parts.len() - 2..], [87, 97], "at least the smallest part");
        assert_eq!(count.get(), 100);
    }

    #[test]
    fn growing_queues_wake_everyone() {
        let (pacer, count) = queued(100);
        pacer.hurry();
        assert_eq!(pacer.wake_some(10, &mut Vec::new()), (100, false));
        assert_eq!(count.get(), 100);
    }

    #[tokio::test]
    async fn requests_run_between_two_parts() {
        let (pacer, count) = queued(4 * MIN_BATCH);
        let running = tokio::spawn(async move { pacer.run().await });
        let mut seen = Vec::new();
        while count.get() < 4 * MIN_BATCH {
            tokio::task::yield_now().await;
            seen.push(count.get());
        }
        seen.retain(|woken| *woken > 0);
        seen.dedup();
        assert_eq!(seen, [MIN_BATCH, 2 * MIN_BATCH, 3 * MIN_BATCH, 4 * MIN_BATCH]);
        running.abort();
    }

    #[tokio::test]
    async fn wake_ups_wait_for_other_work_for_a_bounded_time() {
        let (pacer, count) = queued(2 * MIN_BATCH);
        let begun = Instant::now();
        let running = tokio::spawn(async move { pacer.run().await });
        let mut first = None;
        let mut turns = 0;
        while count.get() < 2 * MIN_BATCH {
            // Work of a runtime that is never idle.
            std::thread::sleep(Duration::from_micros(100));
            tokio::task::yield_now().await;
            first = first.or((count.get() > 0).then(|| begun.elapsed()));
            turns += u32::from(first.is_some());
        }
        assert!(first.expect("some were woken") >= MAX_HOLD, "{first:?}");
        assert!(turns <= 3, "all that waited so long are woken, part by part");
        running.abort();
    }

    #[test]
    fn nobody_waits_for_a_stopped_pacer() {
        let (pacer, count) = queued(3);
        pacer.stop();
        assert_eq!(count.get(), 3);
        pacer.schedule(Arc::clone(&count).into());
        assert_eq!(count.get(), 4);
    }
}

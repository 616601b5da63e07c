//! The timer of a connection.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tokio::task::unconstrained;
use tokio::time::Sleep;

use super::clock::SessionClock;

/// Wakes a connection when its session has something to do. The timer is looked at only when it is due: a busy
/// connection polls thousands of times before that, and each look touches memory that nothing else of a delivery needs.
#[derive(Debug)]
pub(crate) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    /// When it is due, in ticks of the clock, if the timer has the waker of the connection's task; otherwise 0.
    registered_for: u64,
}

impl Alarm {
    /// An alarm that is due at this time, in ticks.
    pub(crate) fn new(clock: SessionClock, due: u64) -> Self {
        let sleep = Box::pin(tokio::time::sleep_until(clock.instant(due)));
        Self { sleep, registered_for: 0 }
    }

    /// Sets another time, in ticks.
    pub(crate) fn reset(&mut self, clock: SessionClock, due: u64) {
        self.sleep.as_mut().reset(clock.instant(due));
        self.registered_for = 0;
    }

    /// Ready when it is due. Only one task may poll.
    pub(crate) fn poll(&mut self, clock: SessionClock, cx: &mut Context<'_>) -> Poll<()> {
        if clock.ticks() < self.registered_for {
            return Poll::Pending;
        }
        self.registered_for = clock.ticks_at(self.sleep.deadline());
        // A task that has used up its budget would be sent away without being registered.
        pin!(unconstrained(self.sleep.as_mut())).poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn it_is_due_at_the_last_time_that_was_set() {
        let clock = SessionClock::new();
        let mut alarm = Alarm::new(clock, 60_000);
        assert!(futures::poll!(poll_fn(|cx| alarm.poll(clock, cx))).is_pending());
        assert!(futures::poll!(poll_fn(|cx| alarm.poll(clock, cx))).is_pending(), "registered already");
        for due in [20, 50] {
            alarm.reset(clock, due);
            tokio::time::timeout(Duration::from_secs(20), poll_fn(|cx| alarm.poll(clock, cx)))
                .await
                .expect("it is due");
            assert!(clock.ticks() >= due, "{due}");
        }
    }

    #[tokio::test]
    async fn it_wakes_a_task_that_had_used_up_its_budget() {
        let clock = SessionClock::new();
        let mut alarm = Alarm::new(clock, 50);
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        (0..1_000).for_each(|n| sender.send(n).expect("a receiver"));
        poll_fn(|cx| {
            while receiver.poll_recv(cx).is_ready() {}
            assert!(!receiver.is_empty(), "the budget ended first");
            assert!(alarm.poll(clock, cx).is_pending());
            Poll::Ready(())
        })
        .await;
        let due = poll_fn(|cx| alarm.poll(clock, cx));
        tokio::time::timeout(Duration::from_secs(5), due).await.expect("it is due");
        assert!(clock.ticks() < 4_000, "after {} ms", clock.ticks());
    }
}

//! The time that the heads of HTTP requests may take, beside the time for which a connection may idle between them.
//!
//! The HTTP server has one timeout for both: it waits for the next head from the end of an answer on. This timer bounds
//! the first request from the beginning of the connection, and each later head from its first byte after the answer.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// What an HTTP connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The rest of a head, until then.
    Head(Instant),
    /// An answer, until it begins.
    Answer,
    /// The next request. The former answer may still be written.
    Idle,
}

/// The timer of one HTTP connection.
#[derive(Clone, Debug)]
pub struct HeadTimer {
    timeout: Duration,
    phase: Arc<Mutex<Phase>>,
}

impl HeadTimer {
    /// A timer for a connection that begins now.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, phase: Arc::new(Mutex::new(Phase::Head(Instant::now() + timeout))) }
    }

    /// The head of a request is complete.
    pub fn request_began(&self) {
        *self.phase.lock() = Phase::Answer;
    }

    /// The answer of the last request begins.
    pub fn answer_began(&self) {
        *self.phase.lock() = Phase::Idle;
    }

    /// Whether the connection has had no request yet, or a part of a head was read.
    pub fn head_expected(&self) -> bool {
        matches!(*self.phase.lock(), Phase::Head(_))
    }

    /// Bytes of a request were read.
    pub(super) fn bytes_read(&self) {
        let mut phase = self.phase.lock();
        if *phase == Phase::Idle {
            *phase = Phase::Head(Instant::now() + self.timeout);
        }
    }

    /// Bytes of an answer were written: the next head has time from its end on.
    pub(super) fn bytes_written(&self) {
        let mut phase = self.phase.lock();
        if matches!(*phase, Phase::Head(_)) {
            *phase = Phase::Idle;
        }
    }

    /// Waits until a head has taken too long. The task that reads and writes the connection awaits it beside that, and
    /// polls it last.
    pub async fn expired(&self) {
        let mut timer = pin!(sleep_until(Instant::now() + self.timeout));
        std::future::poll_fn(|context| {
            let Phase::Head(deadline) = *self.phase.lock() else { return Poll::Pending };
            if timer.deadline() != deadline {
                timer.as_mut().reset(deadline);
            }
            timer.as_mut().poll(context)
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(200);

    async fn expires_within(timer: &HeadTimer, time: Duration) -> bool {
        timeout(time, timer.expired()).await.is_ok()
    }

    #[tokio::test]
    async fn heads_are_bounded_and_pauses_are_not() {
        let timer = HeadTimer::new(TIMEOUT);
        sleep(TIMEOUT / 2).await;
        timer.bytes_read();
        assert!(expires_within(&timer, TIMEOUT / 2 + Duration::from_millis(80)).await, "bytes win no time");

        let timer = HeadTimer::new(TIMEOUT);
        timer.request_began();
        assert!(!expires_within(&timer, TIMEOUT * 2).await, "an answer may take its time");
        timer.bytes_read();
        assert!(!expires_within(&timer, TIMEOUT * 2).await, "the client has sent the next request early");
        timer.answer_began();
        assert!(!expires_within(&timer, TIMEOUT * 2).await, "the connection idles");
        timer.bytes_read();
        assert!(!expires_within(&timer, TIMEOUT / 2).await);
        assert!(expires_within(&timer, TIMEOUT / 2 + Duration::from_millis(80)).await, "the rest of a head is missing");
        timer.bytes_written();
        assert!(!expires_within(&timer, TIMEOUT * 2).await, "the former answer was not at its end");
    }
}

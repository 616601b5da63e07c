//! The long poll: a backend reads the log with the name of its consumer, and acknowledges with a cursor.

use std::time::Duration;

use tokio::time::Instant;

use super::Outlet;
use crate::feed::error::{FeedError, Result};
use crate::ledger::OutletEntry;

/// The interval at which a poll looks at the log without a signal.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A poll.
#[derive(Clone, Debug, Default)]
pub(crate) struct PollOutlet {
    /// The name of the consumer.
    pub(crate) consumer: String,
    /// Acknowledges the events up to this one, and continues behind it. `None`: behind the last acknowledged one.
    pub(crate) cursor: Option<u64>,
    /// The most events of the reply.
    pub(crate) limit: Option<usize>,
    /// How long to wait for an event, in seconds.
    pub(crate) wait: Option<u64>,
}

impl PollOutlet {
    /// The entries of a reply without a limit, and the greatest limit.
    pub(crate) const DEFAULT_LIMIT: usize = 100;
    /// See [`DEFAULT_LIMIT`](Self::DEFAULT_LIMIT).
    pub(crate) const MAX_LIMIT: usize = 1_000;
    /// The longest wait for an event.
    pub(crate) const MAX_WAIT: Duration = Duration::from_secs(60);
}

impl Outlet {
    /// Answers waiting polls at once from now on.
    pub(crate) fn drain(&self) {
        self.draining.cancel();
    }

    /// Acknowledges, and reads events behind the cursor. Waits for one if there is none. Returns the reply as JSON.
    ///
    /// # Errors
    /// If the consumer is not configured, the cursor is beyond the log, too many polls wait, or the ledger cannot be
    /// reached.
    pub(crate) async fn poll(&self, poll: PollOutlet) -> Result<String> {
        if !self.base.options.outlet.consumers.contains(&poll.consumer) {
            return Err(FeedError::NotFound("no such consumer: name it in outlet.consumers"));
        }
        let limit = poll.limit.unwrap_or(PollOutlet::DEFAULT_LIMIT);
        if !(1..=PollOutlet::MAX_LIMIT).contains(&limit) {
            return Err(FeedError::invalid("limit", format!("limit is 1 to {}", PollOutlet::MAX_LIMIT)));
        }
        let wait = Duration::from_secs(poll.wait.unwrap_or_default());
        if wait > PollOutlet::MAX_WAIT {
            let seconds = PollOutlet::MAX_WAIT.as_secs();
            return Err(FeedError::invalid("wait", format!("wait is 0 to {seconds} seconds")));
        }
        let Ok(_permit) = self.polls.try_acquire() else {
            return Err(FeedError::Busy("too many polls wait, try again"));
        };
        let (after, missed) = self.acknowledge(&poll).await?;
        let deadline = Instant::now() + wait;
        loop {
            // Begins to listen before it reads the log, so that it misses no entry.
            let appended = self.appended.notified();
            let events = self.base.ledger.outlet_entries(after, limit).await?;
            let now = Instant::now();
            if !events.is_empty() || now >= deadline || self.draining.is_cancelled() {
                events.iter().for_each(|_| self.base.metrics.outlet.delivered(&poll.consumer));
                return Ok(reply(&events, after, missed));
            }
            tokio::select! {
                () = appended => {}
                () = tokio::time::sleep(POLL_INTERVAL.min(deadline - now)) => {}
                () = self.draining.cancelled() => {}
                () = self.base.runtime.stopped() => self.drain(),
            }
        }
    }

    /// Moves the cursor. Returns the position behind which to read, and how many events were trimmed before the
    /// consumer read them.
    async fn acknowledge(&self, poll: &PollOutlet) -> Result<(u64, u64)> {
        let end = self.base.ledger.outlet_end().await?;
        if poll.cursor.is_some_and(|cursor| cursor > end.last) {
            return Err(FeedError::invalid("cursor", format!("cursor is beyond the last event, {}", end.last)));
        }
        let stored = self.base.ledger.advance_outlet_cursor(&poll.consumer, poll.cursor.unwrap_or_default()).await?;
        // A consumer is registered at the start of each process. Its row is missing only if somebody removed it.
        let stored = stored.ok_or(FeedError::NotFound("no such consumer: restart the server to register it"))?;
        let after = poll.cursor.unwrap_or(stored);
        let missed = end.trimmed.saturating_sub(after);
        if missed > 0 {
            tracing::warn!(consumer = poll.consumer, missed, "a consumer missed events beyond outlet.retention");
            self.base.metrics.outlet.missed(&poll.consumer, missed);
        }
        Ok((after, missed))
    }
}

fn reply(events: &[OutletEntry], after: u64, missed: u64) -> String {
    let cursor = events.last().map_or(after, |last| last.position);
    let events = events.iter().map(OutletEntry::json).collect::<Vec<_>>().join(",");
    format!("{{\"events\":[{events}],\"cursor\":\"{cursor}\",\"missed\":{missed}}}")
}

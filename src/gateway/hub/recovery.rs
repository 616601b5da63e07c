//! Recovery: the entries between the position of a client and that of its room.

use std::sync::Arc;

use super::catch_up::includes;
use super::log_reader::{ENTRIES_PER_UNIT, LogReader};
use crate::broker::{Span, continues};
use crate::feed::{Base, FeedError, Viewer};
use crate::gateway::channels::RecoveryMode;
use crate::gateway::channels::join::Join;
use crate::metrics::RecoveryOutcome;
use crate::model::{Entry, Position};
use crate::protocol::Publication;

/// Reads missed entries.
pub(super) struct Recovery {
    pub(super) base: Arc<Base>,
    pub(super) logs: Arc<LogReader>,
    /// The most entries that one recovery returns.
    pub(super) limit: u64,
}

impl Recovery {
    /// All entries between the position of the client and that of its room; `None` if they are not complete.
    pub(super) async fn missed(&self, join: &Join, position: &Position) -> Result<Option<Vec<Publication>>, FeedError> {
        let missed = self.read_missed(join, position).await?;
        let epoch = &join.recover.epoch;
        self.base.metrics.recovery(match &missed {
            Some(_) => RecoveryOutcome::Recovered,
            None if !epoch.is_empty() && !continues(epoch, &position.epoch) => RecoveryOutcome::EpochChanged,
            None => RecoveryOutcome::TooOld,
        });
        Ok(missed)
    }

    async fn read_missed(&self, join: &Join, position: &Position) -> Result<Option<Vec<Publication>>, FeedError> {
        let recover = &join.recover;
        if join.channel.recovery_mode() == RecoveryMode::Cache {
            return self.latest(join, position).await;
        }
        if !includes(position, recover) {
            return Ok(None);
        }
        let missed = position.offset - recover.offset;
        if missed == 0 {
            return Ok(Some(Vec::new()));
        }
        if missed > self.limit {
            return Ok(None);
        }
        // The client did not ask for server-side subscriptions: they cost nothing.
        if join.id != 0 {
            let units = u32::try_from(missed / ENTRIES_PER_UNIT as u64).unwrap_or(u32::MAX);
            self.base.rates.take_reads(join.user.as_ref(), join.address, units)?;
        }
        // At most the limit, which is a usize.
        let Some(mut slice) = self.base.broker.read(&join.name, Span::After(recover.offset, missed as usize)).await?
        else {
            return Ok(None);
        };
        slice.entries.retain(|(offset, _)| *offset <= position.offset);
        if slice.top.epoch != position.epoch || slice.entries.len() as u64 != missed {
            return Ok(None);
        }
        self.render(join, slice.entries).await.map(Some)
    }

    /// The latest publication, unless the client has it. `None`: there is none, and the client is at another position.
    async fn latest(&self, join: &Join, position: &Position) -> Result<Option<Vec<Publication>>, FeedError> {
        let recover = &join.recover;
        if recover.offset == position.offset && includes(position, recover) {
            return Ok(Some(Vec::new()));
        }
        let end = position.offset.saturating_add(1);
        let Some(mut slice) = self.base.broker.read(&join.name, Span::Before(end, 1)).await? else { return Ok(None) };
        slice.entries.retain(|(offset, _)| *offset == position.offset);
        if slice.top.epoch != position.epoch || slice.entries.is_empty() {
            return Ok(None);
        }
        self.render(join, slice.entries).await.map(Some)
    }

    async fn render(&self, join: &Join, entries: Vec<(u64, Entry)>) -> Result<Vec<Publication>, FeedError> {
        let viewer = Viewer::Client(join.user.as_ref());
        let audience = join.channel.audience(join.user.as_ref()).ok_or(FeedError::Internal)?;
        self.logs.publications(&audience, viewer, entries).await
    }
}

//! Reads the logs of channels: entries as publications in replies.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::broker::{Broker, Span, continues};
use crate::feed::timelines::Source;
use crate::feed::{Audience, EventRenderer, FeedError, Inboxes, Viewer};
use crate::model::Entry;
use crate::protocol::{HistoryResult, Publication};

/// Log entries that cost one unit of `rates.reads`.
pub(crate) const ENTRIES_PER_UNIT: usize = 20;

/// The log of a channel, as one client or backend reads it.
#[derive(Debug)]
pub struct ChannelLog<'a> {
    /// The channel.
    pub name: &'a str,
    /// Decides who may read which entry.
    pub audience: Audience,
    /// The reader.
    pub viewer: Viewer<'a>,
}

/// Reads logs.
pub struct LogReader {
    broker: Arc<dyn Broker>,
    inboxes: Arc<Inboxes>,
    renderer: Arc<EventRenderer>,
}

impl LogReader {
    pub(crate) fn new(broker: Arc<dyn Broker>, inboxes: Arc<Inboxes>, renderer: Arc<EventRenderer>) -> Self {
        Self { broker, inboxes, renderer }
    }

    /// Reads a part of a channel's log. `None` if it does not have the requested epoch.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub async fn read_history(
        &self,
        log: &ChannelLog<'_>,
        span: Span,
        epoch: Option<&str>,
    ) -> Result<Option<HistoryResult>, FeedError> {
        if let Some(source) = Source::of(&log.audience) {
            self.inboxes.catch_up(&source).await?;
        }
        let (Span::After(_, limit) | Span::Before(_, limit)) = span;
        let slice = if limit == 0 { None } else { self.broker.read(log.name, span).await? };
        let (position, entries) = match slice {
            Some(slice) => (Some(slice.top), slice.entries),
            None => (self.broker.position(log.name).await?, Vec::new()),
        };
        let Some(position) = position else { return Ok(None) };
        if epoch.is_some_and(|epoch| !continues(epoch, &position.epoch)) {
            return Ok(None);
        }
        let publications = self.publications(&log.audience, log.viewer, entries).await?;
        Ok(Some(HistoryResult { publications, epoch: position.epoch.to_string(), offset: position.offset }))
    }

    /// Renders log entries for a viewer. Entries that the viewer cannot see are omitted.
    pub(crate) async fn publications(
        &self,
        audience: &Audience,
        viewer: Viewer<'_>,
        entries: Vec<(u64, Entry)>,
    ) -> Result<Vec<Publication>, FeedError> {
        let (offsets, entries): (Vec<u64>, Vec<Entry>) = entries.into_iter().unzip();
        let rendered = self.renderer.render(audience, viewer, &entries).await?;
        let visible = offsets.into_iter().zip(rendered).filter_map(|(offset, members)| Some((offset, members?)));
        visible.map(|(offset, members)| publication(offset, &members)).collect()
    }
}

/// A publication in a reply: an object with its members and its offset.
fn publication(offset: u64, members: &[u8]) -> Result<Publication, FeedError> {
    let members = std::str::from_utf8(members).map_err(|_| FeedError::Internal)?;
    RawValue::from_string(format!("{{{members},\"offset\":{offset}}}")).map_err(|error| {
        tracing::error!(%error, "a publication in a log is not JSON");
        FeedError::Internal
    })
}

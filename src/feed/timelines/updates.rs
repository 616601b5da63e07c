//! The updates of a timeline or a list since a position.

use std::sync::Arc;

use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::inboxes::Inboxes;
use super::source::Source;
use crate::broker::{Slice, Span};
use crate::feed::base::Base;
use crate::feed::error::{FeedError, Result};
use crate::feed::query_values::number;
use crate::feed::rendering::{EventRenderer, Viewer};
use crate::model::{Entry, Position};

/// A position in the log of a timeline.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PositionInput {
    /// The last offset seen.
    #[serde(deserialize_with = "number")]
    pub(crate) offset: u64,
    /// The epoch of the log.
    pub(crate) epoch: String,
}

/// The updates since a position.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TimelineUpdatesPage")]
pub(crate) struct UpdatesPage {
    /// `false`: the position is too old, or belongs to another epoch. Reload the timeline.
    recovered: bool,
    /// The updates with their offsets, oldest first, as a subscriber receives them.
    items: Vec<Update>,
    /// The position after the last update.
    position: Position,
}

/// An update.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TimelineUpdate")]
struct Update {
    /// The offset of the update in the log.
    offset: u64,
    /// The `data` of the publication that a subscriber receives: a `post`, `edited`, `reposted` or `gone` event.
    #[schemars(schema_with = "update_schema")]
    data: Box<RawValue>,
}

/// The events of a timeline that have an offset. The contract defines their schemas.
fn update_schema(_: &mut SchemaGenerator) -> Schema {
    let events = ["PostCreatedEvent", "PostEditedEvent", "PostRepostedEvent", "PostGoneEvent", "AuthorGoneEvent"];
    let schemas = events.map(|name| json!({ "$ref": format!("#/components/schemas/{name}") }));
    json_schema!({ "oneOf": schemas })
}

/// Updates since a position.
enum Updates {
    /// All updates: offsets and publication members, oldest first, and the position after the last one.
    Recovered(Vec<(u64, Bytes)>, Position),
    /// The position is too old, or belongs to another epoch. Contains the current position of the log.
    TooFarBack(Position),
}

/// Reads updates.
pub(crate) struct UpdatesReader {
    base: Arc<Base>,
    inboxes: Arc<Inboxes>,
    events: Arc<EventRenderer>,
}

impl UpdatesReader {
    /// Reads the logs of these inboxes.
    pub(crate) fn new(base: Arc<Base>, inboxes: Arc<Inboxes>, events: Arc<EventRenderer>) -> Self {
        Self { base, inboxes, events }
    }

    /// The arrivals and removals since a position, as in the recovery of a subscription.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(crate) async fn since(&self, source: &Source, since: Position) -> Result<UpdatesPage> {
        match self.updates_since(source, &since).await? {
            Updates::TooFarBack(position) => Ok(UpdatesPage { recovered: false, items: Vec::new(), position }),
            Updates::Recovered(publications, position) => {
                let update = |(offset, members): (u64, Bytes)| Ok(Update { offset, data: data_of(&members)? });
                let items = publications.into_iter().map(update).collect::<Result<_>>()?;
                Ok(UpdatesPage { recovered: true, items, position })
            }
        }
    }

    async fn updates_since(&self, source: &Source, since: &Position) -> Result<Updates> {
        let top = self.inboxes.open(source).await?;
        if top.epoch != since.epoch || since.offset > top.offset {
            return Ok(Updates::TooFarBack(top));
        }
        let most = self.base.options.recovery_limit;
        let Some(slice) = self.base.broker.read(&source.inbox().to_string(), Span::After(since.offset, most)).await?
        else {
            return Ok(Updates::TooFarBack(top));
        };
        match recovered(slice, since, most) {
            Ok(slice) => {
                let (offsets, entries): (Vec<u64>, Vec<Entry>) = slice.entries.into_iter().unzip();
                let audience = source.audience();
                let publications =
                    self.events.render(&audience, Viewer::Client(Some(source.reader())), &entries).await?;
                let updates =
                    offsets.into_iter().zip(publications).filter_map(|(offset, members)| Some((offset, members?)));
                Ok(Updates::Recovered(updates.collect(), slice.top))
            }
            Err(top) => Ok(Updates::TooFarBack(top)),
        }
    }
}

/// The `data` of a publication, from its members.
fn data_of(members: &[u8]) -> Result<Box<RawValue>> {
    #[derive(Deserialize)]
    struct PublicationMembers {
        data: Box<RawValue>,
    }
    let object = [b"{", members, b"}"].concat();
    serde_json::from_slice::<PublicationMembers>(&object).map(|members| members.data).map_err(|_| FeedError::Internal)
}

/// Returns the slice read after a position if it contains all later entries; otherwise the current position of the log.
fn recovered(slice: Slice, since: &Position, most: usize) -> std::result::Result<Slice, Position> {
    let missed = slice.top.offset.saturating_sub(since.offset);
    let complete = slice.top.epoch == since.epoch
        && since.offset <= slice.top.offset
        && missed <= most as u64
        && slice.entries.len() as u64 == missed;
    if complete { Ok(slice) } else { Err(slice.top) }
}

//! Pages of a timeline, and its updates since a position.

use std::sync::Arc;

use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::inboxes::{Inboxes, fold};
use super::read_marker::{ReadMarker, ReadMarkers};
use crate::broker::{Slice, Span, inbox_channel};
use crate::feed::base::Base;
use crate::feed::call::Caller;
use crate::feed::content::CachedPost;
use crate::feed::error::{FeedError, Result};
use crate::feed::input::{PostFeed, PostPage};
use crate::feed::paging::PostPageBuilder;
use crate::feed::query_values::number;
use crate::feed::rendering::{Audience, EventRenderer, Viewer};
use crate::feed::visibility::TimelinePolicy;
use crate::ledger::TimelineRange;
use crate::model::{Entry, Position, PostId, UserId};

/// A position in the log of a timeline.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PositionInput {
    /// The last offset seen.
    #[serde(deserialize_with = "number")]
    offset: u64,
    /// The epoch of the log.
    epoch: String,
}

/// A page of a timeline.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TimelinePage {
    #[serde(flatten)]
    page: PostPage,
    /// The log position at which the page was read: everything after it is pushed.
    position: Position,
    /// The read marker; on the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<ReadMarker>,
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

/// A page of a timeline, before it is rendered.
struct Page {
    /// The posts, newest first.
    items: Vec<Arc<CachedPost>>,
    /// The next page begins below this id. `None` at the end.
    next: Option<PostId>,
    /// All posts of the inbox, newest first.
    held: Vec<PostId>,
    /// The log position at which it was read.
    position: Position,
}

/// Updates since a position.
enum Updates {
    /// All updates: offsets and publication members, oldest first, and the position after the last one.
    Recovered(Vec<(u64, Bytes)>, Position),
    /// The position is too old, or belongs to another epoch. Contains the current position of the log.
    TooFarBack(Position),
}

/// Reads timelines.
pub(crate) struct TimelinePages {
    base: Arc<Base>,
    inboxes: Arc<Inboxes>,
    events: Arc<EventRenderer>,
    markers: Arc<ReadMarkers>,
}

impl TimelinePages {
    /// Reads pages from these inboxes, and from the ledger below their floors.
    pub(crate) fn new(
        base: Arc<Base>,
        inboxes: Arc<Inboxes>,
        events: Arc<EventRenderer>,
        markers: Arc<ReadMarkers>,
    ) -> Self {
        Self { base, inboxes, events, markers }
    }

    pub(crate) async fn read(&self, caller: Caller, list: PostFeed) -> Result<TimelinePage> {
        let ((limit, cursor), expand) = (list.page.decode()?, list.expand.decode()?);
        let reader = caller.user()?;
        let is_first = cursor.is_none();
        let page = self.page(reader, cursor, limit).await?;
        let marker = async { if is_first { self.markers.get(reader, &page.held).await.map(Some) } else { Ok(None) } };
        let items = self.base.post_renderer.render_timeline(reader, &page.items, page.next, &expand);
        let (items, marker) = tokio::try_join!(items, marker)?;
        Ok(TimelinePage { page: items, position: page.position, read: marker })
    }

    pub(crate) async fn updates(&self, caller: Caller, since: PositionInput) -> Result<UpdatesPage> {
        let since = Position { offset: since.offset, epoch: since.epoch.into() };
        match self.updates_since(caller.user()?, &since).await? {
            Updates::TooFarBack(position) => Ok(UpdatesPage { recovered: false, items: Vec::new(), position }),
            Updates::Recovered(publications, position) => {
                let update = |(offset, members): (u64, Bytes)| Ok(Update { offset, data: data_of(&members)? });
                let items = publications.into_iter().map(update).collect::<Result<_>>()?;
                Ok(UpdatesPage { recovered: true, items, position })
            }
        }
    }

    /// A page of at most `limit` posts below `cursor` (of the newest, without one).
    ///
    /// # Errors
    /// If a store cannot be reached.
    async fn page(&self, user: &UserId, cursor: Option<PostId>, limit: usize) -> Result<Page> {
        let inbox = self.inboxes.read(user).await?;
        let mut page = PostPageBuilder::new(cursor, limit);
        let held = fold(&inbox);
        let mut stored = held.iter().copied().filter(|id| cursor.is_none_or(|cursor| *id < cursor));
        let mut from_ledger = false;
        loop {
            while let Some((before, count)) = page.wants_posts() {
                let ids: Vec<PostId> = if from_ledger {
                    let likely = estimate_reach(&held, before, count);
                    self.base.ledger.timeline_posts(user, TimelineRange { before, limit: count, likely }).await?
                } else {
                    stored.by_ref().take(count).collect()
                };
                let visible =
                    TimelinePolicy::of(&self.base.visibility).timeline_posts(user, ids.iter().copied()).await?;
                page.take_posts(&ids, &visible);
            }
            // The ledger continues below the floor of the inbox.
            if page.is_full() || from_ledger || inbox.floor == PostId::ZERO {
                break;
            }
            from_ledger = true;
            page.continue_below(PostId(inbox.floor.0 + 1));
        }
        let (items, next) = page.finish();
        Ok(Page { items, next, held, position: inbox.top })
    }

    /// The arrivals and removals in a user's timeline since a position, as in the recovery of a subscription.
    ///
    /// # Errors
    /// If a store cannot be reached.
    async fn updates_since(&self, user: &UserId, since: &Position) -> Result<Updates> {
        let top = self.inboxes.open(user).await?;
        if top.epoch != since.epoch || since.offset > top.offset {
            return Ok(Updates::TooFarBack(top));
        }
        let most = self.base.options.recovery_limit;
        let Some(slice) = self.base.broker.read(&inbox_channel(user), Span::After(since.offset, most)).await? else {
            return Ok(Updates::TooFarBack(top));
        };
        match recovered(slice, since, most) {
            Ok(slice) => {
                let (offsets, entries): (Vec<u64>, Vec<Entry>) = slice.entries.into_iter().unzip();
                let audience = Audience::Timeline(user.clone());
                let publications = self.events.render(&audience, Viewer::Client(Some(user)), &entries).await?;
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

/// Estimates the id above which `count` posts below `before` are, from the density of the inbox. The distance is
/// doubled, because posts are not evenly spaced. 0 if the inbox has too few posts for an estimate.
fn estimate_reach(held: &[PostId], before: PostId, count: usize) -> PostId {
    // A single post has no density.
    let [newest, .., oldest] = held else { return PostId::ZERO };
    let spans = u128::from(newest.0.saturating_sub(oldest.0)).saturating_mul(2 * count as u128);
    PostId(before.0.saturating_sub(u64::try_from(spans / held.len() as u128).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_reach_follows_inbox_density() {
        let held: Vec<PostId> = (1..=11).rev().map(|n| PostId(1_000 * n)).collect();
        // 11 posts in 10,000 ids: 30 more span some 27,000 ids; twice that distance is used.
        assert_eq!(estimate_reach(&held, PostId(100_000), 30), PostId(100_000 - 54_545));
        assert_eq!(estimate_reach(&held, PostId(900), 500), PostId::ZERO);
        assert_eq!(estimate_reach(&[PostId(u64::MAX), PostId(1)], PostId(5), usize::MAX), PostId::ZERO);
        // Too few posts for an estimate.
        assert_eq!([&held[..1], &[]].map(|held| estimate_reach(held, PostId(900), 30)), [PostId::ZERO; 2]);
    }
}

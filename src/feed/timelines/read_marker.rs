//! Read markers: the newest post that a user has seen in the timeline, on any device.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::inboxes::{Inboxes, fold};
use super::source::Source;
use crate::broker::inbox_channel;
use crate::feed::base::Base;
use crate::feed::call::Call;
use crate::feed::error::Result;
use crate::feed::pushes::clear_plan;
use crate::feed::visibility::TimelinePolicy;
use crate::model::{ClientEvent, Entry, FilterContext, Millis, PostId, UserId};

/// The maximal number of unread posts that are counted: the visibility of each is checked.
const MAX_UNREAD: usize = 100;

/// A new read marker.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MarkTimelineRead")]
pub(crate) struct MarkReadUpTo {
    /// The newest post that the user has seen; it may be deleted. A post older than the current marker changes nothing,
    /// and an id beyond all known posts counts as the newest post of the timeline.
    id: PostId,
}

/// The read marker of a timeline.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct ReadMarker {
    /// The newest post that the user has seen; 0 before the first mark. It never moves back.
    id: PostId,
    /// The number of newer posts by other users; 100 means 100 or more.
    unread: u64,
}

/// The read markers of timelines.
pub(crate) struct ReadMarkers {
    base: Arc<Base>,
    inboxes: Arc<Inboxes>,
}

impl ReadMarkers {
    /// Manages the markers in this ledger, and pushes them with this broker.
    pub(crate) fn new(base: Arc<Base>, inboxes: Arc<Inboxes>) -> Self {
        Self { base, inboxes }
    }

    pub(crate) async fn mark(&self, call: Call, upto: MarkReadUpTo) -> Result<ReadMarker> {
        let user = call.caller.user()?;
        let held = fold(&self.inboxes.read(&Source::Timeline(user.clone())).await?);
        let asked = known(upto.id, held.first().copied(), self.base.ids.time());
        // Other devices of the user get a silent message about what was read.
        let clear = self.base.options.pushes.plan.map(|_| clear_plan(&call.credential));
        let id = self.base.ledger.mark_read(user, asked, clear.as_ref()).await?;
        let unread = self.unread(user, id, &held).await?;
        if id == asked {
            self.push(user, ReadMarker { id, unread }).await;
        }
        Ok(ReadMarker { id, unread })
    }

    /// The marker of a user whose inbox has these posts, newest first.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(crate) async fn get(&self, user: &UserId, held: &[PostId]) -> Result<ReadMarker> {
        let id = self.base.ledger.read_marker(user).await?;
        Ok(ReadMarker { id, unread: self.unread(user, id, held).await? })
    }

    async fn unread(&self, user: &UserId, marker: PostId, held: &[PostId]) -> Result<u64> {
        let newer = &held[..held.partition_point(|id| *id > marker)];
        let mut unread = 0;
        for some in newer.chunks(MAX_UNREAD) {
            let mut seen = TimelinePolicy::of(&self.base.visibility).timeline_posts(user, some.iter().copied()).await?;
            self.base.content_filter.remove_hidden(Some(user), FilterContext::Home, &mut seen).await?;
            unread += seen.values().filter(|cached| cached.post.author != *user).count();
            if unread >= MAX_UNREAD {
                break;
            }
        }
        Ok(unread.min(MAX_UNREAD) as u64)
    }

    /// Pushes the marker to the user's connections. The log does not record it: other devices read it with their next
    /// page.
    async fn push(&self, user: &UserId, marker: ReadMarker) {
        let ReadMarker { id, unread } = marker;
        let entry = Entry::Data(ClientEvent::Read { id, unread }.encode());
        if let Err(error) = self.base.broker.publish(&inbox_channel(user), &entry).await {
            tracing::warn!(%error, %user, "a read marker is stored, and other devices will learn of it later");
        }
    }
}

/// The position that a mark means. A marker in the future would count posts as read that do not exist yet, so an id
/// beyond the present time is cut to the newest post in the timeline. That one may be ahead of this node's clock: the
/// node that made it has another one.
fn known(asked: PostId, newest: Option<PostId>, now: Millis) -> PostId {
    if asked.time() < now { asked } else { asked.min(newest.unwrap_or(PostId::ZERO)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_end_at_the_newest_known_post() {
        let now = PostId::TIME_ZERO + 1_000_000;
        let at = |time: Millis| PostId::from_parts(time, 3, 0);
        let rows = [
            (at(now - 1), Some(at(now - 5)), at(now - 1), "deleted or unknown, of the past"),
            (at(now + 5), Some(at(now + 5)), at(now + 5), "delivered, from a clock that is 5 ms ahead"),
            (at(now + 120_000), Some(at(now + 120_000)), at(now + 120_000), "delivered, two minutes ahead"),
            (at(now + 1), Some(at(now + 5)), at(now + 1), "older than one that was delivered"),
            (at(now + 6), Some(at(now + 5)), at(now + 5), "beyond all that is known"),
            (PostId::MAX, Some(at(now - 5)), at(now - 5), "the greatest number"),
            (PostId::MAX, None, PostId::ZERO, "an empty timeline"),
            (PostId::ZERO, Some(at(now)), PostId::ZERO, "nothing"),
        ];
        for (asked, newest, expected, case) in rows {
            assert_eq!(known(asked, newest, now), expected, "{case}");
        }
    }
}

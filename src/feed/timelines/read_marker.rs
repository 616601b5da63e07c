//! Read markers: the newest post that a user has seen in the timeline, on any device.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::inboxes::{Inboxes, fold};
use crate::broker::inbox_channel;
use crate::feed::base::Base;
use crate::feed::call::Call;
use crate::feed::error::Result;
use crate::feed::pushes::clear_plan;
use crate::feed::runtime::now;
use crate::feed::visibility::ViewContext;
use crate::model::{Entry, Event, PostId, UserId};

/// The maximal number of unread posts that are counted: the visibility of each is checked.
const MAX_UNREAD: usize = 100;

/// A new read marker.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MarkTimelineRead")]
pub(crate) struct MarkReadUpTo {
    /// The newest post that the user has seen. A post older than the current marker changes nothing.
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
    /// Whether other devices of a user get a silent message about what was read.
    pushes: bool,
}

impl ReadMarkers {
    /// Manages the markers in this ledger, and pushes them with this broker.
    pub(crate) fn new(base: Arc<Base>, inboxes: Arc<Inboxes>, pushes: bool) -> Self {
        Self { base, inboxes, pushes }
    }

    pub(crate) async fn mark(&self, call: Call, upto: MarkReadUpTo) -> Result<ReadMarker> {
        let user = call.caller.user()?;
        // A marker in the future would count posts as read that do not exist yet.
        let latest = PostId::from_parts(now(), PostId::IMPORT_NODE, PostId::LAST_SEQUENCE);
        let asked = upto.id.min(latest);
        let clear = self.pushes.then(|| clear_plan(&call.credential));
        let id = self.base.ledger.mark_read(user, asked, clear.as_ref()).await?;
        let inbox = self.inboxes.read(user).await?;
        let unread = self.unread(user, id, &fold(&inbox)).await?;
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
            let seen =
                self.base.visibility.visible_posts(Some(user), ViewContext::Timeline, some.iter().copied()).await?;
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
        let entry = Entry::Data(Event::Read { id, unread }.encode());
        if let Err(error) = self.base.broker.publish(&inbox_channel(user), &entry).await {
            tracing::warn!(%error, %user, "a read marker is stored, and other devices will learn of it later");
        }
    }
}

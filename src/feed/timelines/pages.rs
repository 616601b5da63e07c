//! Pages of a timeline.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::inboxes::{Inboxes, fold};
use super::read_marker::{ReadMarker, ReadMarkers};
use super::source::Source;
use super::updates::{PositionInput, UpdatesPage, UpdatesReader};
use crate::feed::base::Base;
use crate::feed::call::Caller;
use crate::feed::content::CachedPost;
use crate::feed::error::Result;
use crate::feed::input::{PostFeed, PostPage};
use crate::feed::paging::PostPageBuilder;
use crate::feed::visibility::{PostGathering, TimelinePolicy};
use crate::ledger::TimelineRange;
use crate::model::{FilterContext, Position, PostId, UserId};

/// The maximal number of reads for one page of a reader with filters: some 5,000 posts. After that the page is short,
/// and its cursor continues.
const MAX_FILTERED_READS: usize = 12;

/// A page of a timeline or a list.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TimelinePage {
    #[serde(flatten)]
    pub(crate) page: PostPage,
    /// The log position at which the page was read: everything after it is pushed.
    pub(crate) position: Position,
    /// The read marker; on the first page of a timeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) read: Option<ReadMarker>,
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

/// Reads timelines.
pub(crate) struct TimelinePages {
    base: Arc<Base>,
    inboxes: Arc<Inboxes>,
    updates: Arc<UpdatesReader>,
    markers: Arc<ReadMarkers>,
}

impl TimelinePages {
    /// Reads pages from these inboxes, and from the ledger below their floors.
    pub(crate) fn new(
        base: Arc<Base>,
        inboxes: Arc<Inboxes>,
        updates: Arc<UpdatesReader>,
        markers: Arc<ReadMarkers>,
    ) -> Self {
        Self { base, inboxes, updates, markers }
    }

    pub(crate) async fn read(&self, caller: Caller, list: PostFeed) -> Result<TimelinePage> {
        let ((limit, cursor), expand) = (list.page.decode()?, list.expand.decode()?);
        let reader = caller.user()?;
        let is_first = cursor.is_none();
        let page = self.page(reader, cursor, limit).await?;
        let marker = async { if is_first { self.markers.get(reader, &page.held).await.map(Some) } else { Ok(None) } };
        let items =
            self.base.post_renderer.render_gathered(reader, PostGathering::Timeline, &page.items, page.next, &expand);
        let (items, marker) = tokio::try_join!(items, marker)?;
        Ok(TimelinePage { page: items, position: page.position, read: marker })
    }

    pub(crate) async fn updates(&self, caller: Caller, since: PositionInput) -> Result<UpdatesPage> {
        let since = Position { offset: since.offset, epoch: since.epoch.into() };
        self.updates.since(&Source::Timeline(caller.user()?.clone()), since).await
    }

    /// A page of at most `limit` posts below `cursor` (of the newest, without one).
    ///
    /// # Errors
    /// If a store cannot be reached.
    async fn page(&self, user: &UserId, cursor: Option<PostId>, limit: usize) -> Result<Page> {
        let inbox = self.inboxes.read(&Source::Timeline(user.clone())).await?;
        // Who mutes nearly everything does not read all that the ledger has.
        let max_reads = self.base.content_filter.of(Some(user)).await?.map_or(usize::MAX, |_| MAX_FILTERED_READS);
        let mut page = PostPageBuilder::with_max_reads(cursor, limit, max_reads);
        let held = fold(&inbox);
        let mut stored = held.iter().copied().filter(|id| cursor.is_none_or(|cursor| *id < cursor));
        let follows_topics = self.base.followed_topics.of(user).await?.is_some();
        let mut from_ledger = false;
        loop {
            while let Some((before, count)) = page.wants_posts() {
                let ids: Vec<PostId> = if from_ledger && follows_topics {
                    self.base.ledger.timeline_posts_with_topics(user, before, count).await?
                } else if from_ledger {
                    let likely = estimate_reach(&held, before, count);
                    self.base.ledger.timeline_posts(user, TimelineRange { before, limit: count, likely }).await?
                } else {
                    stored.by_ref().take(count).collect()
                };
                let mut visible =
                    TimelinePolicy::of(&self.base.visibility).timeline_posts(user, ids.iter().copied()).await?;
                self.base.content_filter.remove_hidden(Some(user), FilterContext::Home, &mut visible).await?;
                page.take_posts(&ids, &visible);
            }
            // The ledger continues below the floor of the inbox.
            if page.is_full() || page.is_stopped() || from_ledger || inbox.floor == PostId::ZERO {
                break;
            }
            from_ledger = true;
            page.continue_below(PostId(inbox.floor.0 + 1));
        }
        let (items, next) = page.finish();
        Ok(Page { items, next, held, position: inbox.top })
    }
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

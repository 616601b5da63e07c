//! Inboxes of timelines and lists: opened, filled from the ledger, and kept up to date for connected users.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use super::catch_up::CatchUp;
use super::list_backfill::past_of_list;
use super::pull_cursor::{Presence, PullCursor};
use super::source::Source;
use crate::broker::{Inbox, InboxState};
use crate::feed::base::Base;
use crate::feed::error::{FeedError, Result};
use crate::feed::visibility::ViewContext;
use crate::ledger::{MAX_LIST_POSTS, TimelineRange};
use crate::model::{Entry, Epoch, GoneReason, InboxId, OwnedList, Position, PostId, UserId};

/// The maximal number of attempts to open an inbox that is dropped while it is being filled. Even one retry is rare.
const MAX_ATTEMPTS: usize = 5;

/// The maximal number of attempts to catch an inbox up with the node's position in the pull log while that position
/// advances.
const MAX_PRESENCE_ATTEMPTS: usize = 20;

/// The inboxes of users and lists.
pub(crate) struct Inboxes {
    base: Arc<Base>,
    catch_up: Arc<CatchUp>,
    cursor: Arc<PullCursor>,
}

impl Inboxes {
    /// The inboxes in this broker, filled from this ledger.
    pub(crate) fn new(base: Arc<Base>, catch_up: Arc<CatchUp>, cursor: Arc<PullCursor>) -> Self {
        Self { base, catch_up, cursor }
    }

    /// Brings an inbox up to date, and keeps it up to date until the presence is dropped. Returns the position of
    /// the inbox.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(crate) async fn track_presence(&self, source: &Source) -> Result<(Position, Presence)> {
        for _ in 0..MAX_PRESENCE_ATTEMPTS {
            let (position, mark) = self.open_with_mark(source).await?;
            if let Some(presence) = self.cursor.enter(source, mark) {
                return Ok((position, presence));
            }
        }
        tracing::warn!(inbox = %source.inbox(), "the pulled log grows faster than a timeline can be updated");
        Err(FeedError::Unavailable)
    }

    /// Brings an inbox up to date if it exists, for readers of its log.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(crate) async fn catch_up(&self, source: &Source) -> Result<()> {
        if self.cursor.covers(source, 0) {
            return Ok(());
        }
        let inbox = self.base.broker.read_inbox(&source.inbox()).await?;
        if let Some(inbox) = inbox.filter(|inbox| !self.cursor.covers(source, inbox.mark)) {
            self.catch_up.run(source, &inbox.top.epoch, inbox.mark).await?;
        }
        Ok(())
    }

    /// Brings an inbox up to date. Returns its position: everything after it arrives there.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(crate) async fn open(&self, source: &Source) -> Result<Position> {
        self.open_with_mark(source).await.map(|(position, _)| position)
    }

    /// As [`open`](Self::open), with the mark of the pull log up to which the inbox has caught up.
    async fn open_with_mark(&self, source: &Source) -> Result<(Position, u64)> {
        for _ in 0..MAX_ATTEMPTS {
            match self.base.broker.open_inbox(&source.inbox()).await? {
                InboxState::Ready(position, mark) if self.cursor.covers(source, mark) => return Ok((position, mark)),
                InboxState::Ready(position, mark) => {
                    if let Some(opened) = self.catch_up.run(source, &position.epoch, mark).await? {
                        return Ok(opened);
                    }
                }
                // Another node may have filled it, so its position is read again.
                InboxState::Unfilled(epoch) => self.fill(source, &epoch).await?,
            }
        }
        tracing::warn!(inbox = %source.inbox(), "an inbox went away again and again while it was being filled");
        Err(FeedError::Unavailable)
    }

    /// An inbox, up to date.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn read(&self, source: &Source) -> Result<Inbox> {
        for _ in 0..MAX_ATTEMPTS {
            match self.base.broker.read_inbox(&source.inbox()).await? {
                Some(inbox) if self.cursor.covers(source, inbox.mark) => return Ok(inbox),
                Some(inbox) => _ = self.catch_up.run(source, &inbox.top.epoch, inbox.mark).await?,
                None => _ = self.open(source).await?,
            }
        }
        tracing::warn!(inbox = %source.inbox(), "an inbox went away again and again while it was being read");
        Err(FeedError::Unavailable)
    }

    async fn fill(&self, source: &Source, epoch: &Epoch) -> Result<()> {
        match source {
            Source::Timeline(user) => self.fill_timeline(user, epoch).await,
            Source::List(list) => self.fill_list(list, epoch).await,
        }
    }

    async fn fill_list(&self, list: &OwnedList, epoch: &Epoch) -> Result<()> {
        // Read before the ledger, as for a timeline.
        let mark = self.cursor.reached();
        let mut posts = past_of_list(&self.base, list).await?;
        posts.reverse();
        let floor = if posts.len() < MAX_LIST_POSTS { PostId::ZERO } else { below(posts[0]) };
        self.base.broker.fill_inbox(&InboxId::List(list.id), epoch, &posts, floor, mark).await?;
        // Members, and what the owner may see of them, may have changed after the read of the ledger.
        self.catch_up.recheck_list(list, posts).await
    }

    async fn fill_timeline(&self, user: &UserId, epoch: &Epoch) -> Result<()> {
        // Read before the ledger: the posts of the pull log up to this mark are in the ledger.
        let mark = self.cursor.reached();
        let length = self.base.options.timeline.length;
        let ticket = self.base.relations.ticket(user);
        let follows_topics = self.base.followed_topics.of(user).await?.is_some();
        let mut posts = self.past_of(user, follows_topics).await?;
        posts.reverse();
        // A read of the maximal length may have omitted older posts: the inbox is complete from its oldest post on.
        let floor = if posts.len() < length { PostId::ZERO } else { below(posts[0]) };
        // Skips posts the reader cannot see yet; they are inserted and announced once visible. The ledger has applied
        // the restrictions between users, so only posts with a visibility of their own are checked. Posts of
        // followed topics may have any author: then all are checked.
        let restricted = match posts.is_empty() {
            true => HashSet::new(),
            false if follows_topics => posts.iter().copied().collect(),
            false => self.base.ledger.restricted_in_timeline(user, &posts).await?.into_iter().collect::<HashSet<_>>(),
        };
        let shown =
            self.base.visibility.visible_posts(Some(user), ViewContext::Inbox, restricted.iter().copied()).await?;
        posts.retain(|id| !restricted.contains(id) || shown.contains_key(id));
        self.base.broker.fill_inbox(&InboxId::Timeline(user.clone()), epoch, &posts, floor, mark).await?;
        // An unfollow that was committed after the read of the ledger may have removed the author's posts before these
        // were inserted. It waited until this node had applied its invalidation, so the change is visible here.
        if self.base.relations.have_changed(user, ticket) {
            self.remove_unfollowed(user, &posts, follows_topics).await?;
        }
        Ok(())
    }

    /// The newest posts of a user's timeline in the ledger, newest first.
    async fn past_of(&self, user: &UserId, with_topics: bool) -> Result<Vec<PostId>> {
        let limit = self.base.options.timeline.length;
        if with_topics {
            return Ok(self.base.ledger.timeline_posts_with_topics(user, PostId::MAX, limit).await?);
        }
        let page = TimelineRange { before: PostId::MAX, limit, likely: PostId::ZERO };
        Ok(self.base.ledger.timeline_posts(user, page).await?)
    }

    /// Removes those of `posts` that were added to an inbox and are no longer in the user's timeline.
    async fn remove_unfollowed(&self, user: &UserId, posts: &[PostId], with_topics: bool) -> Result<()> {
        let missing_in = |past: &[PostId]| {
            // Newer posts may have displaced the oldest ones.
            let full = past.len() >= self.base.options.timeline.length;
            let oldest = past.last().copied().filter(|_| full).unwrap_or(PostId::ZERO);
            let past: HashSet<PostId> = past.iter().copied().collect();
            posts.iter().copied().filter(|id| *id >= oldest && !past.contains(id)).collect::<Vec<_>>()
        };
        let gone = missing_in(&self.past_of(user, with_topics).await?);
        if gone.is_empty() {
            return Ok(());
        }
        let inbox = InboxId::Timeline(user.clone());
        self.base.broker.purge_inbox(&inbox, &gone, GoneReason::Hidden).await?;
        // A concurrent follow found the posts in the inbox and did not merge them.
        let gone: HashSet<PostId> = missing_in(&self.past_of(user, with_topics).await?).into_iter().collect();
        let back: Vec<PostId> = posts.iter().copied().filter(|id| !gone.contains(id)).collect();
        self.base.broker.merge_inbox(&inbox, &back, PostId::ZERO).await?;
        Ok(())
    }
}

/// The id below which the ledger is read if the inbox is complete from `id` on.
fn below(id: PostId) -> PostId {
    PostId(id.0.saturating_sub(1))
}

/// The fold of an inbox's log: the posts above its floor that arrived and did not leave, newest first, each once.
pub(super) fn fold(inbox: &Inbox) -> Vec<PostId> {
    // Sorts newest first (the entries are nearly sorted), with the latest entry of each post before its earlier ones.
    let mut latest: Vec<(PostId, u64, bool)> = Vec::with_capacity(inbox.entries.len());
    for (offset, entry) in inbox.entries.iter().rev() {
        match entry {
            Entry::Post(id) => latest.push((*id, *offset, true)),
            Entry::Gone(id, _) => latest.push((*id, *offset, false)),
            Entry::Edited(_)
            | Entry::AuthorGone(_)
            | Entry::Data(_)
            | Entry::NotificationChanged(_)
            | Entry::Comment(_)
            | Entry::Restricted(..)
            | Entry::PostRemoved(_) => {}
        }
    }
    latest.sort_unstable_by_key(|(id, offset, _)| Reverse((*id, *offset)));
    latest.dedup_by_key(|(id, ..)| *id);
    latest.into_iter().filter(|(id, _, here)| *here && *id > inbox.floor).map(|(id, ..)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_is_the_fold_of_the_log_newest_post_first() {
        let log = [
            Entry::Post(PostId(30)),
            Entry::Post(PostId(10)),
            Entry::Post(PostId(20)),
            Entry::Gone(PostId(30), GoneReason::Unfollowed),
            Entry::Post(PostId(40)),
            Entry::Gone(PostId(40), GoneReason::Deleted),
            Entry::Post(PostId(30)),
            Entry::Post(PostId(5)),
        ];
        let inbox = Inbox {
            top: Position { offset: 8, epoch: "e".into() },
            floor: PostId(5),
            mark: 0,
            entries: log.into_iter().zip(1..).map(|(entry, offset)| (offset, entry)).collect(),
        };
        assert_eq!(fold(&inbox), [PostId(30), PostId(20), PostId(10)]);
    }
}

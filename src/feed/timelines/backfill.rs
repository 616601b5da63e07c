//! Adds and removes the posts of one author in one timeline, after an edge between the two users changed.

use std::sync::Arc;
use std::time::Duration;

use crate::feed::base::Base;
use crate::feed::error::Result;
use crate::feed::runtime::now;
use crate::feed::visibility::{AccessContext, ViewContext};
use crate::ledger::{JobId, MergeSource};
use crate::model::{GoneReason, InboxId, Millis, PostId, Relation, Standing, UserId, Visibility};

/// Changes inboxes after edges have changed.
pub(crate) struct Backfill {
    base: Arc<Base>,
}

impl Backfill {
    /// Changes the inboxes in this broker.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    /// Merges the posts of an author that the reader may see into the reader's inbox: posts above the inbox's floor, up
    /// to a maximum. If there are more, the floor rises; posts below it are read from the ledger.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(crate) async fn merge_author(&self, reader: &UserId, author: &UserId) -> Result<()> {
        self.merge_authors(vec![(reader.clone(), author.clone())], None).await
    }

    /// The same for some pairs of a reader and an author. Removes the job, if given, once the posts are merged.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn merge_authors(
        &self,
        mut pairs: Vec<(UserId, UserId)>,
        mut finished: Option<JobId>,
    ) -> Result<()> {
        let most = self.base.options.timeline.follow_merge;
        while !pairs.is_empty() {
            // A later unfollow, mute or block has its own job, which may have run already; then these posts must not be
            // merged. That job may also run between this read and the merge, so the relations are checked again after
            // the merge.
            let sources = self.base.ledger.merge_sources(&pairs, most + 1).await?;
            let mut merged = Vec::new();
            let mut posts = Vec::new();
            for (pair, source) in pairs.into_iter().zip(sources) {
                if is_in_timeline(source.relation) {
                    posts.push(self.merge(&pair, source).await?);
                    merged.push(pair);
                }
            }
            let relations = match finished.take() {
                Some(job) => self.base.ledger.remove_job(job, &merged).await?,
                None if merged.is_empty() => return Ok(()),
                None => self.base.ledger.relations(&merged).await?,
            };
            pairs = Vec::new();
            for ((pair, posts), relation) in merged.into_iter().zip(posts).zip(relations) {
                if !is_in_timeline(relation) {
                    self.base.broker.purge_inbox(&timeline(&pair.0), &posts, GoneReason::Hidden).await?;
                    pairs.push(pair);
                }
            }
        }
        Ok(())
    }

    /// Merges an author's newest posts into an inbox. Returns them.
    async fn merge(&self, (reader, author): &(UserId, UserId), source: MergeSource) -> Result<Vec<PostId>> {
        let MergeSource { relation, mut posts } = source;
        let most = self.base.options.timeline.follow_merge;
        let floor = posts.get(most).map_or(PostId::ZERO, |(post, _)| *post);
        posts.truncate(most);
        let access = AccessContext { reader: Some(reader), relation, view: ViewContext::Timeline };
        let visible = posts.iter().rev().filter(|(_, visibility)| access.can_see(author, visibility));
        let mut visible: Vec<PostId> = visible.map(|(post, _)| *post).collect();
        if relation.reposts_off {
            let posts = self.base.posts.get(visible.iter().copied()).await?;
            visible.retain(|id| posts.get(id).is_some_and(|cached| cached.post.repost.is_none()));
        }
        if self.is_limited(author).await?
            && let Some(topics) = self.base.followed_topics.of(reader).await?
        {
            // The inbox may have some for a topic, which the reader was not shown: so they are no repeats.
            let posts = self.base.posts.get(visible.iter().copied()).await?;
            let has_topic = |id: &PostId| posts.get(id).is_some_and(|it| topics.matching(&it.post).is_some());
            let withheld: Vec<PostId> = visible.iter().copied().filter(has_topic).collect();
            self.base.broker.purge_inbox(&timeline(reader), &withheld, GoneReason::Hidden).await?;
        }
        self.base.broker.merge_inbox(&timeline(reader), &visible, floor).await?;
        Ok(visible)
    }

    /// Whether only followers of an author see their posts by a topic. An inbox stores them regardless.
    async fn is_limited(&self, author: &UserId) -> Result<bool> {
        Ok(self.base.relations.standing(author).await? == Standing::Limited)
    }

    /// Adds or removes an author's posts for friends after the author began or ended to follow the reader.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(crate) async fn sync_friendship(&self, reader: &UserId, author: &UserId) -> Result<()> {
        let relation = self.relation_now(reader, author).await?;
        if !is_in_timeline(relation) {
            return Ok(());
        }
        if relation.followed {
            return self.merge_author(reader, author).await;
        }
        let Some(inbox) = self.base.broker.read_inbox(&timeline(reader)).await? else { return Ok(()) };
        let held = inbox.added_posts();
        let posts = self.base.posts.get(held.iter().copied()).await?;
        let for_friends = |id: &PostId| {
            posts.get(id).is_some_and(|it| it.post.author == *author && it.post.visibility == Visibility::Friends)
        };
        let lost: Vec<PostId> = held.iter().copied().filter(for_friends).collect();
        self.base.broker.purge_inbox(&timeline(reader), &lost, GoneReason::Hidden).await?;
        // The fan-out of a deletion selects users that may see the post; from now on the reader may not be one of them.
        let deleted: Vec<PostId> = held.into_iter().filter(|id| !posts.contains_key(id)).collect();
        self.base.broker.purge_inbox(&timeline(reader), &deleted, GoneReason::Deleted).await?;
        Ok(())
    }

    /// Removes the posts of an author from a reader's inbox. Returns `false` if the reader follows the author again, so
    /// that the removal must not be repeated. A post whose fan-out is in progress may arrive after the removal, because
    /// the followers may have been read before it. The caller then repeats the removal with `is_repeated`.
    ///
    /// If the author's posts belong to the timeline again, and this is the first removal, they are removed and merged:
    /// pages that were read in between lack them, and only the log informs those readers.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn purge_author(&self, reader: &UserId, author: &UserId, is_repeated: bool) -> Result<bool> {
        let relation = self.relation_now(reader, author).await?;
        let reason = if hides(relation) { GoneReason::Hidden } else { GoneReason::Unfollowed };
        let is_back = is_in_timeline(relation);
        if is_back && is_repeated {
            return Ok(false);
        }
        if let Some(inbox) = self.base.broker.read_inbox(&timeline(reader)).await? {
            let mut held = inbox.added_posts();
            let posts = self.base.posts.get(held.iter().copied()).await?;
            // Posts that the timeline also has for a followed topic are kept.
            let topics = self.base.followed_topics.of(reader).await?;
            let access = AccessContext { reader: Some(reader), relation, view: ViewContext::Inbox };
            let is_theirs = |id: &PostId| posts.get(id).is_some_and(|cached| cached.post.author == *author);
            let is_kept = |id: &PostId| {
                let cached = posts.get(id).filter(|_| !is_back);
                cached.is_some_and(|cached| access.followed_topic(&cached.post, topics.as_deref()).is_some())
            };
            let (kept, lost): (Vec<PostId>, Vec<PostId>) = held.iter().copied().filter(is_theirs).partition(is_kept);
            self.base.broker.purge_inbox(&timeline(reader), &lost, reason).await?;
            if !kept.is_empty() && self.is_limited(author).await? {
                // Open timelines lose them. The inbox keeps them until the author is not limited any more.
                self.base.broker.purge_inbox(&timeline(reader), &kept, reason).await?;
                self.base.broker.merge_inbox(&timeline(reader), &kept, PostId::ZERO).await?;
            }
            // The fan-out of a deletion of one of these posts may omit the reader from now on, so deleted posts are
            // removed here.
            held.retain(|id| !posts.contains_key(id));
            self.base.broker.purge_inbox(&timeline(reader), &held, GoneReason::Deleted).await?;
            // A concurrent follow may have merged the posts before they were removed.
            if is_back || is_in_timeline(self.relation_now(reader, author).await?) {
                self.merge_author(reader, author).await?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes the reposts of an author's posts from a reader's open timeline, if the reader may not see these posts.
    /// They are merged again at once: pages, which look at both posts, show them when the reader may.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn hide_reposts_of(&self, reader: &UserId, author: &UserId) -> Result<()> {
        if !hides(self.relation_now(reader, author).await?) {
            return Ok(());
        }
        let Some(inbox) = self.base.broker.read_inbox(&timeline(reader)).await? else { return Ok(()) };
        let held = inbox.added_posts();
        let posts = self.base.posts.get(held.iter().copied()).await?;
        let reposted: Vec<PostId> = posts.values().filter_map(|cached| cached.post.repost).collect();
        let theirs = self.base.posts.get(reposted).await?;
        let is_of_author = |id: &PostId| {
            let reposted = posts.get(id).and_then(|cached| theirs.get(&cached.post.repost?));
            reposted.is_some_and(|reposted| reposted.post.author == *author)
        };
        let reposts: Vec<PostId> = held.into_iter().filter(is_of_author).collect();
        if !reposts.is_empty() {
            self.base.broker.purge_inbox(&timeline(reader), &reposts, GoneReason::Hidden).await?;
            self.base.broker.merge_inbox(&timeline(reader), &reposts, PostId::ZERO).await?;
        }
        Ok(())
    }

    /// Removes the reposts of an author from a reader's inbox, unless the reader wants them again.
    ///
    /// # Errors
    /// If a store cannot be reached.
    pub(super) async fn purge_reposts(&self, reader: &UserId, author: &UserId) -> Result<()> {
        let is_unwanted = || async { Result::Ok(self.relation_now(reader, author).await?.reposts_off) };
        if !is_unwanted().await? {
            return Ok(());
        }
        let Some(inbox) = self.base.broker.read_inbox(&timeline(reader)).await? else { return Ok(()) };
        let held = inbox.added_posts();
        let posts = self.base.posts.get(held.iter().copied()).await?;
        let is_theirs = |id: &PostId| {
            posts.get(id).is_some_and(|cached| cached.post.author == *author && cached.post.repost.is_some())
        };
        let reposts: Vec<PostId> = held.into_iter().filter(is_theirs).collect();
        self.base.broker.purge_inbox(&timeline(reader), &reposts, GoneReason::Hidden).await?;
        // The reader may have changed their mind meanwhile.
        if is_unwanted().await? { Ok(()) } else { self.merge_author(reader, author).await }
    }

    /// Whether a node may still append posts of the author from the pull log for readers that it selected before the
    /// job was created. That node removes them itself afterwards, unless it dies before. `patience` is the time without
    /// a lease renewal after which a node counts as dead.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn may_be_pulled(&self, author: &UserId, created_at: Millis, patience: Duration) -> Result<bool> {
        let since = Duration::from_millis(now().saturating_sub(created_at));
        Ok(since < patience && self.base.ledger.fanout_mode(author).await?.pulled)
    }

    /// The current relation of two users in the ledger.
    async fn relation_now(&self, reader: &UserId, author: &UserId) -> Result<Relation> {
        let relations = self.base.ledger.relations(&[(reader.clone(), author.clone())]).await?;
        Ok(relations.first().copied().unwrap_or_default())
    }
}

fn timeline(reader: &UserId) -> InboxId {
    InboxId::Timeline(reader.clone())
}

/// Whether the reader may not see the author's posts, wherever they are.
fn hides(relation: Relation) -> bool {
    relation.is_barred() || relation.muted
}

/// Whether the posts of an author belong to a timeline, as far as the reader may see them.
fn is_in_timeline(relation: Relation) -> bool {
    relation.follows && !relation.muted && !relation.listed && !relation.is_barred()
}

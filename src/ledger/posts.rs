//! Posts, and the lists that contain them.

use async_trait::async_trait;

use super::{NewJob, Result};
use crate::model::{DomainEvent, Millis, Post, PostId, TraceContext, UserId};

/// The range of a timeline to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineRange {
    /// Only posts with smaller ids than this one.
    pub before: PostId,
    /// The maximal number of posts.
    pub limit: usize,
    /// An estimate of the lowest post on the page; 0: unknown. It does not change the result, only the cost, which is
    /// least if the estimate is right or slightly too low.
    pub likely: PostId,
}

/// The result of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditOutcome {
    /// The post is replaced; these jobs carry the change.
    Edited(Vec<NewJob>),
    /// Nothing changed: another edit was committed since the post was read. Read the post again, and retry.
    Conflict,
    /// Nothing changed: the author has no such post, or it is deleted.
    Missing,
}

/// The author of a post, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostOwner {
    /// The id of the post.
    pub post: PostId,
    /// The author of the post.
    pub author: UserId,
    /// Whether the visibility of the post is public.
    pub public: bool,
}

/// The maximal number of hidden posts that one scan of an author's posts skips.
pub const MAX_HIDDEN: usize = 1_000;

/// The posts of an author that a viewer can see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisiblePosts {
    /// The ids of the posts, newest first.
    pub posts: Vec<PostId>,
    /// The post at which the scan stopped after skipping [`MAX_HIDDEN`] posts. Posts below it have not been read yet.
    pub stopped_at: Option<PostId>,
}

/// From rows of ids, newest first, each with whether the scan stopped there.
impl FromIterator<(PostId, bool)> for VisiblePosts {
    fn from_iter<I: IntoIterator<Item = (PostId, bool)>>(rows: I) -> Self {
        let mut visible = Self::default();
        for (post, is_stop) in rows {
            if is_stop {
                visible.stopped_at = Some(post);
                break;
            }
            visible.posts.push(post);
        }
        visible
    }
}

/// Posts.
#[async_trait]
pub trait PostStore: Send + Sync {
    /// Stores a post, its topics, its [event](DomainEvent::post_created) and its fan-out job, in one
    /// transaction. Returns the job. Returns `None` and changes nothing if the author has this very post already, or
    /// had a post with its id that is deleted: the call is a repeat. The caller has checked that the author exists and
    /// that no other post has the id; otherwise the call fails. The job is a part of `trace`, if that is recorded.
    async fn create_post(&self, post: &Post, trace: Option<TraceContext>) -> Result<Option<NewJob>>;

    /// The greatest id of a post or comment, deleted posts included; [`PostId::ZERO`]: there is none. Takes a few
    /// look-ups in primary keys.
    async fn greatest_id(&self) -> Result<PostId>;

    /// The posts among `ids` that exist and are not deleted, each once, in any order. Accepts any number of ids in one
    /// round trip.
    async fn posts(&self, ids: &[PostId]) -> Result<Vec<Post>>;

    /// The existing posts among `ids` that are not public, each once, in any order. The posts are those of the
    /// timeline of `reader`: authors are users that `reader` follows. Posts by `reader` may be omitted. Accepts any
    /// number of ids in one round trip. The cost is one look-up for each id or each followee, and otherwise depends
    /// only on the restricted posts.
    async fn restricted_in_timeline(&self, reader: &UserId, ids: &[PostId]) -> Result<Vec<PostId>>;

    /// The authors of the posts among `ids` that exist and are not deleted, each post once, in any order. Accepts any
    /// number of ids in one round trip. Reads no bodies.
    async fn post_owners(&self, ids: &[PostId]) -> Result<Vec<PostOwner>>;

    /// Deletes a post of `author` and creates the job that removes it from inboxes, in one transaction. `None` if the
    /// author has no such post, or it is deleted already.
    async fn delete_post(&self, id: PostId, author: &UserId, now: Millis) -> Result<Option<NewJob>>;

    /// Replaces `before` by `after`, which has the same id and author, together with its topics, and submits the jobs
    /// that carry the change to inboxes, in one transaction: [`Work::Edit`](super::Work::Edit) and, if
    /// the visibility changed, [`Work::RevokeVisibility`](super::Work::RevokeVisibility) and
    /// [`Work::GrantVisibility`](super::Work::GrantVisibility) after it, in that order. A conflict if the `edited_at`
    /// of the stored post is not that of `before`.
    ///
    /// `edited_at` is the version of a post: every edit must set a greater one than the edit that it replaces, or a
    /// concurrent edit is lost. The restoration of a removed post sets the former one again, with the former content.
    ///
    /// `event`, which happened at `now`, is written in the same transaction, if the post is replaced.
    async fn edit_post(
        &self,
        before: &Post,
        after: &Post,
        event: Option<&DomainEvent>,
        now: Millis,
    ) -> Result<EditOutcome>;

    /// An author's posts below `before`, newest first.
    async fn author_posts(&self, author: &UserId, before: PostId, limit: usize) -> Result<Vec<PostId>>;

    /// The posts of an author below `before` that `viewer` (`None`: anonymous) can see when reading the author's posts,
    /// newest first, at most `limit` (1 or more). Scans no other posts, except posts that name the viewer in `not_to`:
    /// a scan stops after [`MAX_HIDDEN`] of these.
    async fn visible_posts(
        &self,
        author: &UserId,
        viewer: Option<&UserId>,
        before: PostId,
        limit: usize,
    ) -> Result<VisiblePosts>;

    /// The public posts of all authors below `before`, newest first. The cost depends on `limit`, not on the number of
    /// posts of any kind.
    async fn public_posts(&self, before: PostId, limit: usize) -> Result<Vec<PostId>>;

    /// A topic's posts below `before`, newest first.
    async fn topic_posts(&self, topic: &str, before: PostId, limit: usize) -> Result<Vec<PostId>>;

    /// The posts of a timeline: posts by the users that `reader` follows and by the reader, newest first. Omits authors
    /// that the reader mutes or has in an exclusive list, and authors that hide from the reader. The cost depends on
    /// the number of followees and the limit, not on the number of their posts.
    async fn timeline_posts(&self, reader: &UserId, page: TimelineRange) -> Result<Vec<PostId>>;

    /// The same with the public posts of the topics that `reader` follows, by any author: the newest `limit` below
    /// `before`, each once.
    async fn timeline_posts_with_topics(&self, reader: &UserId, before: PostId, limit: usize) -> Result<Vec<PostId>>;

    /// The newest `limit` public posts of these topics, each once, newest first. Posts that were deleted are omitted.
    async fn newest_with_topics(&self, topics: &[String], limit: usize) -> Result<Vec<PostId>>;
}

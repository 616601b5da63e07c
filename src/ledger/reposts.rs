//! Reposts and quotes: posts that name another post.

use async_trait::async_trait;

use super::{NewJob, Result};
use crate::model::{Millis, Post, PostId, TraceContext, User, UserId, VersionedCounts};

/// The outcome of the creation of a post that names another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamingOutcome {
    /// It is stored, and has created this job.
    Stored(NewJob),
    /// The author has this very post already, or had it and deleted it. Nothing was written.
    Before,
    /// The author has reposted the post already, by this one. Nothing was written.
    Reposted(PostId),
    /// The named post does not exist. Nothing was written.
    NoPost,
}

/// One of the newest reposts of a post.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewestRepost {
    /// The post.
    pub post: PostId,
    /// The repost.
    pub repost: PostId,
    /// The author of the repost.
    pub author: UserId,
}

/// A repost, in the list of those of a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRepost {
    /// The repost.
    pub repost: PostId,
    /// Its author.
    pub user: User,
}

/// Reposts and quotes.
#[async_trait]
pub trait RepostStore: Send + Sync {
    /// As [`create_post`](super::PostStore::create_post), for a post that reposts or quotes another one. In the same
    /// transaction, the counts of the named post change.
    async fn create_naming_post(&self, post: &Post, trace: Option<TraceContext>) -> Result<NamingOutcome>;

    /// The post by which a user reposted a post.
    async fn repost_by(&self, user: &UserId, post: PostId) -> Result<Option<PostId>>;

    /// The newest reposts of posts, in any order, at most `each` of each post. Accepts any number of posts in one round
    /// trip.
    async fn newest_reposts(&self, posts: &[PostId], each: usize) -> Result<Vec<NewestRepost>>;

    /// The reposts of a post that are older than `before`, newest first. Accepts only authors that are not erased.
    async fn reposts_of(&self, post: PostId, before: PostId, limit: usize) -> Result<Vec<ListedRepost>>;

    /// The pairs among `pairs` whose user reposted the post, each with the repost. Accepts any number of pairs in one
    /// round trip.
    async fn reposted_among(&self, pairs: &[(PostId, UserId)]) -> Result<Vec<((PostId, UserId), PostId)>>;

    /// The posts that quote a post and are older than `before`, newest first, without those that were detached.
    async fn quotes_of(&self, post: PostId, before: PostId, limit: usize) -> Result<Vec<PostId>>;

    /// The posts among `quotes` that were detached from the post that they quote. Accepts any number of ids in one
    /// round trip.
    async fn detached_among(&self, quotes: &[PostId]) -> Result<Vec<PostId>>;

    /// The quoted post of a quote, and its author; `None`: the post quotes nothing.
    async fn quoted_by(&self, quote: PostId) -> Result<Option<(PostId, UserId)>>;

    /// Detaches a quote of a post of `author` for good. Returns whether it was not detached before.
    async fn detach_quote(&self, author: &UserId, quote: PostId) -> Result<bool>;

    /// Detaches the quotes of posts of `author` by posts of `by`, `limit` at most. Returns the posts that quote.
    async fn detach_quotes_by(&self, author: &UserId, by: &UserId, limit: usize) -> Result<Vec<PostId>>;

    /// Creates a job ([`Work::HideRepost`](super::Work::HideRepost)) for each of these reposts. Returns the jobs.
    async fn hide_reposts(&self, reposts: &[NewestRepost], now: Millis) -> Result<Vec<NewJob>>;

    /// The counts of a post, with their version.
    async fn versioned_counts(&self, post: PostId) -> Result<VersionedCounts>;
}

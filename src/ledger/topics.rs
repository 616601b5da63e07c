//! Topics, by their latest activity.

use async_trait::async_trait;

use super::Result;
use crate::model::PostId;

/// A topic as the public sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name, without the `#`.
    pub name: String,
    /// How many public posts are about it.
    pub posts: u64,
    /// The newest of them; in a list, the newest when the list was begun.
    pub last: PostId,
}

/// Where a list of topics goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicCursor {
    /// The newest post when the list was begun: topics stand where they stood then.
    pub begun: PostId,
    /// The newest post of the last topic of the page, as of then.
    pub last: PostId,
    /// The last topic of the page.
    pub name: String,
}

/// Topics. A topic is there as long as a post with [`Visibility::Public`](crate::model::Visibility::Public) is about
/// it; number and newest change in the transaction that makes, edits or deletes the post.
#[async_trait]
pub trait TopicStore: Send + Sync {
    /// Topics, the one with the newest post first (of two with the same newest post, the one whose name is greater byte
    /// by byte). After `cursor` come those below it in the order of when the list was begun: one that became active
    /// since then keeps its place, so it is returned once. Of at most [`MAX_MOVED_TOPICS`] such topics this is known,
    /// the most active ones.
    async fn topics(&self, cursor: Option<TopicCursor>, limit: usize) -> Result<Vec<Topic>>;
}

/// How many topics that became active while a list is read keep their places in it.
pub const MAX_MOVED_TOPICS: usize = 1_000;

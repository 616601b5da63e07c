//! Topics, ordered by their latest activity.

use async_trait::async_trait;

use super::Result;
use crate::model::PostId;

/// A topic with its public posts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// The name of the topic, without the `#`.
    pub name: String,
    /// The number of public posts with the topic.
    pub posts: u64,
    /// The newest of these posts; in a list, the newest when the list was begun.
    pub last: PostId,
}

/// The position after which a list of topics continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicCursor {
    /// The newest post when the list was begun. Topics keep the order of that time.
    pub begun: PostId,
    /// The newest post of the last topic of the page, at that time.
    pub last: PostId,
    /// The name of the last topic of the page.
    pub name: String,
}

/// Topics. A topic exists as long as a post with [`Visibility::Public`](crate::model::Visibility::Public) has it. The
/// transaction that creates, edits or deletes a post updates the number and the newest post of its topics.
#[async_trait]
pub trait TopicStore: Send + Sync {
    /// Topics, the one with the newest post first (of two with the same newest post, the one with the greater name,
    /// byte by byte). With `cursor`, the topics after it, in the order of the time when the list was begun: a topic
    /// that became active since then keeps its position, so the list returns it once. At most [`MAX_MOVED_TOPICS`] such
    /// topics, the most active ones, keep their positions.
    async fn topics(&self, cursor: Option<TopicCursor>, limit: usize) -> Result<Vec<Topic>>;

    /// Topics whose folded name begins with `prefix`, which the caller has folded, each with that name. Ordered by
    /// (folded name, name), by code points; begins after `after`. The cost depends on `limit`, not on the number of
    /// topics.
    async fn search_topics(
        &self,
        prefix: &str,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<(String, Topic)>>;
}

/// The number of topics that keep their positions when they become active while a list is read.
pub const MAX_MOVED_TOPICS: usize = 1_000;

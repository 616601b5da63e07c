//! The plaza of a topic: its newest 1,000 posts, for everyone.

use super::audience::Surface;
use super::input::{PostPage, TopicList};
use super::posts::is_topic;
use super::{Caller, Feed, FeedError, Result};
use crate::model::PostId;

/// How far back a plaza goes.
const PLAZA: usize = 1_000;

impl Feed {
    pub(super) async fn topic_posts(&self, caller: Caller, list: TopicList) -> Result<PostPage> {
        let name = list.name.trim_start_matches('#').to_lowercase();
        if !is_topic(&name) {
            return Err(FeedError::invalid("name", "a topic is 1 to 100 letters, digits and underscores"));
        }
        let (limit, cursor) = (list.limit()?, list.cursor()?);
        let ids = self.ledger.topic_posts(&name, PostId::MAX, PLAZA).await?;
        let before = cursor.unwrap_or(PostId::MAX);
        let page = ids.into_iter().filter(|id| *id < before).take(limit + 1).collect();
        self.post_page(&caller, Surface::Brought, page, limit).await
    }
}

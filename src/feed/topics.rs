//! The plaza of a topic: its newest 1,000 posts, for everyone.

use super::audience::Surface;
use super::input::{PostPage, TopicList};
use super::pages::Filling;
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
        let mut page = Filling::new(cursor, limit);
        while let Some((before, count)) = page.wants() {
            let ids: Vec<PostId> = ids.iter().copied().filter(|id| *id < before).take(count).collect();
            page.take(&ids, &self.seen_by(caller.reader(), Surface::Brought, ids.iter().copied()).await?);
        }
        self.post_page(&caller, page).await
    }
}

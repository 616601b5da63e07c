//! Topics: their latest activity, and the newest 1,000 public posts of each (its plaza).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::call::Caller;
use super::error::{FeedError, Result};
use super::input::{PostPage, Search, TOPIC_RULE, TopicIndex, TopicList};
use super::paging::{PageBuilder, PageCursor, PostPageBuilder, decode_texts, encode_texts};
use super::visibility::ViewContext;
use crate::feed::base::Base;
use crate::ledger::{Topic, TopicCursor};
use crate::model::{FilterContext, Millis, PostId};
use crate::text::{is_topic_name, topic_name};

/// The number of a topic's newest posts that can be read.
const MAX_TOPIC_POSTS: usize = 1_000;

/// A topic. Only public posts are counted.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Topic")]
pub(crate) struct TopicItem {
    /// Its name, without the `#`.
    name: String,
    /// The number of public posts with the topic, at most 1,000.
    posts: u64,
    /// When the newest of these posts was written, in Unix milliseconds. Later pages of all topics contain the value at
    /// the time of the first page.
    active_at: Millis,
}

/// Topics, as a page.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TopicPage {
    /// The topics, latest activity first; those of a search by name.
    items: Vec<TopicItem>,
    /// The `cursor` of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// `t<begun>.<last>.<name>`.
impl PageCursor for TopicCursor {
    fn decode(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix('t')?.splitn(3, '.');
        let begun = PostId::parse(parts.next()?)?;
        let last = PostId::parse(parts.next()?)?;
        let name = parts.next().filter(|name| is_topic_name(name))?.to_owned();
        Some(Self { begun, last, name })
    }

    fn encode(&self) -> String {
        format!("t{}.{}.{}", self.begun, self.last, self.name)
    }
}

impl From<Topic> for TopicItem {
    fn from(Topic { name, posts, last }: Topic) -> Self {
        Self { name, posts: posts.min(MAX_TOPIC_POSTS as u64), active_at: last.time() }
    }
}

/// The last topic of a page of a search.
#[derive(Clone)]
struct AfterFolded {
    /// Its name as it is searched.
    folded: String,
    name: String,
}

impl PageCursor for AfterFolded {
    fn decode(text: &str) -> Option<Self> {
        decode_texts('s', text).map(|(name, folded)| Self { folded, name })
    }

    fn encode(&self) -> String {
        encode_texts('s', &self.name, &self.folded)
    }
}

/// Topics and their posts.
pub(crate) struct TopicService {
    base: Arc<Base>,
}

impl TopicService {
    /// Reads the topics of this ledger.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    pub(crate) async fn list(&self, caller: Caller, list: TopicIndex) -> Result<TopicPage> {
        if let Some(q) = list.q {
            return self.search(caller, Search { q, page: list.page }).await;
        }
        let (limit, cursor) = list.page.decode::<TopicCursor>()?;
        let mut page = PageBuilder::new(cursor, limit);
        while let Some((after, count)) = page.wants() {
            let begun = after.as_ref().map(|cursor| cursor.begun);
            let topics = self.base.ledger.topics(after, count).await?;
            let begun = begun.or_else(|| topics.first().map(|topic| topic.last)).unwrap_or(PostId::ZERO);
            page.take(topics.into_iter().map(|topic| {
                let last = topic.last;
                let item = TopicItem::from(topic);
                (TopicCursor { begun, last, name: item.name.clone() }, Some(item))
            }));
        }
        let (items, next) = page.finish();
        Ok(TopicPage { items, next: next.map(|cursor| cursor.encode()) })
    }

    pub(crate) async fn search(&self, _: Caller, search: Search) -> Result<TopicPage> {
        let q = search.q.trim().trim_start_matches(['#', '＃']).to_owned();
        let search = Search { q, ..search };
        let (limit, cursor) = search.page.decode::<AfterFolded>()?;
        let prefix = search.prefix()?;
        if cursor.as_ref().is_some_and(|after| !after.folded.starts_with(&prefix)) {
            return Err(FeedError::invalid("cursor", "this cursor is not one that this list gave"));
        }
        let mut page = PageBuilder::new(cursor, limit);
        while let Some((after, count)) = page.wants() {
            let after = after.as_ref().map(|after| (after.folded.as_str(), after.name.as_str()));
            let found = self.base.ledger.search_topics(&prefix, after, count).await?;
            page.take(found.into_iter().map(|(folded, topic)| {
                let item = TopicItem::from(topic);
                (AfterFolded { folded, name: item.name.clone() }, Some(item))
            }));
        }
        let (items, next) = page.finish();
        Ok(TopicPage { items, next: next.map(|cursor| cursor.encode()) })
    }

    pub(crate) async fn posts(&self, caller: Caller, list: TopicList) -> Result<PostPage> {
        let name =
            topic_name(list.name.trim_start_matches(['#', '＃'])).ok_or(FeedError::invalid("name", TOPIC_RULE))?;
        let ((limit, cursor), expand) = (list.page.decode()?, list.expand.decode()?);
        let ids = self.base.ledger.topic_posts(&name, PostId::MAX, MAX_TOPIC_POSTS).await?;
        let mut page = PostPageBuilder::new(cursor, limit);
        while let Some((before, count)) = page.wants_posts() {
            let ids: Vec<PostId> = ids.iter().copied().filter(|id| *id < before).take(count).collect();
            let reader = caller.reader();
            let mut visible =
                self.base.visibility.visible_posts(reader, ViewContext::Discovery, ids.iter().copied()).await?;
            self.base.content_filter.remove_hidden(reader, FilterContext::Topics, &mut visible).await?;
            page.take_posts(&ids, &visible);
        }
        let (items, next) = page.finish();
        self.base.post_renderer.render_filtered(caller.reader(), &items, next, &expand, FilterContext::Topics).await
    }
}

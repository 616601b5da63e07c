//! Posts: what may be in one, and how it is written, got and deleted.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::along::{Part, With};
use super::audience::Surface;
use super::graph::NO_USER;
use super::input::{AuthorList, Done, OnePost, PostPage, ReadPost};
use super::pages::Posts;
use super::presentation::{behind, shown};
use super::{Body, Call, Caller, Feed, FeedError, Limits, Result, now};
use crate::broker::Invalidation;
use crate::ledger::{EventConsumer, JOBS};
use crate::model::{Location, Media, Person, Post, PostCounts, PostFlags, PostId, UserId, Visibility};

/// How many people a post's visibility may name: each delivery looks through them.
const NAMED: usize = 200;

/// What an author writes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Draft {
    /// What it says.
    #[serde(default)]
    pub(super) text: String,
    /// What it shows.
    #[serde(default)]
    pub(super) media: Vec<Media>,
    /// Where it was written.
    #[serde(default)]
    pub(super) location: Option<Location>,
    /// What it is about, besides the `#words` of the text.
    #[serde(default)]
    pub(super) topics: Vec<String>,
    /// What it was written with.
    #[serde(default)]
    pub(super) platform: Option<String>,
    /// Who may see it.
    #[serde(default)]
    pub(super) visibility: Visibility,
    /// The application's own part.
    #[serde(default)]
    pub(super) data: Option<Map<String, Value>>,
}

pub(super) const NO_POST: FeedError = FeedError::NotFound("no such post");

impl Feed {
    pub(super) async fn create_post(&self, call: Call, draft: Draft) -> Result<Box<RawValue>> {
        let author = call.caller.user()?;
        self.welcome(author).await?;
        let now = now();
        let post = draft.into_post(author, self.ids.for_call(&call, now)?, &self.options.limits)?;
        self.count_mentions(&call, &post.mentions).await?;
        let ticket = self.bodies.ticket(post.id);
        let reserved = self.fanout.reserve(author);
        let Some(job) = self.ledger.create_post(&post, reserved.lease()).await? else {
            // An earlier attempt stored it, and its job with it: it is carried, or will be. The answer is that attempt's.
            let body = Body::new(post)?;
            return shown(body.json_for(Some(author)), PostCounts::default(), Some(PostFlags::default()));
        };
        let body = self.bodies.begin(post, ticket)?;
        // Authors find their own post in their timeline as soon as they are answered.
        // The job's number is noted meanwhile, so that its worker need not wait for that.
        let own = [body.post.id];
        let (merged, _noted) = tokio::join!(
            self.broker.merge_inbox(author, &own, PostId::ZERO),
            self.note_number(JOBS, u64::try_from(job.id).unwrap_or_default()),
        );
        if let Err(error) = merged {
            tracing::warn!(%error, post = %body.post.id, "a post is stored, its author's timeline will follow");
        }
        self.fanout.offer([job], reserved);
        self.events.wake(EventConsumer::Notifications);
        shown(body.json_for(Some(author)), PostCounts::default(), Some(PostFlags::default()))
    }

    pub(super) async fn get_post(&self, caller: Caller, post: ReadPost) -> Result<Box<RawValue>> {
        #[derive(Serialize)]
        struct People {
            people: BTreeMap<String, Person>,
        }
        let with = post.with()?;
        let body = self.post(&caller, post.id).await?;
        let PostPage { mut items, people, .. } = self.page_of_posts(caller.reader(), &[body], None, &with).await?;
        let post = items.pop().ok_or(NO_POST)?;
        if with.has(Part::People) { behind(&post, &People { people }) } else { Ok(post) }
    }

    pub(super) async fn delete_post(&self, call: Call, post: OnePost) -> Result<Done> {
        let id = post.id;
        let done = self.delete_own_post(&call.caller, post).await;
        self.deleted(&call, done, Invalidation::Post(id)).await
    }

    async fn delete_own_post(&self, caller: &Caller, post: OnePost) -> Result<Done> {
        let author = caller.user()?;
        if self.post(caller, post.id).await?.post.author != *author {
            return Err(FeedError::Forbidden("only its author can delete a post"));
        }
        let now = now();
        let reserved = self.fanout.reserve(author);
        let job = self.ledger.delete_post(post.id, author, now, reserved.lease()).await?;
        let invalidated = self.announce(&[Invalidation::Post(post.id)]).await;
        // Whoever lost a race against another deletion has what they wanted, and the other carries it.
        if let Some(job) = job {
            self.fanout.offer([job], reserved);
        }
        self.confirm(invalidated?).await;
        Ok(Done {})
    }

    pub(super) async fn user_posts(&self, caller: Caller, list: AuthorList) -> Result<PostPage> {
        let (limit, cursor, with) = (list.limit()?, list.cursor()?, list.with()?);
        let unknown = self.ledger.users(std::slice::from_ref(&list.id)).await?.is_empty();
        if unknown || !self.may_read_user(caller.reader(), &list.id).await? {
            return Err(NO_USER);
        }
        let mut page = Posts::new(cursor, limit);
        while let Some((before, count)) = page.wants_posts() {
            let ids = self.ledger.author_posts(&list.id, before, count).await?;
            page.take_posts(&ids, &self.seen_by(caller.reader(), Surface::Direct, ids.iter().copied()).await?);
        }
        self.post_page(&caller, page, &with).await
    }

    /// A page of posts as this caller reads it.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn post_page(&self, caller: &Caller, page: Posts, with: &With) -> Result<PostPage> {
        let (items, next) = page.finish();
        self.page_of_posts(caller.reader(), &items, next, with).await
    }

    pub(super) async fn post(&self, caller: &Caller, id: PostId) -> Result<Arc<Body>> {
        self.seen_by(caller.reader(), Surface::Direct, [id]).await?.remove(&id).ok_or(NO_POST)
    }
}

impl Draft {
    /// The post, if it is one that may be written.
    pub(super) fn into_post(mut self, author: &UserId, id: PostId, limits: &Limits) -> Result<Post> {
        self.check(limits)?;
        let mut topics: Vec<String> = Vec::new();
        for topic in self.topics.iter().map(String::as_str).chain(marked(&self.text, '#')) {
            let topic = topic.trim_start_matches('#').to_lowercase();
            if !topics.contains(&topic) {
                topics.push(topic);
            }
        }
        if topics.len() > limits.topics {
            return Err(FeedError::LimitExceeded {
                field: "topics",
                what: "topics of a post",
                most: limits.topics as u64,
            });
        }
        let mentions = mentioned(&self.text);
        if let Visibility::OnlyTo(names) | Visibility::NotTo(names) = &mut self.visibility {
            let mut seen = HashSet::new();
            names.retain(|name| seen.insert(name.clone()));
        }
        Ok(Post {
            id,
            author: author.clone(),
            text: self.text,
            media: std::mem::take(&mut self.media),
            location: self.location,
            topics,
            mentions,
            platform: self.platform,
            visibility: self.visibility,
            data: self.data,
            created_at: id.time(),
            edited_at: None,
        })
    }

    fn check(&self, limits: &Limits) -> Result<()> {
        let over = |field, what, most: usize| FeedError::LimitExceeded { field, what, most: most as u64 };
        if self.text.trim().is_empty() && self.media.is_empty() && self.data.is_none() {
            return Err(FeedError::invalid("text", "a post says or shows something"));
        }
        if self.text.chars().count() > limits.text {
            return Err(over("text", "characters of a post", limits.text));
        }
        if self.media.len() > limits.media {
            return Err(over("media", "pieces of media of a post", limits.media));
        }
        for media in &self.media {
            let plain = media.url.len() <= 2_000 && !media.url.contains(char::is_whitespace);
            if !plain || !(media.url.starts_with("https://") || media.url.starts_with("http://")) {
                return Err(FeedError::invalid("media", "the url of a piece of media begins with http:// or https://"));
            }
            if media.alt.as_ref().is_some_and(|alt| alt.chars().count() > 1_500) {
                return Err(over("media", "characters of an alt text", 1_500));
            }
        }
        if let Some(place) = &self.location {
            if !(-90.0..=90.0).contains(&place.lat) || !(-180.0..=180.0).contains(&place.lon) {
                return Err(FeedError::invalid("location", "lat is -90 to 90, lon is -180 to 180"));
            }
            if place.name.as_ref().is_some_and(|name| name.chars().count() > 200) {
                return Err(over("location", "characters of a place's name", 200));
            }
        }
        for topic in &self.topics {
            if !is_topic(topic.trim_start_matches('#')) {
                return Err(FeedError::invalid("topics", "a topic is 1 to 100 letters, digits and underscores"));
            }
        }
        if self.platform.as_ref().is_some_and(|platform| platform.chars().count() > 50) {
            return Err(over("platform", "characters of a platform", 50));
        }
        if let Visibility::OnlyTo(names) | Visibility::NotTo(names) = &self.visibility {
            if names.is_empty() {
                return Err(FeedError::invalid("visibility", "only_to and not_to name somebody"));
            }
            if names.len() > NAMED {
                return Err(over("visibility", "people named in who may see a post", NAMED));
            }
        }
        let data = self.data.as_ref().map_or(0, |data| Value::Object(data.clone()).to_string().len());
        if data > limits.data_bytes {
            return Err(over("data", "bytes of a post's data", limits.data_bytes));
        }
        Ok(())
    }
}

/// Whether a text, without the `#`, names a topic.
pub(super) fn is_topic(name: &str) -> bool {
    (1..=100).contains(&name.chars().count()) && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Whether it is the name of a topic as posts are filed under it: small letters, no `#`.
pub fn is_topic_name(name: &str) -> bool {
    is_topic(name) && name.to_lowercase() == name
}

/// Those whom a text names, each once.
pub(super) fn mentioned(text: &str) -> Vec<UserId> {
    let mut mentions: Vec<UserId> = Vec::new();
    for mention in marked(text, '@').filter_map(|word| UserId::parse(word.trim_end_matches(['.', '-']))) {
        if !mentions.contains(&mention) {
            mentions.push(mention);
        }
    }
    mentions
}

/// The words of a text that a mark stands before, without it: `#rust` at the start or after what is no letter.
pub(super) fn marked(text: &str, mark: char) -> impl Iterator<Item = &str> {
    let belongs = move |c: char| c.is_alphanumeric() || c == '_' || (mark == '@' && (c == '-' || c == '.'));
    text.match_indices(mark).filter_map(move |(at, _)| {
        if text[..at].chars().next_back().is_some_and(|before| before.is_alphanumeric() || before == mark) {
            return None;
        }
        let rest = &text[at + mark.len_utf8()..];
        let word = &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())];
        (!word.is_empty() && word.chars().count() <= 100).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_and_mentions_are_found_in_the_text() {
        let text = "#Rust, c#sharp ##no (#東京) @ann. and mail@example.org: @bo-2";
        assert_eq!(marked(text, '#').collect::<Vec<_>>(), ["Rust", "東京"]);
        let mentions: Vec<_> = marked(text, '@').map(|word| word.trim_end_matches(['.', '-'])).collect();
        assert_eq!(mentions, ["ann", "bo-2"]);
    }
}

//! Drafts: the limits of a post, and the topics and mentions in its text.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::feed::config::LimitsConfig;
use crate::feed::error::{FeedError, Result};
use crate::feed::input::{TOPIC_RULE, is_media_url};
use crate::model::{CommentPolicy, Location, Media, NESTED_TOO_DEEP, Post, PostId, UserId, Visibility, is_shallow};
use crate::net::OwnHosts;
use crate::text::{TextToken, has_marks, is_blank, tokens, topic_name};

/// The maximal number of users in a post's visibility. Each delivery searches the list.
const MAX_NAMED: usize = 200;

/// A post as its author writes it.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PostDraft")]
pub(crate) struct Draft {
    /// The text.
    #[serde(default)]
    pub(crate) text: String,
    /// Pictures and videos.
    #[serde(default)]
    pub(crate) media: Vec<Media>,
    /// The place where it was written.
    #[serde(default)]
    pub(crate) location: Option<Location>,
    /// The topics, besides the `#words` of the text: letters, marks, digits and underscores.
    #[serde(default)]
    pub(crate) topics: Vec<String>,
    /// The client that it was written with.
    #[serde(default)]
    pub(crate) platform: Option<String>,
    /// The visibility of the post.
    #[serde(default, deserialize_with = "audience")]
    pub(crate) visibility: Visibility,
    /// Who may comment on it, of those who can see it.
    #[serde(default)]
    pub(crate) comment_policy: CommentPolicy,
    /// Data of the application.
    #[serde(default)]
    pub(crate) data: Option<Map<String, Value>>,
    /// The post that it quotes. A quote has a text or media of its own.
    #[serde(default)]
    pub(crate) quote: Option<PostId>,
}

/// The audience of a post. `null` is an error, also inside: it would be easily taken for "nobody", and `public` is what
/// a post without this member has.
pub(super) fn audience<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Visibility, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let has_null = value.is_null() || value.as_object().is_some_and(|object| object.values().any(Value::is_null));
    if has_null {
        return Err(D::Error::custom(
            "who may see a post cannot be null: public, followers, friends, only_to or not_to",
        ));
    }
    Visibility::deserialize(value).map_err(D::Error::custom)
}

impl Draft {
    /// Converts the draft to a post.
    ///
    /// # Errors
    /// If the draft exceeds a limit or violates a rule.
    pub(crate) fn into_post(self, author: &UserId, id: PostId, limits: &LimitsConfig) -> Result<Post> {
        self.check(limits, None)?;
        let topics = named_topics(&self.topics, limits.topics, &[])?;
        Ok(self.build(author, id, topics, limits.topics))
    }

    /// Converts the draft of an edited post. Members that the edit keeps may violate a rule that is newer than they
    /// are.
    ///
    /// # Errors
    /// If a member that differs exceeds a limit or violates a rule.
    pub(super) fn into_edited(self, before: &Post, limits: &LimitsConfig) -> Result<Post> {
        self.check(limits, Some(before))?;
        let most = limits.topics.max(before.topics.len());
        let topics = named_topics(&self.topics, most, &before.topics)?;
        Ok(self.build(&before.author, before.id, topics, most))
    }

    /// The post, with the topics that the draft names and those of its text.
    fn build(mut self, author: &UserId, id: PostId, mut topics: Vec<String>, max_topics: usize) -> Post {
        self.clear_blank();
        let Marks { mentions, topics: written } = marks(&self.text);
        for topic in written {
            // A text is never refused for what is found in it.
            if topics.len() < max_topics && !topics.contains(&topic) {
                topics.push(topic);
            }
        }
        if let Visibility::OnlyTo(names) | Visibility::NotTo(names) = &mut self.visibility {
            let mut seen = HashSet::new();
            names.retain(|name| seen.insert(name.clone()));
        }
        Post {
            id,
            author: author.clone(),
            text: self.text,
            media: std::mem::take(&mut self.media),
            location: self.location,
            topics,
            mentions,
            platform: self.platform,
            visibility: self.visibility,
            comment_policy: self.comment_policy,
            data: self.data,
            repost: None,
            quote: self.quote,
            created_at: id.time(),
            removed: None,
            edited_at: None,
        }
    }

    /// Removes texts with nothing to see from members that are optional.
    fn clear_blank(&mut self) {
        let clear = |text: &mut Option<String>| {
            text.take_if(|text| is_blank(text));
        };
        clear(&mut self.platform);
        self.media.iter_mut().for_each(|media| clear(&mut media.alt));
        if let Some(place) = &mut self.location {
            clear(&mut place.name);
        }
    }

    /// Checks the members, except those that the post `before` an edit has, too.
    fn check(&self, limits: &LimitsConfig, before: Option<&Post>) -> Result<()> {
        let is_new = |is_kept: &dyn Fn(&Post) -> bool| !before.is_some_and(is_kept);
        let over = |field, what, most: usize| FeedError::LimitExceeded { field, what, most: most as u64 };
        if is_blank(&self.text) && self.media.is_empty() && self.data.is_none() {
            return Err(FeedError::invalid("text", "a post says or shows something"));
        }
        if self.quote.is_some() && is_blank(&self.text) && self.media.is_empty() {
            return Err(FeedError::invalid("text", "a quote has a text or media of its own"));
        }
        if is_new(&|post| post.text == self.text) && self.text.chars().count() > limits.text {
            return Err(over("text", "characters of a post", limits.text));
        }
        if is_new(&|post| post.media == self.media) {
            self.check_media(limits)?;
        }
        if let Some(place) = self.location.as_ref().filter(|_| is_new(&|post| post.location == self.location)) {
            if !(-90.0..=90.0).contains(&place.lat) || !(-180.0..=180.0).contains(&place.lon) {
                return Err(FeedError::invalid("location", "lat is -90 to 90, lon is -180 to 180"));
            }
            if place.name.as_ref().is_some_and(|name| name.chars().count() > 200) {
                return Err(over("location", "characters of a place's name", 200));
            }
        }
        if self.platform.as_ref().is_some_and(|platform| platform.chars().count() > 50) {
            return Err(over("platform", "characters of a platform", 50));
        }
        if let Visibility::OnlyTo(names) | Visibility::NotTo(names) = &self.visibility {
            if names.is_empty() {
                return Err(FeedError::invalid("visibility", "only_to and not_to name somebody"));
            }
            if names.iter().any(UserId::is_reserved) {
                return Err(FeedError::invalid("visibility", "no user has the id me, suggested or explore"));
            }
            if is_new(&|post| post.visibility == self.visibility) && names.len() > MAX_NAMED {
                return Err(over("visibility", "people named in who may see a post", MAX_NAMED));
            }
        }
        match &self.data {
            Some(data) if is_new(&|post| post.data == self.data) => check_data(data, limits.data_bytes),
            _ => Ok(()),
        }
    }

    fn check_media(&self, limits: &LimitsConfig) -> Result<()> {
        let over = |what, most: usize| FeedError::LimitExceeded { field: "media", what, most: most as u64 };
        if self.media.len() > limits.media {
            return Err(over("pieces of media of a post", limits.media));
        }
        for media in &self.media {
            if media.url.len() > 2_000 || !is_media_url(&media.url) {
                let reason = "the url of a piece of media begins with http:// or https://, or is a path of this server";
                return Err(FeedError::invalid("media", reason));
            }
            if media.alt.as_ref().is_some_and(|alt| alt.chars().count() > 1_500) {
                return Err(over("characters of an alt text", 1_500));
            }
        }
        Ok(())
    }
}

fn check_data(data: &Map<String, Value>, max_bytes: usize) -> Result<()> {
    if !is_shallow(data) {
        return Err(FeedError::invalid("data", NESTED_TOO_DEEP));
    }
    if Value::Object(data.clone()).to_string().len() > max_bytes {
        let what = "bytes of a post's data";
        return Err(FeedError::LimitExceeded { field: "data", what, most: max_bytes as u64 });
    }
    Ok(())
}

/// Refuses media, and the picture of the card of a link, that point to the API of this server: readers of the post
/// would send requests to it.
pub(super) fn refuse_own_api(media: &[Media], data: Option<&Map<String, Value>>, hosts: &OwnHosts) -> Result<()> {
    if media.iter().any(|media| hosts.is_own_api(&media.url)) {
        return Err(FeedError::invalid("media", "media cannot point to the API of this server"));
    }
    let image = data.and_then(|data| data.get("link")?.get("image")?.as_str());
    if image.is_some_and(|image| hosts.is_own_api(image.trim())) {
        return Err(FeedError::invalid("data", "link.image cannot point to the API of this server"));
    }
    Ok(())
}

/// The topics that a draft names, each once. Those of the post before an edit may be older than the rule.
fn named_topics(given: &[String], most: usize, before: &[String]) -> Result<Vec<String>> {
    let mut topics = Vec::new();
    for topic in given {
        let name = if before.contains(topic) {
            topic.clone()
        } else {
            let name = topic_name(topic.trim_start_matches(['#', '＃']));
            name.ok_or_else(|| FeedError::invalid("topics", TOPIC_RULE))?
        };
        if !topics.contains(&name) {
            topics.push(name);
        }
        if topics.len() > most {
            return Err(FeedError::LimitExceeded { field: "topics", what: "topics of a post", most: most as u64 });
        }
    }
    Ok(topics)
}

/// The mentions and the topics of a text, each once, in order.
#[derive(Default)]
pub(super) struct Marks {
    pub(super) mentions: Vec<UserId>,
    pub(super) topics: Vec<String>,
}

/// Finds the mentions and the topics of a text.
pub(super) fn marks(text: &str) -> Marks {
    let mut marks = Marks::default();
    if !has_marks(text) {
        return marks;
    }
    let mut users = HashSet::new();
    let mut names = HashSet::new();
    for token in tokens(text) {
        match token {
            TextToken::Mention(id) => marks.mentions.extend(UserId::parse(id).filter(|id| users.insert(id.clone()))),
            TextToken::Topic(name) => marks.topics.extend(Some(name).filter(|name| names.insert(name.clone()))),
            TextToken::Link(_) => {}
        }
    }
    marks
}

/// The users that a text mentions, each once.
pub(crate) fn mentioned(text: &str) -> Vec<UserId> {
    marks(text).mentions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MediaKind;

    #[test]
    fn an_edit_keeps_members_that_are_older_than_a_rule() {
        const LIMITS: LimitsConfig =
            LimitsConfig { text: 10, media: 1, topics: 1, data_bytes: 1_000, follows: 1, favourites: 1 };
        let deep = |levels| (1..levels).fold(Map::new(), |inner, _| Map::from_iter([("a".into(), inner.into())]));
        let image = |url: &str| Media { kind: MediaKind::Image, url: url.into(), width: None, height: None, alt: None };
        let author = UserId::parse("ann").unwrap();
        let draft = || Draft {
            text: "x".repeat(11),
            media: vec![image("ftp://a"), image("/b")],
            topics: vec!["a b".into(), "c".into()],
            data: Some(deep(40)),
            ..Draft::default()
        };
        let before = draft().build(&author, PostId(1), vec!["a b".into(), "c".into()], 2);
        assert!(draft().into_post(&author, PostId(2), &LIMITS).is_err());
        assert_eq!(draft().into_edited(&before, &LIMITS).unwrap(), before);
        type Change = fn(&mut Draft);
        let changes: [(&str, Change); 4] = [
            ("text", |draft| draft.text.push('y')),
            ("media", |draft| draft.media.truncate(1)),
            ("topics", |draft| draft.topics.push("d e".into())),
            ("data", |draft| _ = draft.data.as_mut().map(|data| data.insert("b".into(), Value::Null))),
        ];
        for (member, change) in changes {
            let mut changed = draft();
            change(&mut changed);
            let error = changed.into_edited(&before, &LIMITS).unwrap_err();
            assert_eq!(error.field(), Some(member), "{error}");
        }
    }

    fn post(draft: serde_json::Value) -> Result<Post> {
        let draft: Draft = serde_json::from_value(draft).expect("a draft");
        let author = UserId::parse("ann").expect("an id");
        let limits =
            LimitsConfig { text: 100, media: 9, topics: 10, data_bytes: 4_096, follows: 5_000, favourites: 10_000 };
        draft.into_post(&author, PostId(1), &limits)
    }

    #[test]
    fn topics_of_the_text_fill_up_and_never_refuse_it() {
        let text: String = (0..20).map(|n| format!("#t{n} ")).collect();
        let topics =
            post(serde_json::json!({ "text": text, "topics": ["#Own", "＃own", "T1"] })).expect("a post").topics;
        assert_eq!(topics, ["own", "t1", "t0", "t2", "t3", "t4", "t5", "t6", "t7", "t8"]);
        let eleven: Vec<String> = (0..11).map(|n| format!("t{n}")).collect();
        let refused = post(serde_json::json!({ "text": "x", "topics": eleven }));
        assert!(matches!(refused, Err(FeedError::LimitExceeded { field: "topics", most: 10, .. })));
        let same = vec!["E\u{301}"; 11];
        assert_eq!(post(serde_json::json!({ "text": "x", "topics": same })).expect("a post").topics, ["é"]);
        for wrong in ["", "#", "1", "a b", "\u{200b}", "\u{3164}", "a-b"] {
            assert!(post(serde_json::json!({ "text": "x", "topics": [wrong] })).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn optional_texts_with_nothing_to_see_are_absent() {
        let blank = "\u{202e}\u{200b} \u{3164}";
        let media = serde_json::json!([{ "type": "image", "url": "/a.png", "alt": blank }]);
        let location = serde_json::json!({ "lat": 1, "lon": 2, "name": blank });
        let draft = serde_json::json!({ "text": blank, "media": media, "location": location, "platform": blank });
        let post = post(draft).expect("a post");
        assert_eq!(post.text, blank, "as it was written");
        assert_eq!((&post.media[0].alt, &post.platform), (&None, &None));
        assert_eq!(post.location.expect("a place").name, None);
    }
}

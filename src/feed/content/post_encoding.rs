//! The JSON of posts: the author's part is encoded once, and further members are appended to it as text.

use bytes::Bytes;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::feed::error::{FeedError, Result};
use crate::model::{ClientEvent, FilterId, PostCounts, PostFlags, PostId, QuoteState};

/// A post's JSON with its counts, and with the flags of a signed-in reader.
pub(crate) fn with_counts(post: &RawValue, counts: PostCounts, flags: Option<PostFlags>) -> Result<Box<RawValue>> {
    #[derive(Serialize)]
    struct ViewerMembers {
        #[serde(flatten)]
        counts: PostCounts,
        #[serde(flatten)]
        flags: Option<PostFlags>,
    }
    append_members(post, &ViewerMembers { counts, flags })
}

/// The encoded posts that a post names, as members of its JSON.
#[derive(Clone, Copy, Default, Serialize)]
pub(crate) struct NamedPosts<'a> {
    /// The reposted post.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) repost: Option<&'a RawValue>,
    /// The post that it quotes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) quote: Option<EncodedQuote<'a>>,
}

/// A quoted post, encoded.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct EncodedQuote<'a> {
    pub(crate) id: PostId,
    pub(crate) state: QuoteState,
    /// The post, if it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) post: Option<&'a RawValue>,
}

/// A post's JSON with more members, at least one, at its end. The author's part is not encoded again.
pub(crate) fn append_members(post: &RawValue, members: &impl Serialize) -> Result<Box<RawValue>> {
    let members = serde_json::to_string(members).ok();
    let parts =
        members.as_deref().and_then(|members| Some((post.get().strip_suffix('}')?, members.strip_prefix('{')?)));
    let spliced = parts.map(|(post, members)| RawValue::from_string(format!("{post},{members}")));
    spliced.and_then(std::result::Result::ok).ok_or_else(|| {
        tracing::error!(post = post.get(), "a post could not be encoded");
        FeedError::Internal
    })
}

/// The events that show a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PostEventKind {
    /// A new post.
    Created,
    /// An edited post.
    Edited,
}

/// The publication members of an event that shows a post.
pub(super) fn encode_push(
    kind: PostEventKind,
    post: &RawValue,
    counts: PostCounts,
    named: NamedPosts<'_>,
) -> Result<Bytes> {
    #[derive(Serialize)]
    struct PushedMembers<'a> {
        #[serde(flatten)]
        counts: PostCounts,
        #[serde(flatten)]
        named: NamedPosts<'a>,
    }
    let post = append_members(post, &PushedMembers { counts, named })?;
    let event = match kind {
        PostEventKind::Created => ClientEvent::Post { post: &post },
        PostEventKind::Edited => ClientEvent::Edited { post: &post },
    };
    Ok(event.encode())
}

/// The publication members of an event that shows a post, for a reader whose filters mark it: with `filtered` as the
/// last member of the post. The rest is not encoded again.
pub(crate) fn with_marks(members: &Bytes, filters: &[FilterId]) -> Bytes {
    let Some(start) = members.strip_suffix(b"}}") else { return members.clone() };
    let ids: Vec<String> = filters.iter().map(|filter| filter.0.to_string()).collect();
    let marks = format!(r#","filtered":[{}]}}}}"#, ids.join(","));
    [start, marks.as_bytes()].concat().into()
}

/// The same for a reader whose timeline has the post by a topic: with `via` as the last member of the post.
pub(crate) fn with_topic(members: &Bytes, topic: &str) -> Bytes {
    let Some(start) = members.strip_suffix(b"}}") else { return members.clone() };
    let via = format!(r#","via":{}}}}}"#, json!({ "topic": topic }));
    [start, via.as_bytes()].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_flags_are_appended_to_the_json_of_a_post() {
        let post = RawValue::from_string(r#"{"id":1,"data":{"a":{}}}"#.into()).unwrap();
        let counts = PostCounts { likes: 3, comments: 0, favourites: 1, reposts: 2, quotes: 4 };
        let flags = Some(PostFlags { liked: true, ..PostFlags::default() });
        let members = r#""likes":3,"comments":0,"favourites":1,"reposts":2,"quotes":4"#;
        let anonymous = with_counts(&post, counts, None).unwrap();
        assert_eq!(anonymous.get(), format!(r#"{{"id":1,"data":{{"a":{{}}}},{members}}}"#));
        let reader = with_counts(&post, counts, flags).unwrap();
        assert_eq!(
            reader.get(),
            format!(r#"{{"id":1,"data":{{"a":{{}}}},{members},"liked":true,"favourited":false,"can_comment":true}}"#)
        );
    }

    #[test]
    fn marks_are_the_last_member_of_a_pushed_post() {
        let post = RawValue::from_string(r#"{"id":1}"#.into()).unwrap();
        let push = encode_push(PostEventKind::Created, &post, PostCounts::default(), NamedPosts::default()).unwrap();
        let marked = with_marks(&with_topic(&push, "ru\"st"), &[FilterId(3), FilterId(12)]);
        let mut marked: serde_json::Value = serde_json::from_slice(&[b"{", &*marked, b"}"].concat()).unwrap();
        assert_eq!(marked["data"]["post"]["filtered"], serde_json::json!([3, 12]));
        assert_eq!(marked["data"]["post"]["via"], serde_json::json!({ "topic": "ru\"st" }));
        let members = marked["data"]["post"].as_object_mut().unwrap();
        members.remove("filtered");
        members.remove("via");
        let plain: serde_json::Value = serde_json::from_slice(&[b"{", &*push, b"}"].concat()).unwrap();
        assert_eq!(marked, plain);
    }
}

//! Events that are pushed to clients, as the `data` of publications. The table in `docs/events.md` is generated from
//! this enum.

use std::collections::BTreeMap;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    Comment, CommentId, GoneReason, Notification, NotificationId, NotificationPosition, Person, PostCounts, PostId,
    RevertReason, ShownPost, Tally, UserId,
};

/// An event on a channel of the feed. `title` is the name of its schema, `x-channels` are the kinds of channels that
/// have it.
///
/// Its fields are borrowed: an event lives as long as it takes to encode it. Posts are encoded already.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type")]
pub enum ClientEvent<'a> {
    /// A new post. Its counts are those of that moment, without the reader's flags.
    #[serde(rename = "post")]
    #[schemars(title = "PostCreatedEvent", extend("x-channels" = ["timeline", "list", "user", "topic"]))]
    Post {
        /// The post.
        #[schemars(with = "ShownPost")]
        post: &'a RawValue,
    },
    /// A post was edited.
    #[serde(rename = "edited")]
    #[schemars(title = "PostEditedEvent", extend("x-channels" = ["timeline", "list", "user", "topic", "post"]))]
    Edited {
        /// The whole post after the edit.
        #[schemars(with = "ShownPost")]
        post: &'a RawValue,
    },
    /// A user that the reader follows reposted a post that the timeline has. It may arrive before the event of the
    /// post.
    #[serde(rename = "reposted")]
    #[schemars(title = "PostRepostedEvent", extend("x-channels" = ["timeline", "list"]))]
    Reposted {
        /// The id of the post.
        id: PostId,
        /// The id of the repost. The timeline shows it if what it repeats leaves.
        repost: PostId,
        /// The user who reposted it.
        by: &'a Person,
    },
    /// A post was removed, or the reader cannot see it any more.
    #[serde(rename = "gone")]
    #[schemars(title = "PostGoneEvent", extend("x-channels" = ["timeline", "list", "user", "topic", "post"]))]
    PostGone {
        /// The id of the post.
        id: PostId,
        /// Why it is gone.
        reason: GoneReason,
    },
    /// An author was suspended: remove all posts of the author.
    #[serde(rename = "gone")]
    #[schemars(title = "AuthorGoneEvent", extend("x-channels" = ["timeline", "list"]))]
    AuthorGone {
        /// The author.
        author: &'a UserId,
        /// Why the posts are gone: `hidden`.
        reason: GoneReason,
    },
    /// The timeline was read on another device.
    #[serde(rename = "read")]
    #[schemars(title = "TimelineReadEvent", extend("x-channels" = ["timeline"]))]
    Read {
        /// The newest post that was seen.
        id: PostId,
        /// The number of newer posts of others; 100 stands for 100 or more.
        unread: u64,
    },
    /// A new comment or reply.
    #[serde(rename = "comment")]
    #[schemars(title = "CommentCreatedEvent", extend("x-channels" = ["post"]))]
    Comment {
        /// The comment.
        comment: &'a Comment,
        /// Its author, by user id.
        #[schemars(with = "BTreeMap<String, Person>")]
        people: &'a BTreeMap<UserId, Person>,
    },
    /// A comment was edited. Ignore it if its `edited_at` is lower than the last one.
    #[serde(rename = "edited")]
    #[schemars(title = "CommentEditedEvent", extend("x-channels" = ["post"]))]
    CommentEdited {
        /// The whole comment after the edit.
        comment: &'a Comment,
        /// Its author, by user id.
        #[schemars(with = "BTreeMap<String, Person>")]
        people: &'a BTreeMap<UserId, Person>,
    },
    /// A comment was removed.
    #[serde(rename = "gone")]
    #[schemars(title = "CommentGoneEvent", extend("x-channels" = ["post"]))]
    CommentGone {
        /// The id of the comment.
        comment: CommentId,
        /// Whether it has replies: keep it without its author and text.
        stays: bool,
    },
    /// The counts of a post. Ignore those whose version is lower than the last one.
    #[serde(rename = "counts")]
    #[schemars(title = "CountsEvent", extend("x-channels" = ["post"]))]
    Counts {
        /// The id of the post.
        id: PostId,
        /// The number of likes.
        likes: u64,
        /// The number of comments at any depth.
        comments: u64,
        /// The number of reposts; absent: as before.
        #[serde(skip_serializing_if = "Option::is_none")]
        reposts: Option<u64>,
        /// The number of quotes; absent: as before.
        #[serde(skip_serializing_if = "Option::is_none")]
        quotes: Option<u64>,
        /// The version of these counts.
        version: u64,
    },
    /// A group of notifications in its current state: it replaces the group with the same id.
    #[serde(rename = "notification")]
    #[schemars(title = "NotificationUpdatedEvent", extend("x-channels" = ["notifications"]))]
    Notification {
        /// The group.
        notification: &'a Notification,
    },
    /// A group of notifications was removed, or has nothing that the user can see.
    #[serde(rename = "notification.gone")]
    #[schemars(title = "NotificationGoneEvent", extend("x-channels" = ["notifications"]))]
    NotificationGone {
        /// The id of the group.
        id: NotificationId,
    },
    /// Notifications were marked as read or seen on another device.
    #[serde(rename = "notifications.read")]
    #[schemars(title = "NotificationsReadEvent", extend("x-channels" = ["notifications"]))]
    NotificationsRead {
        /// The position up to which they were marked. A group that changed later was not.
        position: NotificationPosition,
        /// The group that the request named, if any.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<NotificationId>,
        /// Whether they were marked as seen, not as read.
        seen: bool,
        /// The number of unread ones; 100 stands for 100 or more.
        unread: usize,
        /// The number of unread ones that are not seen.
        unseen: usize,
    },
    /// The user's filters changed: what was hidden or marked may be shown now, and the other way round. Reload the
    /// timeline and other lists.
    #[serde(rename = "filters.changed")]
    #[schemars(title = "FiltersChangedEvent", extend("x-channels" = ["notifications"]))]
    FiltersChanged {},
    /// A like is in the ledger. Only the connection that requested it receives this, once for each object.
    #[serde(rename = "like.settled")]
    #[schemars(title = "LikeSettledEvent", extend("x-channels" = ["notifications"]))]
    LikeSettled {
        /// The id of the post or comment.
        id: u64,
        /// The final state.
        liked: bool,
        /// The number of requests (likes and removals) that this event covers.
        asks: u64,
        /// The number of likes.
        likes: u64,
        /// The version of the number.
        version: u64,
    },
    /// The user liked an object, or took a like back, over another connection or the HTTP API.
    #[serde(rename = "like.changed")]
    #[schemars(title = "LikeChangedEvent", extend("x-channels" = ["notifications"]))]
    LikeChanged {
        /// The id of the post or comment.
        id: u64,
        /// Whether the user likes it now.
        liked: bool,
        /// The number of likes.
        likes: u64,
        /// The version of the number.
        version: u64,
    },
    /// A like that was acknowledged could not be settled, and is undone.
    #[serde(rename = "like.reverted")]
    #[schemars(title = "LikeRevertedEvent", extend("x-channels" = ["notifications"]))]
    LikeReverted {
        /// The id of the post or comment.
        id: u64,
        /// Why it is undone.
        reason: RevertReason,
    },
}

impl ClientEvent<'_> {
    /// The counts of a post.
    pub fn counts(post: PostId, tally: Tally) -> Self {
        let Tally { likes, comments, version } = tally;
        Self::Counts { id: post, likes, comments, reposts: None, quotes: None, version }
    }

    /// All counts of a post.
    pub fn all_counts(post: PostId, counts: PostCounts, version: u64) -> Self {
        let PostCounts { likes, comments, reposts, quotes, .. } = counts;
        Self::Counts { id: post, likes, comments, reposts: Some(reposts), quotes: Some(quotes), version }
    }

    /// Encodes the members of the publication, `"data":{…}`, as logs store them and connections frame them.
    pub fn encode(&self) -> Bytes {
        const PREFIX: &[u8] = b"\"data\":";
        let mut members = Vec::with_capacity(128);
        members.extend_from_slice(PREFIX);
        if let Err(error) = serde_json::to_writer(&mut members, self) {
            // Numbers, texts and encoded posts can always be encoded.
            tracing::error!(%error, event = ?self, "an event could not be encoded");
            members.truncate(PREFIX.len());
            members.extend_from_slice(b"null");
        }
        members.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{NotificationSubject, UserId};

    #[track_caller]
    fn assert_encoded(event: &ClientEvent<'_>, data: &str) {
        assert_eq!(event.encode(), format!("\"data\":{data}"));
    }

    #[test]
    fn events_of_posts_have_these_bytes() {
        let post = RawValue::from_string(r#"{"id":7, "text":"é"}"#.into()).unwrap();
        assert_encoded(&ClientEvent::Post { post: &post }, r#"{"type":"post","post":{"id":7, "text":"é"}}"#);
        assert_encoded(&ClientEvent::Edited { post: &post }, r#"{"type":"edited","post":{"id":7, "text":"é"}}"#);
        for (reason, name) in [
            (GoneReason::Deleted, "deleted"),
            (GoneReason::Unfollowed, "unfollowed"),
            (GoneReason::Hidden, "hidden"),
            (GoneReason::Filtered, "filtered"),
            (GoneReason::Unlisted, "unlisted"),
        ] {
            let gone = ClientEvent::PostGone { id: PostId(7), reason };
            assert_encoded(&gone, &format!(r#"{{"type":"gone","id":7,"reason":"{name}"}}"#));
        }
        let author = UserId::parse("Ann").unwrap();
        let gone = ClientEvent::AuthorGone { author: &author, reason: GoneReason::Hidden };
        assert_encoded(&gone, r#"{"type":"gone","author":"Ann","reason":"hidden"}"#);
        assert_encoded(&ClientEvent::Read { id: PostId(7), unread: 3 }, r#"{"type":"read","id":7,"unread":3}"#);
    }

    #[test]
    fn events_under_posts_have_these_bytes() {
        let ann = UserId::parse("ann").unwrap();
        let mut comment = Comment {
            id: CommentId(8),
            post: PostId(7),
            reply_to: None,
            author: Some(ann.clone()),
            text: Some("\"hi\"".into()),
            mentions: Vec::new(),
            created_at: 9,
            likes: 0,
            replies: 0,
            edited_at: None,
            liked: None,
            filtered: Vec::new(),
            removed: None,
        };
        let people = BTreeMap::from([(ann.clone(), Person { id: ann, name: "Ann".into(), avatar: None })]);
        let members = r#""id":8,"post":7,"author":"ann","text":"\"hi\"","created_at":9,"likes":0,"replies":0"#;
        let expected =
            format!(r#"{{"type":"comment","comment":{{{members}}},"people":{{"ann":{{"id":"ann","name":"Ann"}}}}}}"#);
        assert_encoded(&ClientEvent::Comment { comment: &comment, people: &people }, &expected);
        comment.edited_at = Some(10);
        let edited = ClientEvent::CommentEdited { comment: &comment, people: &people };
        let expected = expected.replace(r#""created_at":9"#, r#""created_at":9,"edited_at":10"#);
        assert_encoded(&edited, &expected.replacen(r#""comment""#, r#""edited""#, 1));
        let gone = ClientEvent::CommentGone { comment: CommentId(8), stays: true };
        assert_encoded(&gone, r#"{"type":"gone","comment":8,"stays":true}"#);
        let counts = ClientEvent::counts(PostId(7), Tally { likes: 3, comments: 1, version: 4 });
        assert_encoded(&counts, r#"{"type":"counts","id":7,"likes":3,"comments":1,"version":4}"#);
    }

    #[test]
    fn events_of_notifications_have_these_bytes() {
        let notification = Notification {
            id: NotificationId(5),
            position: NotificationPosition(6),
            kind: "reply".into(),
            content: None,
            object: Some(NotificationSubject::Comment { id: CommentId(8), post: PostId(7) }),
            comment: Some(CommentId(9)),
            people: Vec::new(),
            count: 1,
            filtered: Vec::new(),
            created_at: 9,
            updated_at: 10,
            read: false,
            seen: true,
        };
        let object = r#""object":{"type":"comment","id":8,"post":7}"#;
        let times = r#""created_at":9,"updated_at":10,"read":false,"seen":true"#;
        let members =
            format!(r#""id":5,"position":6,"kind":"reply",{object},"comment":9,"people":[],"count":1,{times}"#);
        assert_encoded(
            &ClientEvent::Notification { notification: &notification },
            &format!(r#"{{"type":"notification","notification":{{{members}}}}}"#),
        );
        assert_encoded(
            &ClientEvent::NotificationGone { id: NotificationId(5) },
            r#"{"type":"notification.gone","id":5}"#,
        );
        assert_encoded(&ClientEvent::FiltersChanged {}, r#"{"type":"filters.changed"}"#);
        for (id, member) in [(Some(NotificationId(5)), r#""id":5,"#), (None, "")] {
            let position = NotificationPosition(6);
            let read = ClientEvent::NotificationsRead { position, id, seen: true, unread: 2, unseen: 1 };
            let members = format!(r#""position":6,{member}"seen":true,"unread":2,"unseen":1"#);
            let expected = format!(r#"{{"type":"notifications.read",{members}}}"#);
            assert_encoded(&read, &expected);
        }
    }

    #[test]
    fn events_of_likes_have_these_bytes() {
        assert_encoded(
            &ClientEvent::LikeSettled { id: 7, liked: true, asks: 2, likes: 4, version: 3 },
            r#"{"type":"like.settled","id":7,"liked":true,"asks":2,"likes":4,"version":3}"#,
        );
        assert_encoded(
            &ClientEvent::LikeChanged { id: 7, liked: false, likes: 3, version: 4 },
            r#"{"type":"like.changed","id":7,"liked":false,"likes":3,"version":4}"#,
        );
        for reason in [RevertReason::Gone, RevertReason::Hidden, RevertReason::Failed] {
            let reverted = ClientEvent::LikeReverted { id: 7, reason };
            let expected = format!(r#"{{"type":"like.reverted","id":7,"reason":"{}"}}"#, reason.as_str());
            assert_encoded(&reverted, &expected);
        }
    }
}

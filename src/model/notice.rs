//! The kinds of notifications, and their objects.

use serde::{Deserialize, Serialize};

use super::{Channel, CommentId, PostId};

/// A post or comment that users act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Object {
    /// A post.
    Post(PostId),
    /// A comment.
    Comment(CommentId),
}

impl Object {
    /// The number that clients know it by. One generator creates the ids of all kinds, so no number is used twice.
    pub fn number(self) -> u64 {
        match self {
            Self::Post(id) => id.0,
            Self::Comment(id) => id.0,
        }
    }

    /// The channel that its counts are published on; `None` for comments.
    pub fn channel(self) -> Option<Channel> {
        match self {
            Self::Post(id) => Some(Channel::Post(id)),
            Self::Comment(_) => None,
        }
    }

    /// The object as a store keeps it: `p12`, `c34`.
    pub fn to_text(self) -> String {
        match self {
            Self::Post(id) => format!("p{id}"),
            Self::Comment(id) => format!("c{id}"),
        }
    }

    /// Parses the result of [`to_text`](Self::to_text).
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_at_checked(1)? {
            ("p", id) => PostId::parse(id).map(Self::Post),
            ("c", id) => CommentId::parse(id).map(Self::Comment),
            _ => None,
        }
    }
}

impl From<Object> for String {
    fn from(object: Object) -> Self {
        object.to_text()
    }
}

impl TryFrom<String> for Object {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is no post or comment"))
    }
}

/// The cause of a notification: an action of a user that concerns another user, the recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// A like of a post or comment of the recipient.
    Like(Object),
    /// A comment on a post of the recipient.
    Comment(PostId),
    /// A reply to a comment of the recipient.
    Reply(CommentId),
    /// A follow of the recipient.
    Follow,
    /// A mention of the recipient in a post or comment.
    Mention(Object),
}

impl What {
    /// The public name of the kind.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Like(_) => "like",
            Self::Comment(_) => "comment",
            Self::Reply(_) => "reply",
            Self::Follow => "follow",
            Self::Mention(_) => "mention",
        }
    }

    /// The object of the action; `None` for a follow.
    pub fn object(self) -> Option<Object> {
        match self {
            Self::Like(object) | Self::Mention(object) => Some(object),
            Self::Comment(post) => Some(Object::Post(post)),
            Self::Reply(comment) => Some(Object::Comment(comment)),
            Self::Follow => None,
        }
    }

    /// Combines kind and object. `None` if they do not match.
    pub fn from_parts(kind: &str, object: Option<Object>) -> Option<Self> {
        Some(match (kind, object) {
            ("like", Some(object)) => Self::Like(object),
            ("comment", Some(Object::Post(post))) => Self::Comment(post),
            ("reply", Some(Object::Comment(comment))) => Self::Reply(comment),
            ("follow", None) => Self::Follow,
            ("mention", Some(object)) => Self::Mention(object),
            _ => return None,
        })
    }

    /// Whether a repetition by the same person is a new event: another comment is, another like is not.
    pub fn is_new_each_time(self) -> bool {
        matches!(self, Self::Comment(_) | Self::Reply(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_round_trips() {
        let (post, comment) = (Object::Post(PostId(7)), Object::Comment(CommentId(8)));
        let all = [
            What::Like(post),
            What::Like(comment),
            What::Comment(PostId(7)),
            What::Reply(CommentId(8)),
            What::Follow,
            What::Mention(post),
            What::Mention(comment),
        ];
        for what in all {
            let object = what.object().map(|object| Object::parse(&object.to_text()).expect("an object"));
            assert_eq!(What::from_parts(what.kind(), object), Some(what));
        }
        assert_eq!(What::from_parts("reply", Some(post)), None);
        for wrong in ["", "p", "x1", "c-1", "é"] {
            assert_eq!(Object::parse(wrong), None, "{wrong}");
        }
    }
}

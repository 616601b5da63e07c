//! What people are notified of.

use serde::{Deserialize, Serialize};

use super::{Channel, CommentId, PostId};

/// Something that others do something with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Object {
    /// A post.
    Post(PostId),
    /// A comment.
    Comment(CommentId),
}

impl Object {
    /// The number that clients know it by. Ids of all kinds come from one maker: none is given twice.
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

    /// Reads what [`to_text`](Self::to_text) wrote.
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

/// What somebody did that somebody else is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// Liked something of theirs.
    Like(Object),
    /// Commented on their post.
    Comment(PostId),
    /// Replied to their comment.
    Reply(CommentId),
    /// Follows them.
    Follow,
    /// Named them, there.
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

    /// What it was done with, if with anything.
    pub fn object(self) -> Option<Object> {
        match self {
            Self::Like(object) | Self::Mention(object) => Some(object),
            Self::Comment(post) => Some(Object::Post(post)),
            Self::Reply(comment) => Some(Object::Comment(comment)),
            Self::Follow => None,
        }
    }

    /// Puts kind and object together again. `None` if they do not fit.
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

    /// Whether the same person doing it once more is something new: another comment is, another like is not.
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

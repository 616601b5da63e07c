//! Ids of posts and comments, where both are possible.

use serde::{Deserialize, Serialize};

use super::{Channel, CommentId, PostId};

/// A post or comment that users act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ContentId {
    /// A post.
    Post(PostId),
    /// A comment.
    Comment(CommentId),
}

impl ContentId {
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

impl From<ContentId> for String {
    fn from(object: ContentId) -> Self {
        object.to_text()
    }
}

impl TryFrom<String> for ContentId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is no post or comment"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip() {
        for id in [ContentId::Post(PostId(7)), ContentId::Comment(CommentId(8))] {
            assert_eq!(ContentId::parse(&id.to_text()), Some(id));
        }
        for wrong in ["", "p", "x1", "c-1", "é"] {
            assert_eq!(ContentId::parse(wrong), None, "{wrong}");
        }
    }
}

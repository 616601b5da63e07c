//! What can be liked, and how often it was.

use std::fmt;

use super::{PostId, UserId};

/// Something that people like and answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Object {
    /// A post.
    Post(PostId),
}

impl Object {
    /// The number that clients know it by. Ids of all kinds come from one maker: none is given twice.
    pub fn id(self) -> PostId {
        match self {
            Self::Post(id) => id,
        }
    }

    /// Where it is told what happens to it.
    pub fn channel(self) -> String {
        match self {
            Self::Post(id) => format!("post:{id}"),
        }
    }

    /// Reads what [`Display`](fmt::Display) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        PostId::parse(text.strip_prefix('p')?).map(Self::Post)
    }
}

/// `p17`: short, for queues and keys.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Post(id) => write!(f, "p{id}"),
        }
    }
}

/// What came of an object, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many like it.
    pub likes: u64,
    /// How many comments it has.
    pub comments: u64,
    /// Grows with each change of `likes`: of two tallies the one with the larger version is newer.
    pub version: u64,
}

/// Somebody likes something, or does not any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LikeChange {
    /// Who.
    pub user: UserId,
    /// What.
    pub object: Object,
    /// Whether they like it from then on.
    pub liked: bool,
    /// When it was acknowledged, in Unix milliseconds.
    pub at: super::Millis,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_survives_the_queue() {
        let post = Object::Post(PostId(77));
        assert_eq!(Object::parse(&post.to_string()), Some(post));
        for nothing in ["", "p", "77", "px", "x77"] {
            assert_eq!(Object::parse(nothing), None, "{nothing}");
        }
    }
}

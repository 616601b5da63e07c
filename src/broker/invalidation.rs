//! Cache invalidation across nodes.
//!
//! A node serves from its caches only while it holds a [`CacheLease`]. The broker renews the lease each time the node
//! has applied all invalidations of the shared log. A node that is paused, disconnected or behind loses the lease
//! within [`CACHE_LEASE`], and reads the ledger until it has caught up. So a change is in force on every node as soon
//! as each live node has confirmed its invalidation, or [`CACHE_LEASE`] after the invalidation was appended, whichever
//! comes first. [`Confirmation::wait`] waits for that.
//!
//! [`CacheLease`]: super::CacheLease
//! [`CACHE_LEASE`]: super::CACHE_LEASE

use std::fmt;

use futures::future::BoxFuture;

use crate::model::{CommentId, PostId, UserId};

/// An object whose cached copies must not be used any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Invalidation {
    /// A post was edited or deleted, or its visibility changed.
    Post(PostId),
    /// A post was reposted, or a repost of it ended. The post itself is as before.
    Reposts(PostId),
    /// A comment was deleted.
    Comment(CommentId),
    /// A comment under a post was restored: its replies have its author above them again.
    Thread(PostId),
    /// The relation between two users changed, in either direction.
    Relation(UserId, UserId),
    /// A user was erased: all of their content is hidden.
    Erased(UserId),
    /// The standing of a user changed.
    Standing(UserId),
    /// A user locked or unlocked their account.
    Locked(UserId),
    /// The filters of a user changed.
    Filters(UserId),
    /// The topics that a user follows changed.
    Topics(UserId),
    /// The lists of a user changed: a list was deleted, or has another member.
    Lists(UserId),
    /// Any cached data may be out of date.
    All,
    /// Any cached data of a user, their posts and their relations may have changed.
    User(UserId),
}

impl fmt::Display for Invalidation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Post(id) => write!(f, "post {id}"),
            Self::Reposts(id) => write!(f, "reposts {id}"),
            Self::Comment(id) => write!(f, "comment {id}"),
            Self::Thread(post) => write!(f, "thread {post}"),
            Self::Relation(one, other) => write!(f, "relation {one} {other}"),
            Self::Erased(user) => write!(f, "erased {user}"),
            Self::Standing(user) => write!(f, "standing {user}"),
            Self::Locked(user) => write!(f, "locked {user}"),
            Self::Filters(user) => write!(f, "filters {user}"),
            Self::Topics(user) => write!(f, "topics {user}"),
            Self::Lists(user) => write!(f, "lists {user}"),
            Self::All => f.write_str("all"),
            Self::User(user) => write!(f, "user {user}"),
        }
    }
}

impl Invalidation {
    /// Encodes invalidations as text, one a line.
    pub(super) fn encode_all(all: &[Self]) -> String {
        all.iter().map(Self::to_string).collect::<Vec<_>>().join("\n")
    }

    /// Decodes them; `None` if a newer version wrote one that this version does not know.
    pub(super) fn decode_all(text: &str) -> Option<Vec<Self>> {
        text.lines().map(Self::decode).collect()
    }

    fn decode(line: &str) -> Option<Self> {
        if line == "all" {
            return Some(Self::All);
        }
        let (kind, rest) = line.split_once(' ')?;
        Some(match kind {
            "post" => Self::Post(PostId::parse(rest)?),
            "comment" => Self::Comment(CommentId::parse(rest)?),
            "thread" => Self::Thread(PostId::parse(rest)?),
            "relation" => {
                let (one, other) = rest.split_once(' ')?;
                Self::Relation(UserId::parse(one)?, UserId::parse(other)?)
            }
            "erased" => Self::Erased(UserId::parse(rest)?),
            "standing" => Self::Standing(UserId::parse(rest)?),
            "locked" => Self::Locked(UserId::parse(rest)?),
            "reposts" => Self::Reposts(PostId::parse(rest)?),
            "filters" => Self::Filters(UserId::parse(rest)?),
            "topics" => Self::Topics(UserId::parse(rest)?),
            "lists" => Self::Lists(UserId::parse(rest)?),
            "user" => Self::User(UserId::parse(rest)?),
            _ => return None,
        })
    }
}

/// An invalidation that was appended to the log. Some nodes may not have applied it yet.
#[must_use = "the change is in force on every node after `wait` only"]
pub struct Confirmation(Option<BoxFuture<'static, usize>>);

impl fmt::Debug for Confirmation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Confirmation(pending)" } else { "Confirmation(immediate)" })
    }
}

impl Confirmation {
    /// The confirmation of a change that is in force already.
    pub fn immediate() -> Self {
        Self(None)
    }

    /// `pending` ends when the change is in force; its output is the number of nodes that did not confirm.
    pub(super) fn pending(pending: impl Future<Output = usize> + Send + 'static) -> Self {
        Self(Some(Box::pin(pending)))
    }

    /// Whether other nodes have to confirm.
    pub fn is_pending(&self) -> bool {
        self.0.is_some()
    }

    /// Waits until the change is in force on every node: at most [`CACHE_LEASE`](super::CACHE_LEASE) and a small
    /// margin. Returns the number of nodes that did not confirm; they do not use their caches now.
    pub async fn wait(self) -> usize {
        match self.0 {
            Some(pending) => pending.await,
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalidations_survive_the_log() {
        let id = |text| UserId::parse(text).expect("an id");
        let all = [
            Invalidation::Post(PostId(7)),
            Invalidation::Comment(CommentId(8)),
            Invalidation::Thread(PostId(7)),
            Invalidation::Relation(id("ann"), id("b.o-")),
            Invalidation::User(id("cy")),
            Invalidation::Erased(id("dee")),
            Invalidation::Standing(id("eve")),
            Invalidation::Locked(id("eve")),
            Invalidation::Reposts(PostId(7)),
            Invalidation::Filters(id("fay")),
            Invalidation::Topics(id("gus")),
            Invalidation::Lists(id("hal")),
            Invalidation::All,
        ];
        assert_eq!(Invalidation::decode_all(&Invalidation::encode_all(&all)).as_deref(), Some(&all[..]));
        assert_eq!(Invalidation::decode_all("post 7\nnewer kind"), None);
        assert_eq!(Invalidation::decode_all("post x"), None);
    }
}

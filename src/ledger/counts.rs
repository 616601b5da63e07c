//! The counts of posts and the flags of a reader: the data that a page needs besides the posts.

use async_trait::async_trait;

use super::Result;
use crate::model::{PostCounts, PostFlags, PostId, User, UserId};

/// What a page of posts shows besides the posts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hydration {
    /// As [`CountStore::counts`].
    pub counts: Vec<(PostId, PostCounts)>,
    /// What the reader did with those posts that they did something with, each once, in any order; none for somebody
    /// anonymous.
    pub flags: Vec<(PostId, PostFlags)>,
    /// As [`PeopleStore::users`](super::PeopleStore::users).
    pub people: Vec<User>,
}

/// The counts of posts. The writes that change them maintain them in the same transaction.
#[async_trait]
pub trait CountStore: Send + Sync {
    /// The counts of those of `ids` that something came of, each once, in any order; of the others all are zero. Any
    /// number of ids, one round trip.
    async fn counts(&self, ids: &[PostId]) -> Result<Vec<(PostId, PostCounts)>>;

    /// What a page shows of `posts` to a reader (`None`: anonymous), and these people. One round trip.
    async fn hydrate(&self, reader: Option<&UserId>, posts: &[PostId], people: &[UserId]) -> Result<Hydration>;
}

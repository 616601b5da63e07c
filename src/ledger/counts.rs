//! The counts of posts and the flags of a reader: the data that a page needs besides the posts.

use async_trait::async_trait;

use super::Result;
use crate::model::{PostCounts, PostFlags, PostId, User, UserId};

/// The data that a page shows besides its posts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hydration {
    /// The counts of the posts, as [`CountStore::counts`] returns them.
    pub counts: Vec<(PostId, PostCounts)>,
    /// The reader's own actions on the posts. Posts without any are omitted; each post once, in any order. Empty for
    /// anonymous readers.
    pub flags: Vec<(PostId, PostFlags)>,
    /// The users, as [`PeopleStore::users`](super::PeopleStore::users) returns them.
    pub people: Vec<User>,
}

/// The counts of posts. The writes that change them maintain them in the same transaction.
#[async_trait]
pub trait CountStore: Send + Sync {
    /// The counts of `ids`, each once, in any order. Omits posts whose counts are all zero. Accepts any number of ids
    /// in one round trip.
    async fn counts(&self, ids: &[PostId]) -> Result<Vec<(PostId, PostCounts)>>;

    /// The counts and flags of `posts` for a reader (`None`: anonymous), and the users `people`. One round trip.
    async fn hydrate(&self, reader: Option<&UserId>, posts: &[PostId], people: &[UserId]) -> Result<Hydration>;
}

//! Followed topics: their public posts come into the timelines of users.

use async_trait::async_trait;

use super::Result;
use crate::model::{Millis, UserId};

/// A topic that a user follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedTopic {
    /// Its name, without the `#`.
    pub name: String,
    /// When the user began to follow it, in Unix milliseconds.
    pub at: Millis,
}

/// The topics that users follow.
#[async_trait]
pub trait TopicFollowStore: Send + Sync {
    /// Adds a topic to those that an existing user follows; idempotent. Returns `false` and changes nothing if the user
    /// follows `most` others or more, also with concurrent calls.
    async fn follow_topic(&self, user: &UserId, topic: &str, now: Millis, most: usize) -> Result<bool>;

    /// Removes a topic from those that a user follows. Returns whether the user followed it.
    async fn unfollow_topic(&self, user: &UserId, topic: &str) -> Result<bool>;

    /// The topics that a user follows, in ascending order of their names, byte by byte.
    async fn followed_topics(&self, user: &UserId) -> Result<Vec<FollowedTopic>>;

    /// The names of the topics that these users follow, each with the user, as the user is named in `users`. Accepts
    /// any number of users in one round trip.
    async fn topics_of(&self, users: &[UserId]) -> Result<Vec<(UserId, String)>>;

    /// Whether any user follows a topic. The cost does not depend on their number.
    async fn has_topic_follows(&self) -> Result<bool>;

    /// The users among `users` that follow one of these topics, each once, in any order. Accepts any number of users in
    /// one round trip. The cost does not depend on the number of other followers.
    async fn topic_followers_among(&self, topics: &[String], users: &[UserId]) -> Result<Vec<UserId>>;
}

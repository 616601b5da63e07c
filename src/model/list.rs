//! Lists: users and topics that a user gathers, to read their posts together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Millis, UserId};

/// The number of a list. Later lists have larger ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ListId(pub u64);

/// A list of a user. Only its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct List {
    /// Its number.
    pub id: ListId,
    /// Its name.
    pub name: String,
    /// Whether the posts and reposts of its users are left out of the timeline.
    pub exclusive: bool,
    /// The number of its users.
    pub users: u64,
    /// The number of its topics.
    pub topics: u64,
    /// When it was made, in Unix milliseconds.
    pub created_at: Millis,
}

impl List {
    /// The maximal number of users of a list.
    pub const MAX_USERS: usize = 500;
    /// The maximal number of topics of a list.
    pub const MAX_TOPICS: usize = 20;
}

/// A list, and who reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedList {
    /// The owner.
    pub owner: UserId,
    /// The number of the list.
    pub id: ListId,
}

/// A member of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListMember {
    /// The posts and reposts of a user.
    User(UserId),
    /// The public posts with a topic, by its name.
    Topic(String),
}

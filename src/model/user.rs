//! People, and what is between two of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Millis, UserId};

/// A user as others see one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct User {
    /// Its id.
    pub id: UserId,
    /// What to call them; the id until they say otherwise.
    pub name: String,
    /// Where their picture is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avatar: Option<String>,
    /// When Feedline first heard of them, in Unix milliseconds.
    pub created_at: Millis,
}

/// Where a user's id comes from. It never changes: an account cannot take the id of an application's user, nor the
/// other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UserOrigin {
    /// Signed up here, with a password.
    Account,
    /// A token of the application, or a backend, brought it.
    Application,
}

/// What is between the asking user and another, seen from the asking one. Whether the other hides, mutes or blocks is
/// not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Edges {
    /// I follow them.
    pub following: bool,
    /// They follow me.
    pub followed_by: bool,
    /// I hide my posts from them.
    pub hiding: bool,
    /// I mute them.
    pub muting: bool,
    /// I block them.
    pub blocking: bool,
    /// I want to be told when they post.
    pub notify: bool,
}

/// A user with counts and the edges to whoever asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// Who it is.
    #[serde(flatten)]
    pub user: User,
    /// How many follow them.
    pub followers: u64,
    /// How many they follow.
    pub following: u64,
    /// How many posts of theirs whoever asked may see.
    pub posts: u64,
    /// What is between the two.
    pub edges: Edges,
}

/// Someone as lists name them: as much as a name beside a post needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Person {
    /// Who.
    pub id: UserId,
    /// What to call them.
    pub name: String,
    /// Where their picture is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avatar: Option<String>,
}

impl From<User> for Person {
    fn from(user: User) -> Self {
        Self { id: user.id, name: user.name, avatar: user.avatar }
    }
}

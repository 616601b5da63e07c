//! Users, and the edges between two of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Millis, PostId, Quotable, UserId};

/// The public data of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct User {
    /// Its id.
    pub id: UserId,
    /// The display name; the id until the user sets one.
    pub name: String,
    /// The URL of the picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avatar: Option<String>,
    /// When Feedline created the user, in Unix milliseconds.
    pub created_at: Millis,
}

/// What a user says about themselves, beyond the data that lists show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct About {
    /// A text about the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bio: Option<String>,
    /// Additional data of the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Map<String, Value>>,
    /// The user's own posts that are shown first, as far as the caller may see them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<PostId>,
    /// Who may quote the user's posts, of those who can see them.
    #[serde(default)]
    pub quotable: Quotable,
}

/// A user with all data of the profile, without counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserDetails {
    /// The user.
    #[serde(flatten)]
    pub user: User,
    /// The text and data of the profile.
    #[serde(flatten)]
    pub about: About,
    /// Whether the account is locked: its public posts are for followers, and followers are accepted one by one.
    pub locked: bool,
}

/// The origin of a user's id. It never changes: an account cannot take the id of an application's user, nor the other
/// way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UserOrigin {
    /// A sign-up with a password.
    Account,
    /// A token or a backend of the application.
    Application,
}

/// The edges between the caller and another user, from the caller's side. They do not show whether the other user
/// hides, mutes or blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Edges {
    /// I follow them.
    pub following: bool,
    /// They follow me.
    pub followed_by: bool,
    /// I have an open request to follow them.
    pub requested: bool,
    /// They have an open request to follow me.
    pub requested_by: bool,
    /// I hide my posts from them.
    pub hiding: bool,
    /// I mute them.
    pub muting: bool,
    /// I block them.
    pub blocking: bool,
    /// I get alerts of their posts.
    pub notify: bool,
    /// I do not want their reposts in my timeline.
    pub reposts_off: bool,
}

/// A user with counts and the edges to the caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// The user.
    #[serde(flatten)]
    pub user: User,
    /// The text and data of the profile.
    #[serde(flatten)]
    pub about: About,
    /// Whether the account is locked: its public posts are for followers, and followers are accepted one by one.
    pub locked: bool,
    /// The number of followers.
    pub followers: u64,
    /// The number of followees.
    pub following: u64,
    /// The number of the user's posts that the caller can see.
    pub posts: u64,
    /// The edges between the caller and the user.
    pub edges: Edges,
}

/// The short form of a user in lists: id, name and picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Person {
    /// The id.
    pub id: UserId,
    /// The display name.
    pub name: String,
    /// The URL of the picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avatar: Option<String>,
}

impl From<User> for Person {
    fn from(user: User) -> Self {
        Self { id: user.id, name: user.name, avatar: user.avatar }
    }
}

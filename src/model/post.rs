//! A post and its parts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Millis, PostId, UserId};

/// Who may see a post.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Everyone.
    #[default]
    Public,
    /// Those who follow the author.
    Followers,
    /// Those who follow the author and whom the author follows.
    Friends,
    /// Those named, as far as they follow the author.
    OnlyTo(Vec<UserId>),
    /// Everyone but those named.
    NotTo(Vec<UserId>),
}

/// What a piece of media is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MediaKind {
    /// A picture.
    Image,
    /// A film.
    Video,
    /// A sound.
    Audio,
}

/// A picture, film or sound, kept elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Media {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: MediaKind,
    /// Where it is: `http` or `https`.
    pub url: String,
    /// Width in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Height in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// What it shows, for those who cannot see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alt: Option<String>,
}

/// A place on earth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Location {
    /// Degrees north, -90 to 90.
    pub lat: f64,
    /// Degrees east, -180 to 180.
    pub lon: f64,
    /// What the place is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A post as its author made it: what is stored once and shown to everyone alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Post {
    /// Its id; newer posts have larger ones.
    pub id: PostId,
    /// Who wrote it.
    pub author: UserId,
    /// What it says.
    pub text: String,
    /// What it shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Media>,
    /// Where it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// What it is about: given, and `#words` of the text; lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// Whom it names (`@user`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<UserId>,
    /// What it was written with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Who may see it.
    #[serde(default)]
    pub visibility: Visibility,
    /// The application's own part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Map<String, Value>>,
    /// When it was written, in Unix milliseconds.
    pub created_at: Millis,
    /// When it was last changed, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<Millis>,
}

/// What came of a post, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PostCounts {
    /// How many like it.
    pub likes: u64,
    /// How many comments are under it.
    pub comments: u64,
    /// How many have it among their favourites.
    pub favourites: u64,
}

/// What a reader did with a post.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PostFlags {
    /// The reader likes it.
    pub liked: bool,
    /// The reader has it among their favourites.
    pub favourited: bool,
}

/// A post as it is shown: with what came of it, and, to somebody signed in who asks for it, what they did with it.
/// What is pushed is the same for everyone, and so without the latter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShownPost {
    /// The post.
    #[serde(flatten)]
    pub post: Post,
    /// What came of it.
    #[serde(flatten)]
    pub counts: PostCounts,
    /// What the reader did with it.
    #[serde(flatten)]
    pub flags: Option<PostFlags>,
}

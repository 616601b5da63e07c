//! A post and its parts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{FilterId, Millis, PostId, UserId};

/// The users that can see a post.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Everyone.
    #[default]
    Public,
    /// The followers of the author.
    Followers,
    /// The followers of the author that the author follows back.
    Friends,
    /// The named users, if they follow the author.
    OnlyTo(Vec<UserId>),
    /// Everyone except the named users.
    NotTo(Vec<UserId>),
}

impl Visibility {
    /// The users that it names.
    pub fn named(&self) -> &[UserId] {
        match self {
            Self::OnlyTo(users) | Self::NotTo(users) => users,
            Self::Public | Self::Followers | Self::Friends => &[],
        }
    }

    /// See [`named`](Self::named).
    pub fn named_mut(&mut self) -> &mut [UserId] {
        match self {
            Self::OnlyTo(users) | Self::NotTo(users) => users,
            Self::Public | Self::Followers | Self::Friends => &mut [],
        }
    }
}

/// Who may comment on a post, of those who can see it. Its author always may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommentPolicy {
    /// All.
    #[default]
    Everyone,
    /// The followers of the author.
    Followers,
    /// The users that the post mentions.
    Mentioned,
    /// Nobody.
    Nobody,
}

impl CommentPolicy {
    fn is_everyone(&self) -> bool {
        *self == Self::Everyone
    }
}

/// The kind of a piece of media.
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
    /// The kind of media.
    #[serde(rename = "type")]
    pub kind: MediaKind,
    /// The URL: `http` or `https`, or a path of the same origin.
    pub url: String,
    /// Width in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Height in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// A text alternative, for users that cannot see the media.
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
    /// The name of the place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A post in the form that its author wrote. It is stored once and is the same for all readers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Post {
    /// Its id; newer posts have larger ones.
    pub id: PostId,
    /// The author.
    pub author: UserId,
    /// The text.
    pub text: String,
    /// The media.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Media>,
    /// Where it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// The topics, in lower case and NFC: those given explicitly, and the `#words` of the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// The mentioned users (`@user`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<UserId>,
    /// The client or platform that it was written with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// The users that can see it.
    #[serde(default)]
    pub visibility: Visibility,
    /// Who may comment, of those who can see it; absent: `everyone`.
    #[serde(default, skip_serializing_if = "CommentPolicy::is_everyone")]
    pub comment_policy: CommentPolicy,
    /// Additional data of the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Map<String, Value>>,
    /// The reposted post. A repost has no content, only its visibility. Readers get the whole reposted post with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub repost: Option<PostId>,
    /// The post that this one quotes. Readers get a [`QuotedPost`] instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub quote: Option<PostId>,
    /// When it was written, in Unix milliseconds.
    pub created_at: Millis,
    /// That it was removed, and why; absent if it was not. Only its author sees a removed post.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Removal>,
    /// When it was last changed, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<Millis>,
}

impl Post {
    /// The post that it reposts or quotes.
    pub fn named(&self) -> Option<PostId> {
        self.repost.or(self.quote)
    }

    /// A public post without content, written at the time of its id.
    pub fn blank(id: PostId, author: UserId) -> Self {
        Self {
            id,
            author,
            text: String::new(),
            media: Vec::new(),
            location: None,
            topics: Vec::new(),
            mentions: Vec::new(),
            platform: None,
            visibility: Visibility::Public,
            comment_policy: CommentPolicy::default(),
            data: None,
            repost: None,
            quote: None,
            created_at: id.time(),
            removed: None,
            edited_at: None,
        }
    }

    /// The repost of another post.
    pub fn repost(id: PostId, author: &UserId, post: PostId, visibility: Visibility) -> Self {
        Self { visibility, repost: Some(post), ..Self::blank(id, author.clone()) }
    }
}

/// That a post or a comment was removed by the application's backend. Only its author still sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Removal {
    /// The reason, for the author; absent: none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The state of a post that a restoration brings back. Only ledgers have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub former: Option<FormerPost>,
}

/// The members of a post that its removal replaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerPost {
    /// The users that could see it.
    pub visibility: Visibility,
    /// When it was last changed by its author, in Unix milliseconds; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<Millis>,
}

/// The counts of a post.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PostCounts {
    /// The number of likes.
    pub likes: u64,
    /// The number of comments.
    pub comments: u64,
    /// The number of users that have it among their favourites.
    pub favourites: u64,
    /// The number of users that reposted it.
    pub reposts: u64,
    /// The number of posts that quote it.
    pub quotes: u64,
}

/// Whether a quoted post is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuoteState {
    /// The post is shown.
    Shown,
    /// It was deleted, or the reader may not see it.
    Unavailable,
    /// Its author detached it.
    Detached,
}

/// A quoted post.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuotedPost {
    /// Its id.
    pub id: PostId,
    /// Whether it is shown.
    pub state: QuoteState,
    /// The post, if it is shown: without the post that it quotes itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post: Option<Box<ShownPost>>,
}

/// The reader's own actions on a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PostFlags {
    /// The reader likes it.
    pub liked: bool,
    /// The reader has it among their favourites.
    pub favourited: bool,
    /// The reader receives no notifications of what happens under it; absent if they do.
    #[serde(default, skip_serializing_if = "is_false")]
    pub muted: bool,
    /// The reader may comment. Ledgers leave it `true`.
    pub can_comment: bool,
}

impl Default for PostFlags {
    fn default() -> Self {
        Self { liked: false, favourited: false, muted: false, can_comment: true }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A post with its counts and, if a signed-in caller asks for them, the caller's flags. Pushed posts are the same for
/// all readers and have no flags.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Post")]
pub struct ShownPost {
    /// The post.
    #[serde(flatten)]
    pub post: Post,
    /// The counts of the post.
    #[serde(flatten)]
    pub counts: PostCounts,
    /// The reader's own actions on the post.
    #[serde(flatten)]
    pub flags: Option<PostFlags>,
    /// The reposted post; absent if it is no repost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repost: Option<Box<ShownPost>>,
    /// The post that it quotes; absent if it quotes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<QuotedPost>,
    /// The reader's filters that it has a word of, with the action `warn`, in the timeline and in topics; absent if
    /// there are none. Pushed posts have it, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filtered: Vec<FilterId>,
    /// In a timeline, the reason why a post of an author whom the reader does not follow is shown; absent for other
    /// posts. Pushed posts have it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<PostVia>,
}

/// The reason why a timeline shows a post of an author whom the reader does not follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PostVia {
    /// A topic of the post that the reader follows.
    pub topic: String,
}

/// The users among those that a reader follows who reposted a post of a timeline, besides the one that shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepostedBy {
    /// The first of them, 3 at most.
    pub people: Vec<UserId>,
    /// The number of all of them.
    pub count: u64,
}

/// The counts of a post at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionedCounts {
    /// The counts.
    pub counts: PostCounts,
    /// Their version: of two, the one with the larger version is the later one.
    pub version: u64,
}

/// Who may quote the posts of a user. Part of the profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Quotable {
    /// All who can see a post may quote it.
    #[default]
    Everyone,
    /// The followers of the author.
    Followers,
    /// Nobody but the author.
    Nobody,
}

impl Quotable {
    /// Its name in ledgers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Everyone => "everyone",
            Self::Followers => "followers",
            Self::Nobody => "nobody",
        }
    }

    /// Parses the result of [`as_str`](Self::as_str).
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Everyone, Self::Followers, Self::Nobody].into_iter().find(|quotable| quotable.as_str() == text)
    }
}

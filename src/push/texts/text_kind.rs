//! The kinds of texts.

/// The event that a text describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TextKind {
    /// A mention of the receiver.
    Mention,
    /// A reply to a comment of the receiver.
    Reply,
    /// A comment on a post of the receiver.
    Comment,
    /// A like of a post or comment of the receiver.
    Like,
    /// A new follower.
    Follow,
    /// A request to follow the receiver.
    Request,
    /// The acceptance of a request of the receiver.
    Accepted,
    /// A repost of a post of the receiver.
    Repost,
    /// A quote of a post of the receiver.
    Quote,
    /// A post of someone whose posts the receiver asked for.
    Post,
    /// Several notifications in one.
    Digest,
    /// Any of these, for receivers who asked for private notifications: no names and no content.
    Private,
    /// A test of the delivery.
    Test,
}

impl TextKind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::Mention,
        Self::Reply,
        Self::Comment,
        Self::Like,
        Self::Follow,
        Self::Request,
        Self::Accepted,
        Self::Repost,
        Self::Quote,
        Self::Post,
        Self::Digest,
        Self::Private,
        Self::Test,
    ];

    /// The name of the kind in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mention => "mention",
            Self::Reply => "reply",
            Self::Comment => "comment",
            Self::Like => "like",
            Self::Follow => "follow",
            Self::Request => "request",
            Self::Accepted => "accepted",
            Self::Repost => "repost",
            Self::Quote => "quote",
            Self::Post => "post",
            Self::Digest => "digest",
            Self::Private => "private",
            Self::Test => "test",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

//! The kinds of notifications.

use super::{AppGroup, CommentId, ContentId, PostId};

/// The names of all kinds but those of the application, which begin with `app.`.
pub const NOTIFICATION_KINDS: [&str; 9] =
    ["like", "comment", "reply", "follow", "mention", "request", "accepted", "repost", "quote"];

/// The cause of a notification: an action of a user that concerns another user, the recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NotificationKind {
    /// A like of a post or comment of the recipient.
    Like(ContentId),
    /// A comment on a post of the recipient.
    Comment(PostId),
    /// A reply to a comment of the recipient.
    Reply(CommentId),
    /// A follow of the recipient.
    Follow,
    /// A mention of the recipient in a post or comment.
    Mention(ContentId),
    /// A request to follow the recipient, whose account is locked.
    Request,
    /// The acceptance of a request of the recipient.
    Accepted,
    /// A repost of a post of the recipient.
    Repost(PostId),
    /// A post that quotes a post of the recipient.
    Quote(PostId),
    /// A notification of the application's own.
    App(AppGroup),
}

impl NotificationKind {
    /// The name of the kind in stores, and its public name, but for those of the application.
    pub fn name(self) -> &'static str {
        match self {
            Self::Like(_) => "like",
            Self::Comment(_) => "comment",
            Self::Reply(_) => "reply",
            Self::Follow => "follow",
            Self::Mention(_) => "mention",
            Self::Request => "request",
            Self::Accepted => "accepted",
            Self::Repost(_) => "repost",
            Self::Quote(_) => "quote",
            Self::App(_) => "app",
        }
    }

    /// The object of the action; `None` for what concerns two users alone.
    pub fn object(self) -> Option<ContentId> {
        match self {
            Self::Like(object) | Self::Mention(object) => Some(object),
            Self::Comment(post) | Self::Repost(post) | Self::Quote(post) => Some(ContentId::Post(post)),
            Self::Reply(comment) => Some(ContentId::Comment(comment)),
            Self::Follow | Self::Request | Self::Accepted | Self::App(_) => None,
        }
    }

    /// The object, or the group of the application, as stores have it; empty: none.
    pub fn object_text(self) -> String {
        match self {
            Self::App(group) => group.to_text(),
            _ => self.object().map(ContentId::to_text).unwrap_or_default(),
        }
    }

    /// Combines kind and object, as stores have them. `None` if they do not match.
    pub fn parse(kind: &str, object: &str) -> Option<Self> {
        if kind == "app" {
            return AppGroup::parse(object).map(Self::App);
        }
        Some(match (kind, ContentId::parse(object)) {
            ("like", Some(object)) => Self::Like(object),
            ("comment", Some(ContentId::Post(post))) => Self::Comment(post),
            ("reply", Some(ContentId::Comment(comment))) => Self::Reply(comment),
            ("follow", None) => Self::Follow,
            ("mention", Some(object)) => Self::Mention(object),
            ("request", None) => Self::Request,
            ("accepted", None) => Self::Accepted,
            ("repost", Some(ContentId::Post(post))) => Self::Repost(post),
            ("quote", Some(ContentId::Post(post))) => Self::Quote(post),
            _ => return None,
        })
    }

    /// Whether a repetition by the same person is a new event: another comment is, another like is not.
    pub fn is_new_each_time(self) -> bool {
        matches!(self, Self::Comment(_) | Self::Reply(_) | Self::App(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_round_trips() {
        let post = ContentId::Post(PostId(7));
        let comment = ContentId::Comment(CommentId(8));
        let all = [
            NotificationKind::Like(post),
            NotificationKind::Like(comment),
            NotificationKind::Comment(PostId(7)),
            NotificationKind::Reply(CommentId(8)),
            NotificationKind::Follow,
            NotificationKind::Mention(post),
            NotificationKind::Mention(comment),
            NotificationKind::Request,
            NotificationKind::Accepted,
            NotificationKind::Repost(PostId(7)),
            NotificationKind::Quote(PostId(7)),
        ];
        assert!(all.iter().all(|kind| NOTIFICATION_KINDS.contains(&kind.name())));
        let app = NotificationKind::App(AppGroup::parse("g00000000000000ff").expect("a group"));
        for kind in all.into_iter().chain([app]) {
            assert_eq!(NotificationKind::parse(kind.name(), &kind.object_text()), Some(kind));
        }
        for (kind, object) in [("reply", "p7"), ("app", ""), ("app", "p7"), ("like", "g00000000000000ff")] {
            assert_eq!(NotificationKind::parse(kind, object), None, "{kind} of {object}");
        }
    }
}

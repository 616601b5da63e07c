//! The readers of a channel.

use std::sync::Arc;

use crate::feed::content::PostEventKind;
use crate::feed::visibility::ViewContext;
use crate::model::{Entry, FilterContext, ListId, OwnedList, PostId, UserId};

/// The audience of a channel. It determines the recipients of each entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Only this user: the channel is the user's timeline.
    Timeline(UserId),
    /// Only the owner: the channel has the posts of a list.
    List(Arc<OwnedList>),
    /// The subscribers of an author's profile.
    Profile,
    /// The subscribers of a topic.
    Topic(Arc<str>),
    /// The subscribers of a post: comments and counts.
    Post(PostId),
    /// Only this user: the channel has the user's notifications.
    Notifications(UserId),
    /// Application data: every subscriber receives every entry.
    Plain,
}

impl Audience {
    /// Whether every subscriber receives every entry: the channel has one reader, or no rules.
    pub fn is_unconditional(&self) -> bool {
        matches!(self, Self::Plain | Self::Timeline(_) | Self::List(_) | Self::Notifications(_))
    }

    /// The owner of a timeline or a list.
    pub(super) fn owner(&self) -> Option<&UserId> {
        match self {
            Self::Timeline(owner) => Some(owner),
            Self::List(list) => Some(&list.owner),
            _ => None,
        }
    }

    /// The list whose log it is.
    pub(super) fn list(&self) -> Option<ListId> {
        match self {
            Self::List(list) => Some(list.id),
            _ => None,
        }
    }

    /// How the owner of a timeline or a list sees its posts.
    pub(super) fn view(&self) -> ViewContext {
        match self {
            Self::List(_) => ViewContext::List,
            _ => ViewContext::Timeline,
        }
    }

    /// Where filters of the owner of a timeline or a list apply to its posts.
    pub(super) fn filter_context(&self) -> FilterContext {
        match self {
            Self::List(_) => FilterContext::Lists,
            _ => FilterContext::Home,
        }
    }
}

/// The reader of a log.
#[derive(Clone, Copy, Debug)]
pub enum Viewer<'a> {
    /// The application's backend, which receives everything.
    Backend,
    /// The user of a client; `None`: an anonymous client.
    Client(Option<&'a UserId>),
}

/// The kind of event of an entry that shows a post.
pub(super) fn post_kind(entry: &Entry) -> Option<PostEventKind> {
    match entry {
        Entry::Post(_) => Some(PostEventKind::Created),
        Entry::Edited(_) | Entry::AuthorGone(_) => Some(PostEventKind::Edited),
        _ => None,
    }
}

//! The sources of inboxes: what a user follows, or a list.

use std::sync::Arc;

use crate::feed::rendering::Audience;
use crate::model::{InboxId, ListId, OwnedList, UserId};

/// What fills an inbox.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// What this user follows, and the user's own posts: the timeline.
    Timeline(UserId),
    /// The members of a list.
    List(Arc<OwnedList>),
}

impl Source {
    /// A list of a user.
    pub(crate) fn list(owner: &UserId, id: ListId) -> Self {
        Self::List(Arc::new(OwnedList { owner: owner.clone(), id }))
    }

    /// The inbox.
    pub(crate) fn inbox(&self) -> InboxId {
        match self {
            Self::Timeline(user) => InboxId::Timeline(user.clone()),
            Self::List(list) => InboxId::List(list.id),
        }
    }

    /// The user who reads the inbox.
    pub(crate) fn reader(&self) -> &UserId {
        match self {
            Self::Timeline(user) => user,
            Self::List(list) => &list.owner,
        }
    }

    /// The audience of the log of the inbox.
    pub(crate) fn audience(&self) -> Audience {
        match self {
            Self::Timeline(user) => Audience::Timeline(user.clone()),
            Self::List(list) => Audience::List(Arc::clone(list)),
        }
    }

    /// The source of the log that an audience reads, if the log is an inbox.
    pub(crate) fn of(audience: &Audience) -> Option<Self> {
        match audience {
            Audience::Timeline(user) => Some(Self::Timeline(user.clone())),
            Audience::List(list) => Some(Self::List(Arc::clone(list))),
            _ => None,
        }
    }
}

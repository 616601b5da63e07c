//! Rendered log entries: their forms, and the conditions for their recipients.

use bytes::Bytes;

use super::comment_rendering::ShownComment;
use crate::feed::content::{CachedPost, with_marks};
use crate::feed::visibility::ViewContext;
use crate::model::{FilterId, UserId, Visibility};

/// A rendered entry, and the conditions for its recipients.
#[derive(Debug)]
pub struct RenderedEvent<'a> {
    /// The members of the publication, as JSON text.
    pub members: Bytes,
    /// If it shows a quoted post: the form for readers who may not see that post.
    pub(super) without_quote: Option<WithoutQuote<'a>>,
    /// Whether every subscriber may receive it.
    pub is_public: bool,
    /// The conditions that a recipient must all meet, without those that everybody meets.
    pub(super) conditions: Vec<Condition<'a>>,
    /// What the filters of a recipient are applied to.
    pub(super) filtered: Option<FilteredContent<'a>>,
}

/// The form of an event without the post that its post quotes.
#[derive(Debug)]
pub(super) struct WithoutQuote<'a> {
    /// Recipients who meet it receive the whole event.
    pub(super) condition: Condition<'a>,
    /// Whether everybody meets it.
    pub(super) is_met_by_all: bool,
    pub(super) quoted: &'a CachedPost,
    pub(super) members: Bytes,
}

/// What filters are applied to on a shared channel.
#[derive(Debug)]
pub(super) enum FilteredContent<'a> {
    Post(&'a CachedPost),
    Comment(&'a ShownComment),
}

/// A user or post that a recipient must, or must not, be able to see.
#[derive(Clone, Copy, Debug)]
pub(super) struct Condition<'a> {
    pub(super) author: &'a UserId,
    /// The context in which the recipient sees it.
    pub(super) view: ViewContext,
    /// The visibility of a post of the author; `None`: only the author must be visible.
    pub(super) visibility: Option<&'a Visibility>,
    pub(super) must_see: bool,
}

impl<'a> Condition<'a> {
    pub(super) fn sees(cached: &'a CachedPost, view: ViewContext) -> Self {
        Self { author: &cached.post.author, view, visibility: Some(&cached.post.visibility), must_see: true }
    }

    /// A post that another one names is not requested by the reader.
    pub(super) fn sees_named(cached: &'a CachedPost) -> Self {
        Self::sees(cached, ViewContext::Unrequested)
    }
}

/// What a reader receives of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    Nothing,
    Whole,
    /// The post without the post that it quotes.
    WithoutQuote,
    /// Marked with these filters of the reader; `quoted`: with the post that it quotes.
    Marked {
        quoted: bool,
        filters: Vec<FilterId>,
    },
}

impl RenderedEvent<'_> {
    /// The users whose relations to a reader decide about the delivery.
    pub fn authors(&self) -> impl Iterator<Item = &UserId> {
        let quoted = self.without_quote.iter().filter(|form| !form.is_met_by_all).map(|form| form.condition.author);
        self.conditions.iter().map(|condition| condition.author).chain(quoted)
    }

    /// The members of the publication for a form; `None`: nothing.
    pub(super) fn members_of(&self, form: Form) -> Option<Bytes> {
        let without_quote = self.without_quote.as_ref().map(|form| &form.members);
        match form {
            Form::Nothing => None,
            Form::Whole => Some(self.members.clone()),
            Form::WithoutQuote => without_quote.cloned(),
            Form::Marked { quoted, filters } => match self.filtered {
                Some(FilteredContent::Comment(shown)) => Some(shown.marked(filters)),
                _ if quoted => Some(with_marks(&self.members, &filters)),
                _ => without_quote.map(|members| with_marks(members, &filters)),
            },
        }
    }
}

//! The comments of log entries, as they are when the entries are delivered.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use super::people::load_people;
use crate::feed::error::Result;
use crate::ledger::Ledger;
use crate::model::{ClientEvent, Comment, CommentChanged, CommentId, Entry, FilterId, Person, UserId};

/// Comments by id, and whether the entry is an edit.
pub(super) type EncodedComments = HashMap<(CommentId, bool), EncodedComment>;

/// A comment as it is published.
#[derive(Debug)]
pub(super) struct EncodedComment {
    /// The members of the publication, for all readers whose filters do not mark it.
    pub(super) members: Bytes,
    /// The comment; `None` if it is gone.
    pub(super) shown: Option<ShownComment>,
}

/// A comment with its author.
#[derive(Debug)]
pub(super) struct ShownComment {
    pub(super) comment: Comment,
    is_edit: bool,
    people: BTreeMap<UserId, Person>,
}

impl ShownComment {
    /// The members of the publication for a reader whose filters mark the comment.
    pub(super) fn marked(&self, filtered: Vec<FilterId>) -> Bytes {
        encode(&Comment { filtered, ..self.comment.clone() }, self.is_edit, &self.people)
    }
}

/// Renders comments.
pub(crate) struct CommentRenderer {
    ledger: Arc<dyn Ledger>,
}

impl CommentRenderer {
    /// Renders the comments of this ledger.
    pub(crate) fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger }
    }

    /// The comments of these entries, encoded once for all recipients, in two ledger calls. An entry shows the present
    /// text of its comment, or that the comment is gone.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub(super) async fn render(&self, entries: impl Iterator<Item = &Entry>) -> Result<EncodedComments> {
        let changes: HashSet<(CommentId, bool)> =
            entries.filter_map(changed).map(|changed| (changed.comment, changed.is_edit)).collect();
        if changes.is_empty() {
            return Ok(EncodedComments::new());
        }
        let ids: Vec<CommentId> = changes.iter().map(|(id, _)| *id).collect::<HashSet<_>>().into_iter().collect();
        let comments = self.ledger.comments(&ids).await?;
        let people = load_people(&*self.ledger, comments.iter().filter_map(|comment| comment.author.as_ref())).await?;
        let by_id: HashMap<CommentId, Comment> = comments.into_iter().map(|comment| (comment.id, comment)).collect();
        let encoded = |(id, is_edit): (CommentId, bool)| {
            let stored = by_id.get(&id);
            let Some((comment, author)) = stored.and_then(|comment| Some((comment, comment.author.as_ref()?))) else {
                let members = ClientEvent::CommentGone { comment: id, stays: stored.is_some() }.encode();
                return EncodedComment { members, shown: None };
            };
            let author = people.get_key_value(author.as_str());
            let people = author.map(|(id, person)| (id.clone(), person.clone())).into_iter().collect();
            let members = encode(comment, is_edit, &people);
            EncodedComment { members, shown: Some(ShownComment { comment: comment.clone(), is_edit, people }) }
        };
        Ok(changes.into_iter().map(|change| (change, encoded(change))).collect())
    }
}

fn encode(comment: &Comment, is_edit: bool, people: &BTreeMap<UserId, Person>) -> Bytes {
    let event =
        if is_edit { ClientEvent::CommentEdited { comment, people } } else { ClientEvent::Comment { comment, people } };
    event.encode()
}

/// The comment that an entry shows.
fn changed(entry: &Entry) -> Option<&CommentChanged> {
    match entry {
        Entry::Comment(changed) => Some(changed),
        _ => None,
    }
}

//! This node's position in the pull log, and the inboxes that it keeps up to date: those of connected users.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::source::Source;
use crate::model::{OwnedList, UserId};

/// The position of this node in the pull log, and the inboxes with subscribers.
#[derive(Debug, Default)]
pub(crate) struct PullCursor {
    state: Mutex<CursorState>,
}

#[derive(Debug, Default)]
struct CursorState {
    /// The mark of the last entry whose processing has begun on this node.
    reached: u64,
    /// The inboxes, with the numbers of their subscribers on this node.
    present: HashMap<Source, usize>,
}

/// The inboxes with subscribers on this node.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PresentInboxes {
    /// The users whose timelines have subscribers.
    pub(crate) users: Vec<UserId>,
    /// The lists that have subscribers.
    pub(crate) lists: Vec<Arc<OwnedList>>,
}

impl PullCursor {
    /// Whether an inbox with this mark has every entry that this node knows of, or is about to receive them.
    pub(crate) fn covers(&self, source: &Source, mark: u64) -> bool {
        let state = self.state.lock();
        state.reached <= mark || state.present.contains_key(source)
    }

    /// The mark of the last entry that this node knows of.
    pub(crate) fn reached(&self) -> u64 {
        self.state.lock().reached
    }

    /// Begins the processing of an entry. Returns the inboxes with subscribers, which receive the entry if it is for
    /// them; lists only if they may.
    pub(crate) fn begin(&self, mark: u64, with_lists: bool) -> PresentInboxes {
        let mut state = self.state.lock();
        state.reached = state.reached.max(mark);
        let mut present = PresentInboxes::default();
        for source in state.present.keys() {
            match source {
                Source::Timeline(user) => present.users.push(user.clone()),
                Source::List(list) if with_lists => present.lists.push(Arc::clone(list)),
                Source::List(_) => {}
            }
        }
        present
    }

    /// Adds a subscriber of an inbox that has caught up to `mark`. `None` if the node's position is beyond the
    /// mark.
    pub(super) fn enter(self: &Arc<Self>, source: &Source, mark: u64) -> Option<Presence> {
        let mut state = self.state.lock();
        if state.reached > mark && !state.present.contains_key(source) {
            return None;
        }
        *state.present.entry(source.clone()).or_default() += 1;
        Some(Presence { cursor: Arc::clone(self), source: source.clone() })
    }
}

/// A subscriber of an inbox on this node. Until it is dropped, the node keeps the inbox up to date.
#[derive(Debug)]
pub struct Presence {
    cursor: Arc<PullCursor>,
    source: Source,
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut state = self.cursor.state.lock();
        if let Some(times) = state.present.get_mut(&self.source) {
            *times -= 1;
            if *times == 0 {
                state.present.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ListId;

    fn timeline(name: &str) -> Source {
        Source::Timeline(UserId::parse(name).expect("a user id"))
    }

    #[test]
    fn users_enter_when_their_inbox_is_up_to_date() {
        let cursor = Arc::new(PullCursor::default());
        let ann = timeline("ann");
        assert_eq!(cursor.begin(7, true), PresentInboxes::default());
        assert!(cursor.enter(&ann, 6).is_none() && !cursor.covers(&ann, 6));
        let first = cursor.enter(&ann, 7).expect("up to date");
        assert_eq!(cursor.begin(8, true).users, [UserId::parse("ann").expect("a user id")]);
        // The first connection keeps the inbox up to date, so an older mark is accepted.
        let second = cursor.enter(&ann, 7).expect("present already");
        drop(first);
        assert!(cursor.covers(&ann, 0));
        drop(second);
        assert!(!cursor.covers(&ann, 7) && cursor.covers(&ann, 8) && cursor.begin(9, true).users.is_empty());
        let list = Source::list(&UserId::parse("ann").expect("a user id"), ListId(3));
        let _present = cursor.enter(&list, 9).expect("up to date");
        let ids = |with_lists| cursor.begin(9, with_lists).lists.iter().map(|list| list.id).collect::<Vec<_>>();
        assert_eq!((ids(true), ids(false)), (vec![ListId(3)], vec![]));
    }
}

//! This node's position in the pull log, and the users whose inboxes it keeps up to date.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::model::UserId;

/// The position of this node in the pull log, and the connected users.
#[derive(Debug, Default)]
pub(crate) struct PullCursor {
    state: Mutex<CursorState>,
}

#[derive(Debug, Default)]
struct CursorState {
    /// The mark of the last entry whose processing has begun on this node.
    reached: u64,
    /// The connected users, with their numbers of connections on this node.
    present: HashMap<UserId, usize>,
}

impl PullCursor {
    /// Whether an inbox with this mark has every entry that this node knows of, or is about to receive them.
    pub(crate) fn covers(&self, user: &UserId, mark: u64) -> bool {
        let state = self.state.lock();
        state.reached <= mark || state.present.contains_key(user)
    }

    /// The mark of the last entry that this node knows of.
    pub(crate) fn reached(&self) -> u64 {
        self.state.lock().reached
    }

    /// Begins the processing of an entry. Returns the connected users, whose inboxes receive the entry if they follow
    /// its author.
    pub(crate) fn begin(&self, mark: u64) -> Vec<UserId> {
        let mut state = self.state.lock();
        state.reached = state.reached.max(mark);
        state.present.keys().cloned().collect()
    }

    /// Adds a connection of a user whose inbox has caught up to `mark`. `None` if the node's position is beyond the
    /// mark.
    pub(super) fn enter(self: &Arc<Self>, user: &UserId, mark: u64) -> Option<Presence> {
        let mut state = self.state.lock();
        if state.reached > mark && !state.present.contains_key(user) {
            return None;
        }
        *state.present.entry(user.clone()).or_default() += 1;
        Some(Presence { cursor: Arc::clone(self), user: user.clone() })
    }
}

/// A connection of a user to this node. Until it is dropped, the node keeps the user's inbox up to date.
#[derive(Debug)]
pub struct Presence {
    cursor: Arc<PullCursor>,
    user: UserId,
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut state = self.cursor.state.lock();
        if let Some(times) = state.present.get_mut(&self.user) {
            *times -= 1;
            if *times == 0 {
                state.present.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserId {
        UserId::parse(name).expect("a user id")
    }

    #[test]
    fn users_enter_when_their_inbox_is_up_to_date() {
        let cursor = Arc::new(PullCursor::default());
        let ann = user("ann");
        assert!(cursor.begin(7).is_empty());
        assert!(cursor.enter(&ann, 6).is_none() && !cursor.covers(&ann, 6));
        let first = cursor.enter(&ann, 7).expect("up to date");
        assert_eq!(cursor.begin(8), std::slice::from_ref(&ann));
        // The first connection keeps the inbox up to date, so an older mark is accepted.
        let second = cursor.enter(&ann, 7).expect("present already");
        drop(first);
        assert!(cursor.covers(&ann, 0));
        drop(second);
        assert!(!cursor.covers(&ann, 7) && cursor.covers(&ann, 8) && cursor.begin(9).is_empty());
    }
}

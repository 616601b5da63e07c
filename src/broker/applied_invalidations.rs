//! The invalidations that a node has applied: what was prepared before them may show a former state.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::Invalidation;
use crate::model::UserId;

/// The number of invalidations whose objects are known. Much more than one node applies while a delivery is prepared.
const MAX_RECENT: usize = 256;

/// How many invalidations were applied, and the users of the newest ones.
#[derive(Debug, Default)]
pub(super) struct AppliedInvalidations {
    count: AtomicU64,
    /// The newest ones, the newest last: the two users of a relation. `None`: anything else.
    recent: Mutex<VecDeque<Option<[UserId; 2]>>>,
}

impl AppliedInvalidations {
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Counts an invalidation.
    pub(super) fn add(&self, change: &Invalidation) {
        let users = match change {
            Invalidation::Relation(one, other) => Some([one.clone(), other.clone()]),
            _ => None,
        };
        let mut recent = self.recent.lock();
        if recent.len() == MAX_RECENT {
            recent.pop_front();
        }
        recent.push_back(users);
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether one of those after the first `known` concerns what was prepared before it. `concerns` decides about a
    /// changed relation of two users; everything else concerns it.
    pub(super) fn any_since(&self, known: u64, concerns: impl Fn(&UserId, &UserId) -> bool) -> bool {
        let recent = self.recent.lock();
        let new = usize::try_from(self.count().saturating_sub(known)).unwrap_or(usize::MAX);
        new > recent.len()
            || recent.iter().rev().take(new).any(|users| match users {
                Some([one, other]) => concerns(one, other),
                None => true,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PostId;

    fn id(text: &str) -> UserId {
        UserId::parse(text).expect("an id")
    }

    #[test]
    fn only_relations_are_told_apart() {
        let applied = AppliedInvalidations::default();
        let is_ann = |one: &UserId, other: &UserId| [one, other].contains(&&id("ann"));
        applied.add(&Invalidation::Relation(id("ann"), id("bo")));
        assert!(applied.any_since(0, is_ann));
        assert!(!applied.any_since(1, is_ann), "it was applied before");
        applied.add(&Invalidation::Relation(id("bo"), id("cy")));
        assert!(!applied.any_since(1, is_ann));
        for change in [Invalidation::Post(PostId(7)), Invalidation::User(id("dee")), Invalidation::All] {
            let known = applied.count();
            applied.add(&change);
            assert!(applied.any_since(known, |_, _| false), "{change:?}");
        }
    }

    #[test]
    fn older_ones_than_are_known_concern_everything() {
        let applied = AppliedInvalidations::default();
        applied.add(&Invalidation::Relation(id("a"), id("b")));
        for _ in 0..MAX_RECENT {
            applied.add(&Invalidation::Relation(id("a"), id("b")));
        }
        assert!(applied.any_since(0, |_, _| false));
        assert!(!applied.any_since(1, |_, _| false));
    }
}

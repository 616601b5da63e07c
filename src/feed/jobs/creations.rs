//! Writes under way that create jobs, by author.
//!
//! When two such writes of one author overlap, the job of the later write may reach its lane first. If a call is
//! dropped, or the reply of the ledger is lost, this node does not know the job that was created. Jobs that reach a
//! lane in that period start only after the ledger confirms that no earlier job of the author is left.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::model::UserId;

/// The longest time after which the ledger may still commit an abandoned write.
const LATEST_COMMIT: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Writes {
    under_way: u32,
    /// Until when a job created by an abandoned write may be leased.
    given_up: Option<Instant>,
}

/// All writes under way.
#[derive(Default)]
pub(crate) struct Creations(Mutex<HashMap<UserId, Writes>>);

/// A write under way. If it is dropped before its end, the write counts as abandoned.
pub(crate) struct Creation {
    all: Arc<Creations>,
    author: UserId,
    lease: Duration,
    has_ended: bool,
}

impl Creations {
    /// Begins a write that may create jobs with a lease of this length.
    pub(crate) fn begin(self: &Arc<Self>, author: &UserId, lease: Duration) -> Creation {
        self.0.lock().entry(author.clone()).or_default().under_way += 1;
        Creation { all: Arc::clone(self), author: author.clone(), lease, has_ended: false }
    }

    /// Forgets abandoned writes whose leases have expired.
    pub(crate) fn forget_past(&self) {
        let now = Instant::now();
        self.0.lock().retain(|_, writes| {
            writes.given_up = writes.given_up.filter(|until| now < *until);
            writes.under_way > 0 || writes.given_up.is_some()
        });
    }
}

impl Creation {
    /// Whether there may be earlier jobs of the author that are in no lane.
    pub(crate) fn has_rivals(&self) -> bool {
        let all = self.all.0.lock();
        let is_given_up = |until: Instant| Instant::now() < until;
        all.get(&self.author).is_some_and(|writes| writes.under_way > 1 || writes.given_up.is_some_and(is_given_up))
    }

    /// Ends the write: its jobs are in their lanes.
    pub(crate) fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for Creation {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        let Some(writes) = all.get_mut(&self.author) else { return };
        writes.under_way = writes.under_way.saturating_sub(1);
        if !self.has_ended {
            writes.given_up = Some(Instant::now() + LATEST_COMMIT + self.lease);
        }
        if writes.under_way == 0 && writes.given_up.is_none() {
            all.remove(&self.author);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_may_have_earlier_ones_while_writes_are_under_way_or_given_up() {
        let all = Arc::new(Creations::default());
        let (ann, bo) = (UserId::parse("ann").expect("an id"), UserId::parse("bo").expect("an id"));
        let begin = |author| all.begin(author, Duration::from_secs(5));
        let (first, second, other) = (begin(&ann), begin(&ann), begin(&bo));
        assert!(!other.has_rivals() && second.has_rivals() && first.has_rivals());
        second.end();
        assert!(!first.has_rivals());
        [first, other].into_iter().for_each(Creation::end);
        assert!(all.0.lock().is_empty());
        // The reply was lost, or the call was dropped.
        drop(begin(&ann));
        let (next, other) = (begin(&ann), begin(&bo));
        assert!(next.has_rivals() && !other.has_rivals());
        all.0.lock().get_mut(&ann).expect("writes").given_up = Some(Instant::now());
        assert!(!next.has_rivals());
        [next, other].into_iter().for_each(Creation::end);
        all.forget_past();
        assert!(all.0.lock().is_empty());
    }
}

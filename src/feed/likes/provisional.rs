//! Counts that contain what is acknowledged here and not settled yet.
//!
//! The settled count of an object comes with how far its partition is settled. A like that was acknowledged here counts
//! on top of it until then: so it is in the count once, whatever is settled when and where.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use parking_lot::Mutex;

use super::settled::Settled;
use crate::broker::Place;
use crate::model::{Object, Tally};

/// How many objects' counts are known here.
const MOST: u64 = 100_000;

/// For how long. It bounds how long a node that missed a message can be wrong.
const FRESH: Duration = Duration::from_secs(30);

/// The counts known here.
pub(super) struct Counts {
    known: Cache<Object, Known>,
}

/// The count of one object.
#[derive(Clone)]
pub(super) struct Known(Arc<Mutex<Count>>);

struct Count {
    tally: Tally,
    /// Up to here everything is in the tally, as far as this node heard.
    settled: Option<(u16, Place)>,
    /// Acknowledged here and not in the tally: where, and by how much it changes the count.
    pending: VecDeque<(Place, i64)>,
    /// The sum of those.
    difference: i64,
}

impl Counts {
    pub(super) fn new() -> Self {
        Self { known: Cache::builder().max_capacity(MOST).time_to_live(FRESH).build() }
    }

    pub(super) fn get(&self, object: Object) -> Option<Known> {
        self.known.get(&object)
    }

    /// Puts in what a store says, unless somebody was first.
    pub(super) fn insert(&self, object: Object, tally: Tally) -> Known {
        self.known.get_with(object, || {
            Known(Arc::new(Mutex::new(Count { tally, settled: None, pending: VecDeque::new(), difference: 0 })))
        })
    }

    pub(super) fn forget_all(&self) {
        self.known.invalidate_all();
    }

    /// The settled tally of an object, if it is known here.
    pub(super) fn tally(&self, object: Object) -> Option<Tally> {
        self.known.get(&object).map(|known| known.0.lock().tally)
    }

    /// A batch was settled, here or at another node.
    pub(super) fn on_settled(&self, settled: &Settled) {
        for (object, tally) in &settled.tallies {
            if let Some(known) = self.known.get(object) {
                known.0.lock().settle(settled.partition, settled.through, *tally);
            }
        }
    }
}

impl Known {
    /// A like was acknowledged: the count with it.
    pub(super) fn accept(&self, partition: u16, place: Place, difference: i64) -> u64 {
        let mut count = self.0.lock();
        // It may be settled already, and this node heard so.
        let settled = count.settled.is_some_and(|(of, through)| of == partition && place <= through);
        if difference != 0 && !settled {
            count.pending.push_back((place, difference));
            count.difference += difference;
        }
        count.likes()
    }
}

impl Count {
    fn settle(&mut self, partition: u16, place: Place, tally: Tally) {
        if tally.version >= self.tally.version {
            self.tally = tally;
        }
        self.settled = Some((partition, place));
        // Answers to one append come in any order, so the places are nearly sorted and no more.
        let (pending, difference) = (&mut self.pending, &mut self.difference);
        pending.retain(|(at, by)| {
            let waits = *at > place;
            *difference -= if waits { 0 } else { *by };
            waits
        });
    }

    fn likes(&self) -> u64 {
        self.tally.likes.saturating_add_signed(self.difference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PostId;

    const POST: Object = Object::Post(PostId(7));

    fn at(major: u64) -> Place {
        Place { major, minor: 0 }
    }

    fn settled(through: u64, likes: u64, version: u64) -> Settled {
        let tallies = [(POST, Tally { likes, comments: 0, version })].into();
        Settled { through: at(through), tallies, ..Settled::default() }
    }

    #[test]
    fn a_like_is_in_the_count_once_before_and_after_it_is_settled() {
        let counts = Counts::new();
        let known = counts.insert(POST, Tally { likes: 10, comments: 0, version: 4 });
        assert_eq!(known.accept(0, at(1), 1), 11);
        assert_eq!(known.accept(0, at(2), 1), 12);
        counts.on_settled(&settled(1, 11, 5));
        assert_eq!(known.accept(0, at(3), 0), 12);
        counts.on_settled(&settled(3, 12, 6));
        // This one was settled before its append was answered here.
        assert_eq!(known.accept(0, at(3), 1), 12);
        // A message that was overtaken changes nothing.
        counts.on_settled(&settled(2, 11, 5));
        assert_eq!(known.accept(0, at(4), -1), 11);
    }
}

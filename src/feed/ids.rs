//! Makes post ids.

use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;

use crate::model::{Millis, PostId};

/// Makes ids that grow, unique as long as no two live nodes share a number.
#[derive(Debug, Default)]
pub(super) struct IdMaker {
    /// This node's number, leased from the broker; renewed, and so possibly changed, while we run.
    node: AtomicU8,
    /// The millisecond and the sequence of the last id.
    last: Mutex<(Millis, u8)>,
}

impl IdMaker {
    /// Makes ids as node number `node` from now on.
    pub(super) fn set_node(&self, node: u8) {
        self.node.store(node, Ordering::Relaxed);
    }

    /// A new id, larger than every one before. A clock that stands or goes back borrows the milliseconds to come.
    pub(super) fn next(&self, now: Millis) -> PostId {
        const LAST_SEQUENCE: u8 = (1 << PostId::SEQUENCE_BITS) - 1;
        let mut last = self.last.lock();
        *last = match *last {
            (time, _) if now > time => (now, 0),
            (time, LAST_SEQUENCE) => (time + 1, 0),
            (time, sequence) => (time, sequence + 1),
        };
        PostId::from_parts(last.0, self.node.load(Ordering::Relaxed), last.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_though_the_clock_stands_or_goes_back() {
        let ids = IdMaker::default();
        ids.set_node(5);
        let start = PostId::TIME_ZERO + 1_000;
        let mut last = PostId::ZERO;
        for step in 0..1_000 {
            let id = ids.next(start - step % 10);
            assert!(id > last, "{id:?} after {last:?}");
            last = id;
        }
        assert_eq!(last.time(), start + 1_000 / 64, "each millisecond holds 64 ids");
    }
}

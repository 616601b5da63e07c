//! Empty queues with capacity, kept for each thread: a connection that waits keeps none of its own, and one that writes
//! does not allocate.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::framed::Framed;
use super::outgoing::Outgoing;

/// The largest capacity of a queue that is kept: a burst does not occupy memory permanently.
const MAX_CAPACITY: usize = 64;

/// The number of queues of each type that a thread keeps.
const MAX_KEPT: usize = 64;

thread_local! {
    static FRAMES: RefCell<Vec<VecDeque<Framed>>> = const { RefCell::new(Vec::new()) };
    static ITEMS: RefCell<Vec<VecDeque<Outgoing>>> = const { RefCell::new(Vec::new()) };
}

/// An empty queue of frames.
pub(crate) fn take_frames() -> VecDeque<Framed> {
    FRAMES.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Keeps a queue of frames, and drops its content.
pub(crate) fn keep_frames(queue: VecDeque<Framed>) {
    FRAMES.with_borrow_mut(|spare| keep(spare, queue));
}

/// An empty queue of items.
pub(crate) fn take_items() -> VecDeque<Outgoing> {
    ITEMS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Keeps a queue of items, and drops its content.
pub(crate) fn keep_items(queue: VecDeque<Outgoing>) {
    ITEMS.with_borrow_mut(|spare| keep(spare, queue));
}

fn keep<T>(spare: &mut Vec<VecDeque<T>>, mut queue: VecDeque<T>) {
    queue.clear();
    if spare.len() < MAX_KEPT && (1..=MAX_CAPACITY).contains(&queue.capacity()) {
        spare.push(queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_of_small_empty_queues_is_kept() {
        let mut spare = Vec::new();
        keep(&mut spare, VecDeque::<u8>::new());
        keep(&mut spare, VecDeque::with_capacity(MAX_CAPACITY + 1));
        assert!(spare.is_empty(), "without capacity, and too large");
        (0..MAX_KEPT + 5).for_each(|_| keep(&mut spare, VecDeque::from(vec![1; 4])));
        assert_eq!(spare.len(), MAX_KEPT);
        assert!(spare.iter().all(|queue| queue.is_empty() && queue.capacity() >= 4));
    }
}

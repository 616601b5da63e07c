//! An estimate of how far back a whole timeline reaches, from those that this process has read.
//!
//! An inbox is filled with the newest posts of all followees. With an estimate of the oldest of them, a read costs
//! PostgreSQL half as much (`timeline.rs`). Nothing is known of a reader who was away, but timelines of one instance
//! are alike: what varies most is the number of followees, which the statement divides by. Where they are not alike,
//! the estimate is seldom right, and is tried seldom.

use parking_lot::Mutex;

use crate::model::PostId;

/// The estimate is lower by this factor: too far back reads more posts, not far enough reads every followee again.
const MARGIN: f64 = 1.5;

/// The weight of the newest observation.
const WEIGHT: f64 = 0.125;

/// The share of recent estimates that must have been right. Below it, one read of [`TRIED`] uses the estimate.
const MIN_HITS: f64 = 0.6;

const TRIED: u64 = 16;

/// What was observed so far.
#[derive(Debug, Default)]
pub(super) struct TimelineReach(Mutex<Observed>);

#[derive(Debug)]
struct Observed {
    /// The distance in ids between two posts of one followee. 0: unknown.
    distance: f64,
    /// The share of recent estimates that were right.
    hits: f64,
    /// Reads that could have used the estimate.
    reads: u64,
}

impl Default for Observed {
    fn default() -> Self {
        Self { distance: 0.0, hits: 1.0, reads: 0 }
    }
}

/// The outcome of a read of the newest posts.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadTimeline {
    /// The requested number of posts.
    pub(super) limit: usize,
    /// The id that a post of this moment would have.
    pub(super) now: PostId,
    /// The oldest post, if there are as many as requested.
    pub(super) oldest: Option<PostId>,
    /// The number of followees, and the reader.
    pub(super) authors: i64,
    /// Whether an estimate was used, and was right.
    pub(super) was_right: Option<bool>,
}

impl TimelineReach {
    /// The distance in ids from now to the oldest of `limit` posts, times the number of followees. 0: unknown.
    pub(super) fn estimate(&self, limit: usize) -> i64 {
        let mut observed = self.0.lock();
        observed.reads += 1;
        if observed.hits < MIN_HITS && !observed.reads.is_multiple_of(TRIED) {
            return 0;
        }
        // The conversion saturates.
        (observed.distance * limit as f64 * MARGIN) as i64
    }

    /// Notes the outcome of a read.
    pub(super) fn note(&self, read: ReadTimeline) {
        let mut observed = self.0.lock();
        if let Some(was_right) = read.was_right {
            observed.hits += WEIGHT * (f64::from(u8::from(was_right)) - observed.hits);
        }
        let Some(oldest) = read.oldest.filter(|_| read.limit > 0) else { return };
        let distance = read.now.0.saturating_sub(oldest.0) as f64 * read.authors as f64 / read.limit as f64;
        let weight = if observed.distance == 0.0 { 1.0 } else { WEIGHT };
        observed.distance += weight * (distance - observed.distance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(distance: u64, authors: i64, was_right: Option<bool>) -> ReadTimeline {
        let now = PostId(1_000_000);
        ReadTimeline { limit: 100, now, oldest: Some(PostId(now.0 - distance)), authors, was_right }
    }

    #[test]
    fn timelines_of_few_followees_reach_back_further() {
        let reach = TimelineReach::default();
        assert_eq!(reach.estimate(100), 0, "nothing is known yet");
        reach.note(read(3_000, 10, None));
        // 300 ids between two posts of a followee; the statement divides by the number of followees.
        assert_eq!(reach.estimate(100), 45_000);
        assert_eq!(reach.estimate(10), 4_500);
        reach.note(read(3_800, 10, Some(true)));
        assert_eq!(reach.estimate(100), 46_500, "the newest observation counts an eighth");
        // Fewer posts than requested: nothing is known of older ones.
        reach.note(ReadTimeline { oldest: None, ..read(0, 10, Some(true)) });
        assert_eq!(reach.estimate(100), 46_500);
        assert_eq!(reach.estimate(usize::MAX), i64::MAX);
    }

    #[test]
    fn an_estimate_that_is_often_wrong_is_tried_seldom() {
        let reach = TimelineReach::default();
        reach.note(read(3_000, 10, None));
        (0..4).for_each(|_| reach.note(ReadTimeline { oldest: None, ..read(0, 10, Some(false)) }));
        let tries = |reach: &TimelineReach| (0..160).filter(|_| reach.estimate(100) > 0).count();
        assert_eq!(tries(&reach), 10);
        (0..4).for_each(|_| reach.note(read(3_000, 10, Some(true))));
        assert_eq!(tries(&reach), 160, "it is right again");
    }
}

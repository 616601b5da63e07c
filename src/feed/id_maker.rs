//! Makes ids under a number that this node leases from the broker.
//!
//! Two nodes with the same number could make the same id, so numbers are fenced. The caller passes the time in.
//!
//! - A lease ends here before it ends in the store. It counts from before the request was sent, on a clock that
//!   continues while the process is stopped, and ends [`LEASE_MARGIN`] earlier. If the machine was suspended and its
//!   monotonic clock stopped, the wall clock shows that the lease has ended.
//! - No id is made beyond a time agreed with the store (the lease's *ceiling*). The store keeps the ceiling with the
//!   number; the next holder of the number makes only larger ids, even if its clock is behind.
//! - Ids have the time of the store: this node's clock, corrected by its measured skew. So those of several nodes are
//!   in the order in which they are made, whatever their clocks say. The store also keeps the greatest time of all
//!   nodes, which all of them continue from.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::broker::{IdTimes, NODE_LEASE, NodeLease};
use crate::model::{Millis, PostId};

/// How much earlier a lease ends here than in the store. Covers clocks that run at different speeds.
pub(crate) const LEASE_MARGIN: Duration = Duration::from_secs(10);

/// Makes ascending ids that are unique across nodes.
#[derive(Debug, Default)]
pub(crate) struct IdMaker(Mutex<IdState>);

#[derive(Debug, Default)]
struct IdState {
    /// This node's number, and until when it may be used.
    lease: Option<LeasedNumber>,
    /// The millisecond and the sequence of the last id.
    last: (Millis, u8),
    /// How far this node's clock is ahead of the store's, in milliseconds; negative: behind.
    skew: i64,
}

impl IdState {
    /// The time of the store.
    fn store_time(&self, wall: Millis) -> Millis {
        wall.saturating_add_signed(-self.skew)
    }
}

#[derive(Debug)]
struct LeasedNumber {
    number: u8,
    /// The end of the lease by the monotonic clock and by the wall clock, and the last millisecond for which ids may be
    /// made. `None` if no other node can have the number.
    bounds: Option<(Instant, Millis, Millis)>,
}

/// A request for a lease under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseRequest {
    sent: ClockReading,
    /// The end of the lease by the wall clock.
    wall_until: Millis,
    /// The current number, which the lease should keep, if any.
    pub(crate) number: Option<u8>,
    /// Under this lease, no id is made for a later millisecond than its ceiling.
    pub(crate) ids: IdTimes,
}

/// A moment, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    /// The monotonic clock, which continues while the process is stopped.
    pub(crate) ticks: Instant,
    /// The wall clock.
    pub(crate) wall: Millis,
}

impl ClockReading {
    /// The current time, with `wall` as the wall clock.
    pub(crate) fn at(wall: Millis) -> Self {
        Self { ticks: Instant::now(), wall }
    }
}

/// The node has no lease, or its lease has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoLease;

impl IdMaker {
    /// Begins a request to lease a number, or to renew its lease. Call it before the request is sent.
    pub(crate) fn request(&self, now: ClockReading) -> LeaseRequest {
        let state = self.0.lock();
        let valid = u64::try_from((NODE_LEASE - LEASE_MARGIN).as_millis()).unwrap_or(u64::MAX);
        let number = state.lease.as_ref().map(|held| held.number);
        let wall_until = now.wall.saturating_add(valid);
        let ceiling = state.store_time(now.wall).max(state.last.0).saturating_add(valid);
        LeaseRequest { sent: now, wall_until, number, ids: IdTimes { used: state.last.0, ceiling } }
    }

    /// The leased number.
    pub(crate) fn number(&self) -> Option<u8> {
        self.0.lock().lease.as_ref().map(|held| held.number)
    }

    /// Begins above the ids of this time and all earlier ones.
    pub(crate) fn begin_after(&self, used: Millis) {
        let mut state = self.0.lock();
        if state.last.0 < used {
            state.last = (used, PostId::LAST_SEQUENCE);
        }
    }

    /// Measures how far this node's clock is ahead of the store's, in milliseconds. The store read its clock between
    /// the request and the reply: a difference that this time explains is none.
    pub(crate) fn measure(&self, request: LeaseRequest, answered: ClockReading, lease: &NodeLease) -> i64 {
        let Some(time) = lease.store_time else { return 0 };
        let ahead = request.sent.wall.saturating_sub(time);
        let behind = time.saturating_sub(answered.wall.max(request.sent.wall));
        let skew = ahead.cast_signed().saturating_sub(behind.cast_signed());
        self.0.lock().skew = skew;
        skew
    }

    /// The time of the store when this node's clock has this one.
    pub(crate) fn store_time(&self, wall: Millis) -> Millis {
        self.0.lock().store_time(wall)
    }

    /// Whether the store must have a later ceiling before an id of this moment is made.
    pub(crate) fn exceeds(&self, request: LeaseRequest, now: ClockReading) -> bool {
        let state = self.0.lock();
        state.store_time(now.wall).max(state.last.0) > request.ids.ceiling
    }

    /// Records that the request was granted.
    pub(crate) fn granted(&self, request: LeaseRequest, lease: &NodeLease) {
        let mut state = self.0.lock();
        let before = state.lease.as_ref().map(|held| held.number);
        if before.is_some_and(|before| before != lease.number) {
            // Within one millisecond, a smaller number makes smaller ids.
            state.last.1 = PostId::LAST_SEQUENCE;
        }
        if state.last.0 < lease.used_until {
            state.last = (lease.used_until, PostId::LAST_SEQUENCE);
        }
        let until = lease.ttl.map(|ttl| request.sent.ticks + ttl.saturating_sub(LEASE_MARGIN));
        let bounds = until.map(|until| (until, request.wall_until, request.ids.ceiling));
        state.lease = Some(LeasedNumber { number: lease.number, bounds });
    }

    /// Ends the lease: no ids are made until another one is granted. Returns the number and the last millisecond for
    /// which an id was made, by this node or a former holder; `None` without a lease.
    pub(crate) fn release(&self) -> Option<(u8, Millis)> {
        let mut state = self.0.lock();
        let held = state.lease.take()?;
        Some((held.number, state.last.0))
    }

    /// Returns a new id, larger than all earlier ones. If the clock does not advance or goes back, or the sequence of
    /// a millisecond runs out, ids use future milliseconds.
    ///
    /// # Errors
    /// While another node may have this node's number.
    pub(crate) fn next(&self, now: ClockReading) -> Result<PostId, NoLease> {
        let mut state = self.0.lock();
        let held = state.lease.as_ref().ok_or(NoLease)?;
        let number = held.number;
        let wall = state.store_time(now.wall);
        let next = match state.last {
            (time, _) if wall > time => (wall, 0),
            (time, PostId::LAST_SEQUENCE) => (time + 1, 0),
            (time, sequence) => (time, sequence + 1),
        };
        if let Some((until, wall_until, ceiling)) = held.bounds
            && (now.ticks >= until || now.wall > wall_until || next.0 > ceiling)
        {
            return Err(NoLease);
        }
        state.last = next;
        Ok(PostId::from_parts(next.0, number, next.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Millis = PostId::TIME_ZERO + 10_000_000;

    /// Two clocks that the test moves.
    struct Clocks(Instant, Millis);

    impl Clocks {
        fn new() -> Self {
            Self(Instant::now(), START)
        }

        /// The time after `ticks` seconds on the monotonic clock, and `wall` seconds on the wall clock.
        fn at(&self, ticks: u64, wall: u64) -> ClockReading {
            ClockReading { ticks: self.0 + Duration::from_secs(ticks), wall: self.1 + 1_000 * wall }
        }
    }

    fn leased(number: u8, used_until: Millis) -> NodeLease {
        NodeLease { number, ttl: Some(NODE_LEASE), used_until, store_time: None }
    }

    #[test]
    fn ids_grow_when_the_clock_stands_or_goes_back() {
        let ids = IdMaker::default();
        let moment = ClockReading::at(START);
        ids.granted(ids.request(moment), &NodeLease { number: 5, ttl: None, used_until: 0, store_time: None });
        let mut last = PostId::ZERO;
        for step in 0..1_000 {
            let id = ids.next(ClockReading { wall: START - step % 10, ..moment }).unwrap();
            assert!(id > last, "{id:?} after {last:?}");
            last = id;
        }
        let decades =
            ClockReading { ticks: moment.ticks + Duration::from_secs(2_000_000_000), wall: START + 2_000_000_000_000 };
        assert!(ids.next(decades).is_ok(), "embedded, nobody else can have the number");
    }

    #[test]
    fn a_thousand_ids_of_one_millisecond_are_unique_and_ascending() {
        let ids = IdMaker::default();
        let moment = ClockReading::at(START);
        ids.granted(ids.request(moment), &NodeLease { number: 254, ttl: None, used_until: 0, store_time: None });
        let made: Vec<PostId> = (0..1_000).map(|_| ids.next(moment).unwrap()).collect();
        assert!(made.is_sorted_by(|one, next| one < next));
        assert_eq!(made[0].time(), START);
        assert_eq!(made[999].time(), START + 999 / 16, "each millisecond holds 16 ids");
    }

    #[test]
    fn a_released_number_makes_no_ids() {
        let ids = IdMaker::default();
        let clocks = Clocks::new();
        assert_eq!(ids.release(), None);
        ids.granted(ids.request(clocks.at(0, 0)), &leased(3, 0));
        let last = ids.next(clocks.at(0, 7)).unwrap();
        assert_eq!(ids.release(), Some((3, last.time())));
        assert_eq!(ids.next(clocks.at(0, 8)), Err(NoLease));
        assert_eq!(ids.release(), None);
    }

    #[test]
    fn leases_end_locally_before_they_end_in_the_store() {
        let ids = IdMaker::default();
        let clocks = Clocks::new();
        assert_eq!(ids.next(clocks.at(0, 0)), Err(NoLease), "no number yet");
        let request = ids.request(clocks.at(0, 0));
        // The reply took 9 s: the store may have counted from when the request was sent.
        ids.granted(request, &leased(3, 0));
        let first = ids.next(clocks.at(9, 9)).unwrap();
        assert!(ids.next(clocks.at(49, 49)).unwrap() > first);
        // The process was stopped, and the wall clock was set back; the lease has ended anyway.
        assert_eq!(ids.next(clocks.at(50, 20)), Err(NoLease));
        let request = ids.request(clocks.at(51, 21));
        assert_eq!(request.number, Some(3));
        ids.granted(request, &leased(3, 0));
        assert!(ids.next(clocks.at(51, 21)).is_ok());
    }

    #[test]
    fn a_machine_that_was_suspended_makes_no_ids_until_it_has_renewed() {
        let ids = IdMaker::default();
        let clocks = Clocks::new();
        ids.granted(ids.request(clocks.at(0, 0)), &leased(3, 0));
        // The monotonic clock stopped.
        assert_eq!(ids.next(clocks.at(1, 51)), Err(NoLease));
        ids.granted(ids.request(clocks.at(1, 51)), &leased(3, 0));
        assert!(ids.next(clocks.at(1, 51)).is_ok());
    }

    #[test]
    fn ids_stay_below_the_stored_limit() {
        let ids = IdMaker::default();
        let clocks = Clocks::new();
        let request = ids.request(clocks.at(0, 0));
        ids.granted(request, &leased(3, 0));
        let mut made = Vec::new();
        while let Ok(id) = ids.next(clocks.at(49, 50)) {
            made.push(id);
        }
        assert_eq!(made.len(), 16, "the last millisecond");
        assert!(made.iter().all(|id| id.time() <= request.ids.ceiling));
        // The clock was set back by the time of the renewal. Ids continue, so the store needs a higher ceiling.
        assert!(ids.request(clocks.at(50, 0)).ids.ceiling > request.ids.ceiling);
    }

    #[test]
    fn ids_go_on_above_those_of_the_former_holder() {
        let former = IdMaker::default();
        let clocks = Clocks::new();
        let request = former.request(clocks.at(0, 3_600));
        former.granted(request, &leased(3, 0));
        let last = former.next(clocks.at(0, 3_600)).unwrap();
        // This node's clock is an hour behind.
        let ids = IdMaker::default();
        let behind = clocks.at(60, 60);
        ids.granted(ids.request(behind), &leased(3, request.ids.ceiling));
        assert_eq!(ids.next(behind), Err(NoLease), "the store is to know first");
        ids.granted(ids.request(behind), &leased(3, 0));
        assert!(ids.next(behind).unwrap() > last);
    }

    #[test]
    fn ids_have_the_time_of_the_store() {
        let clocks = Clocks::new();
        let [ahead, behind] = [IdMaker::default(), IdMaker::default()];
        // Two nodes, one an hour ahead of the store and one an hour behind it, make ids in turn.
        let renew = |ids: &IdMaker, number, sent: ClockReading, time: Millis| {
            let request = ids.request(sent);
            let lease = NodeLease { store_time: Some(time), ..leased(number, 0) };
            let skew = ids.measure(request, ClockReading { wall: sent.wall + 10, ..sent }, &lease);
            ids.granted(request, &lease);
            (skew, ids.exceeds(request, sent))
        };
        let now = START + 7_200_000;
        assert_eq!(renew(&ahead, 200, clocks.at(0, 10_800), now), (3_600_000, false));
        assert_eq!(renew(&behind, 100, clocks.at(0, 3_600), now), (10 - 3_600_000, true), "the ceiling is too low");
        assert_eq!(renew(&behind, 100, clocks.at(0, 3_600), now), (10 - 3_600_000, false));
        let mut last = PostId::ZERO;
        for second in 1..20 {
            let [early, late] = [3_600, 10_800].map(|wall| clocks.at(second, wall + second));
            for (ids, at) in [(&behind, early), (&ahead, ClockReading { wall: late.wall + 20, ..late })] {
                let next = ids.next(at).unwrap();
                assert!(next > last && next.time().abs_diff(now + 1_000 * second) <= 20, "{next:?} after {last:?}");
                last = next;
            }
        }
        // A difference that the round trip explains is none.
        assert_eq!(renew(&ahead, 200, clocks.at(20, 7_200), now + 7), (0, false));
    }

    #[test]
    fn ids_continue_above_the_greatest_one_of_the_ledger_and_of_other_nodes() {
        let ids = IdMaker::default();
        let clocks = Clocks::new();
        ids.begin_after(START + 3_600_000);
        let request = ids.request(clocks.at(0, 0));
        assert_eq!(request.ids.used, START + 3_600_000, "the other nodes are to know");
        ids.granted(request, &leased(3, 0));
        let first = ids.next(clocks.at(0, 0)).unwrap();
        assert!(first.time() > START + 3_600_000, "the clock was set back while the process was stopped");
        ids.granted(ids.request(clocks.at(1, 1)), &leased(3, START + 3_700_000));
        assert!(ids.next(clocks.at(1, 1)).is_err(), "another node is ahead: the store is to know first");
        ids.granted(ids.request(clocks.at(1, 1)), &leased(3, START + 3_700_000));
        assert!(ids.next(clocks.at(1, 1)).unwrap().time() > START + 3_700_000);
        ids.begin_after(START);
        assert!(ids.next(clocks.at(2, 2)).unwrap().time() > START + 3_700_000, "never back");
    }

    #[test]
    fn another_number_makes_no_smaller_ids() {
        let ids = IdMaker::default();
        let clocks = Clocks::new();
        ids.granted(ids.request(clocks.at(0, 0)), &leased(60, 0));
        let before = ids.next(clocks.at(0, 0)).unwrap();
        ids.granted(ids.request(clocks.at(0, 0)), &leased(2, 0));
        assert!(ids.next(clocks.at(0, 0)).unwrap() > before);
    }
}

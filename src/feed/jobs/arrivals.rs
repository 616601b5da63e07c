//! The order in which jobs reach their lanes.
//!
//! Calls of the ledger that create or claim jobs overlap, and their replies may arrive in another order than the ids of
//! their jobs. A job therefore waits for the calls that were under way when it arrived, if they may bring an earlier
//! job of its author: writes of the same author, and a claim. The ledger serializes the writes of an author, so later
//! calls bring later jobs only.
//!
//! If a call is dropped, or the reply of the ledger is lost, this node does not know which jobs are leased to it. Until
//! their leases have expired, jobs start only after the ledger confirms that no earlier job of the author is left.
//! After a claim, this includes jobs that are in lanes already.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

use super::leases::HeldLeases;
use super::reply_gate::JobPace;
use crate::ledger::Job;
use crate::model::UserId;

/// The longest time after which the ledger may still commit an abandoned write.
const LATEST_COMMIT: Duration = Duration::from_secs(60);

/// A job in a lane.
pub(crate) struct QueuedJob {
    pub(crate) job: Job,
    /// Freed when the job is done or lost.
    pub(crate) slot: Option<OwnedSemaphorePermit>,
    /// Replies wait for it.
    pub(crate) pace: JobPace,
}

/// A job that has arrived, and is to be put into this lane.
pub(super) struct Arrival {
    lane: mpsc::Sender<QueuedJob>,
    queued: QueuedJob,
    /// Calls with a smaller number may bring earlier jobs.
    barrier: u64,
}

/// The calls and waiting jobs of an author.
#[derive(Default)]
struct Author {
    /// The numbers of the writes under way.
    under_way: SmallVec<[u64; 2]>,
    waiting: Vec<Arrival>,
    /// Until when a job of a call with an unknown outcome may be leased to this node.
    unknown_until: Option<Instant>,
}

#[derive(Default)]
struct State {
    /// The number of the next call.
    next: u64,
    /// The number of the claim under way, and until when jobs of a claim with an unknown outcome may be leased to this
    /// node.
    claim: Option<u64>,
    unknown_claim_until: Option<Instant>,
    authors: HashMap<UserId, Author>,
}

/// All calls under way, and the jobs that wait for them.
pub(super) struct Arrivals {
    held: Arc<HeldLeases>,
    state: Mutex<State>,
}

/// A call of the ledger that may lease jobs to this node. If it is dropped before its end, its outcome is unknown.
pub(crate) struct LeasingCall {
    all: Arc<Arrivals>,
    number: u64,
    /// The author whose jobs it creates; `None` for a claim.
    author: Option<UserId>,
    lease: Duration,
    has_ended: bool,
}

impl Arrival {
    /// The lease of the job is among those held.
    pub(super) fn new(lane: mpsc::Sender<QueuedJob>, queued: QueuedJob) -> Self {
        Self { lane, queued, barrier: 0 }
    }

    fn id(&self) -> i64 {
        self.queued.job.id
    }

    /// Puts the job into its lane. `in_doubt`: an earlier job of the author may be in no lane.
    pub(super) fn proceed(self, held: &HeldLeases, in_doubt: bool) {
        let (id, generation) = (self.id(), self.queued.job.generation);
        held.enter_lane(id, generation, in_doubt);
        if self.lane.try_send(self.queued).is_err() {
            held.remove(id, generation);
            tracing::warn!(job = id, "a lane is full, the job waits until its lease runs out");
        }
    }
}

impl Author {
    /// The number of jobs that need not wait any longer, which come first. `first` is the first call under way that
    /// concerns the author.
    fn ready(&mut self, first: u64) -> usize {
        self.waiting.sort_unstable_by_key(Arrival::id);
        // No call that began after the arrival of a later job can bring a job before this one.
        let mut barrier = u64::MAX;
        for arrival in self.waiting.iter_mut().rev() {
            barrier = barrier.min(arrival.barrier);
            arrival.barrier = barrier;
        }
        self.waiting.iter().take_while(|arrival| arrival.barrier <= first).count()
    }

    fn is_unused(&self) -> bool {
        self.under_way.is_empty() && self.waiting.is_empty() && self.unknown_until.is_none()
    }
}

impl State {
    /// Puts the jobs of an author that need not wait any longer into their lane.
    fn proceed(&mut self, author: &UserId, held: &HeldLeases) {
        let Some(of_author) = self.authors.get_mut(author) else { return };
        let first = of_author.under_way.iter().copied().chain(self.claim).min().unwrap_or(u64::MAX);
        let count = of_author.ready(first);
        let in_doubt = is_future(of_author.unknown_until) || is_future(self.unknown_claim_until);
        for arrival in of_author.waiting.drain(..count) {
            arrival.proceed(held, in_doubt);
        }
        if of_author.is_unused() {
            self.authors.remove(author);
        }
    }
}

fn is_future(time: Option<Instant>) -> bool {
    time.is_some_and(|time| Instant::now() < time)
}

impl Arrivals {
    pub(super) fn new(held: Arc<HeldLeases>) -> Arc<Self> {
        Arc::new(Self { held, state: Mutex::default() })
    }

    /// Begins a write that may create jobs of an author with a lease of this length.
    pub(super) fn begin_write(self: &Arc<Self>, author: &UserId, lease: Duration) -> LeasingCall {
        let mut state = self.state.lock();
        let number = state.begin();
        state.authors.entry(author.clone()).or_default().under_way.push(number);
        LeasingCall { all: Arc::clone(self), number, author: Some(author.clone()), lease, has_ended: false }
    }

    /// Begins a claim of jobs with a lease of this length. There is one at a time.
    pub(super) fn begin_claim(self: &Arc<Self>, lease: Duration) -> LeasingCall {
        let mut state = self.state.lock();
        let number = state.begin();
        state.claim = Some(number);
        LeasingCall { all: Arc::clone(self), number, author: None, lease, has_ended: false }
    }

    /// Forgets calls with an unknown outcome whose leases have expired.
    pub(super) fn forget_past(&self) {
        self.state.lock().authors.retain(|_, author| {
            author.unknown_until = author.unknown_until.filter(|until| is_future(Some(*until)));
            !author.is_unused()
        });
    }
}

impl State {
    fn begin(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

impl LeasingCall {
    /// Ends the call with the jobs that it leased to this node.
    pub(super) fn end(mut self, arrivals: impl IntoIterator<Item = Arrival>) {
        self.has_ended = true;
        self.settle(arrivals);
    }

    fn settle(&self, arrivals: impl IntoIterator<Item = Arrival>) {
        let held = &self.all.held;
        let mut state = self.all.state.lock();
        let state = &mut *state;
        let unknown_until = (!self.has_ended).then(|| Instant::now() + LATEST_COMMIT + self.lease);
        let arrivals: Vec<Arrival> = arrivals.into_iter().collect();
        if self.author.is_none() {
            if self.has_ended {
                held.doubt_later_than(arrivals.iter().map(|arrival| &arrival.queued.job));
            } else {
                held.doubt_all();
            }
        }
        for arrival in arrivals {
            let author = arrival.queued.job.work.author().clone();
            let of_author = state.authors.entry(author).or_default();
            of_author.waiting.push(Arrival { barrier: state.next, ..arrival });
        }
        let Some(author) = &self.author else {
            state.claim = None;
            state.unknown_claim_until = unknown_until.or(state.unknown_claim_until);
            let authors = state.authors.iter().filter(|(_, of_author)| !of_author.waiting.is_empty());
            let authors: Vec<UserId> = authors.map(|(author, _)| author.clone()).collect();
            return authors.iter().for_each(|author| state.proceed(author, held));
        };
        if let Some(of_author) = state.authors.get_mut(author) {
            of_author.under_way.retain(|number| *number != self.number);
            of_author.unknown_until = unknown_until.or(of_author.unknown_until);
        }
        state.proceed(author, held);
    }
}

impl Drop for LeasingCall {
    fn drop(&mut self) {
        if !self.has_ended {
            self.settle([]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::leases::RenewalTime;
    use super::*;
    use crate::ledger::Work;
    use crate::model::PostId;

    const LEASE: Duration = Duration::from_secs(5);

    struct Lane {
        arrivals: Arc<Arrivals>,
        sender: mpsc::Sender<QueuedJob>,
        receiver: mpsc::Receiver<QueuedJob>,
    }

    impl Lane {
        fn new() -> Self {
            let (sender, receiver) = mpsc::channel(100);
            Self { arrivals: Arrivals::new(Arc::default()), sender, receiver }
        }

        fn write(&self, author: &str) -> LeasingCall {
            self.arrivals.begin_write(&UserId::parse(author).expect("an id"), LEASE)
        }

        fn claim(&self) -> LeasingCall {
            self.arrivals.begin_claim(LEASE)
        }

        fn arrival(&self, id: i64, author: &str) -> Arrival {
            let work = Work::Post { post: PostId::ZERO, author: UserId::parse(author).expect("an id") };
            let job = Job { id, work, cursor: String::new(), created_at: 0, generation: 1 };
            assert!(self.arrivals.held.insert(&job, RenewalTime::now()));
            let pace = JobPace::new(None, Arc::default());
            Arrival::new(self.sender.clone(), QueuedJob { job, slot: None, pace })
        }

        /// The jobs that came into the lane since the last call; negative if they are in doubt.
        fn taken(&mut self) -> Vec<i64> {
            let mut taken = Vec::new();
            while let Ok(QueuedJob { job, .. }) = self.receiver.try_recv() {
                taken.push(if self.is_in_doubt(job.id) { -job.id } else { job.id });
            }
            taken
        }

        fn is_in_doubt(&self, id: i64) -> bool {
            self.arrivals.held.age(id, 1) == Some(Duration::MAX)
        }

        fn is_idle(&self) -> bool {
            self.arrivals.state.lock().authors.is_empty()
        }
    }

    #[test]
    fn jobs_of_an_author_are_ordered_though_their_writes_overlap() {
        let mut lane = Lane::new();
        let (first, second, other) = (lane.write("ann"), lane.write("ann"), lane.write("bo"));
        second.end([lane.arrival(2, "ann")]);
        other.end([lane.arrival(3, "bo")]);
        assert_eq!(lane.taken(), [3], "another author's job need not wait");
        // It began after the arrival of 2, so its job is a later one.
        let third = lane.write("ann");
        first.end([lane.arrival(1, "ann")]);
        assert_eq!(lane.taken(), [1, 2]);
        third.end([lane.arrival(4, "ann")]);
        assert_eq!(lane.taken(), [4]);
        assert!(lane.is_idle());
    }

    #[test]
    fn a_job_does_not_wait_for_writes_of_later_jobs() {
        let mut lane = Lane::new();
        let (first, second) = (lane.write("ann"), lane.write("ann"));
        second.end([lane.arrival(2, "ann")]);
        // When 1 arrives, this write is under way; but 2 had arrived before it began.
        let third = lane.write("ann");
        first.end([lane.arrival(1, "ann")]);
        assert_eq!(lane.taken(), [1, 2]);
        third.end([]);
        assert!(lane.is_idle());
    }

    #[test]
    fn jobs_that_arrive_during_a_claim_come_after_the_claimed_ones() {
        let mut lane = Lane::new();
        let (earlier, claim) = (lane.write("ann"), lane.claim());
        lane.write("bo").end([lane.arrival(5, "bo")]);
        lane.write("cy").end([lane.arrival(6, "cy")]);
        assert_eq!(lane.taken(), [0; 0]);
        claim.end([lane.arrival(2, "ann"), lane.arrival(4, "bo")]);
        let mut taken = lane.taken();
        taken.sort_unstable_by_key(|id| (*id == 6, *id));
        assert_eq!(taken, [4, 5, 6], "an earlier write of ann's is under way");
        earlier.end([lane.arrival(1, "ann")]);
        assert_eq!(lane.taken(), [1, 2]);
        assert!(lane.is_idle());
    }

    #[test]
    fn claimed_jobs_that_come_to_a_lane_late_put_later_ones_in_doubt() {
        let mut lane = Lane::new();
        lane.write("ann").end([lane.arrival(5, "ann")]);
        let (earlier, claim) = (lane.write("ann"), lane.claim());
        lane.write("ann").end([lane.arrival(6, "ann")]);
        claim.end([lane.arrival(2, "ann")]);
        assert_eq!(lane.taken(), [-5]);
        earlier.end([]);
        assert_eq!(lane.taken(), [2, 6], "2 is before 6 now");
    }

    #[test]
    fn jobs_are_in_doubt_after_a_call_with_an_unknown_outcome() {
        let mut lane = Lane::new();
        // The reply was lost, or the call was dropped.
        let dropped = lane.write("ann");
        lane.write("ann").end([lane.arrival(2, "ann")]);
        assert_eq!(lane.taken(), [0; 0]);
        drop(dropped);
        assert_eq!(lane.taken(), [-2]);
        lane.write("ann").end([lane.arrival(3, "ann")]);
        lane.write("bo").end([lane.arrival(4, "bo")]);
        assert_eq!(lane.taken(), [-3, 4]);
        lane.arrivals.forget_past();
        assert!(!lane.is_idle());
        let ann = UserId::parse("ann").expect("an id");
        lane.arrivals.state.lock().authors.get_mut(&ann).expect("writes").unknown_until = Some(Instant::now());
        lane.arrivals.forget_past();
        assert!(lane.is_idle());
        lane.write("ann").end([lane.arrival(5, "ann")]);
        assert_eq!(lane.taken(), [5]);
        drop(lane.claim());
        assert!(lane.is_in_doubt(5), "an earlier job may have been claimed, and is in no lane");
        lane.claim().end([]);
        lane.write("bo").end([lane.arrival(6, "bo")]);
        assert_eq!(lane.taken(), [-6], "a later claim does not tell what became of the former one");
    }
}

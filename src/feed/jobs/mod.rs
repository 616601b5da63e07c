//! Jobs: commands submit them, and the workers of `fanout/` run them.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the queue: lanes in which jobs wait for a worker |
//! | `leases.rs` | the leases of these jobs, and whether they can be trusted |
//! | `arrivals.rs` | the order in which jobs reach their lanes |
//! | `reply_gate.rs` | back-pressure: replies wait while much fan-out is under way |
//! | `delivery_backlog.rs` | what the hub of this node has still to deliver |
//! | `write_under_way.rs` | a write that the gate counts |
//!
//! A process holds few jobs at a time, so that each one starts soon. All other jobs wait in the ledger for a node with
//! a free worker. If there is a free slot, the transaction that creates a job also leases it. A node that is not busy
//! therefore makes no further call before the job is done.

mod arrivals;
mod delivery_backlog;
mod leases;
mod reply_gate;
mod write_under_way;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

use arrivals::{Arrival, Arrivals};
pub(crate) use arrivals::{LeasingCall, QueuedJob};
pub(crate) use delivery_backlog::DeliveryBacklog;
use leases::HeldLeases;
pub(crate) use leases::{LostLease, RenewalTime};
use reply_gate::ReplyGate;
pub(crate) use reply_gate::{JobPace, Submitted, UnderWay};

use super::options::FanoutOptions;
use super::runtime::Runtime;
use crate::ledger::{Job, Lease, MAX_JOBS_OF_AUTHOR};
use crate::model::UserId;

/// The number of jobs held for each worker, including running jobs.
const SLOTS_PER_WORKER: usize = 16;

/// The minimal number of jobs that a process holds.
const MIN_SLOTS: usize = 64;

/// The maximal number of jobs that one write creates: those of an edit.
const MAX_JOBS_PER_WRITE: usize = 3;

/// The job queues of this process: one for each worker. All jobs of an author go to the same queue, so that an author's
/// posts arrive in the order in which they were written.
pub(crate) struct JobQueue {
    /// How long a job stays leased without a renewal.
    lease: Duration,
    /// The name of this process in leases.
    holder: Arc<str>,
    lanes: Vec<LaneSender>,
    /// The receiving ends; the workers take them when they start.
    receivers: Mutex<Vec<mpsc::Receiver<QueuedJob>>>,
    /// The jobs in lanes and running, by id.
    held: Arc<HeldLeases>,
    arrivals: Arc<Arrivals>,
    slots: Arc<Semaphore>,
    half_of_slots: usize,
    /// Whether more jobs wait in the ledger than this process could take. New jobs queue behind them.
    backlogged: AtomicBool,
    /// Signals that jobs may wait in the ledger.
    waiting: Notify,
    hasher: RandomState,
    gate: Arc<ReplyGate>,
    deliveries: Arc<DeliveryBacklog>,
}

/// The sending end of a lane.
struct LaneSender {
    jobs: mpsc::Sender<QueuedJob>,
    /// Whether a job that takes long is running in it.
    is_slow: Arc<AtomicBool>,
}

/// A slot for the jobs that a write is about to create.
pub(crate) struct Reservation {
    lease: Lease,
    /// A time before the call of the ledger that creates the jobs.
    begun: RenewalTime,
    slot: Option<OwnedSemaphorePermit>,
    /// The write, if there is a slot.
    call: Option<LeasingCall>,
}

impl Reservation {
    /// The lease for the jobs to be created. Its length is zero if this process has no room for them.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The write created no jobs.
    pub(crate) fn release(self) {
        self.call.into_iter().for_each(|call| call.end([]));
    }
}

impl JobQueue {
    pub(crate) fn new(options: FanoutOptions, runtime: &Runtime) -> Self {
        let slots = (options.workers * SLOTS_PER_WORKER).max(MIN_SLOTS);
        let lane = |_| {
            let (jobs, receiver) = mpsc::channel(slots * (MAX_JOBS_PER_WRITE + 1));
            (LaneSender { jobs, is_slow: Arc::default() }, receiver)
        };
        let (deliveries, held): (Arc<DeliveryBacklog>, Arc<HeldLeases>) = Default::default();
        let (lanes, receivers) = (0..options.workers.max(1)).map(lane).unzip();
        Self {
            lease: options.lease,
            holder: Arc::clone(runtime.holder()),
            lanes,
            receivers: Mutex::new(receivers),
            arrivals: Arrivals::new(Arc::clone(&held)),
            held,
            slots: Arc::new(Semaphore::new(slots)),
            half_of_slots: slots / 2,
            backlogged: AtomicBool::new(false),
            waiting: Notify::new(),
            hasher: RandomState::default(),
            gate: ReplyGate::new(runtime.stopping().clone(), Arc::clone(&deliveries)),
            deliveries,
        }
    }

    /// Where the hub counts its deliveries.
    pub(crate) fn deliveries(&self) -> &Arc<DeliveryBacklog> {
        &self.deliveries
    }

    /// How long a job stays leased without a renewal.
    pub(crate) fn lease_length(&self) -> Duration {
        self.lease
    }

    /// The leases of the jobs in lanes and running.
    pub(crate) fn held(&self) -> &HeldLeases {
        &self.held
    }

    /// Whether the lease of a job may still be in force. Checked before each write, without a store call.
    pub(crate) fn may_write(&self, job: i64, generation: u64) -> bool {
        self.held.may_write(job, generation, self.lease)
    }

    /// The lanes; the workers take them when they start.
    pub(crate) fn take_lanes(&self) -> Vec<mpsc::Receiver<QueuedJob>> {
        self.receivers.lock().drain(..).collect()
    }

    /// Waits until jobs may wait in the ledger.
    pub(crate) async fn claims_woken(&self) {
        self.waiting.notified().await;
    }

    /// Forgets calls with an unknown outcome whose leases have expired.
    pub(crate) fn forget_past_calls(&self) {
        self.arrivals.forget_past();
    }

    /// A lease of this process, for a job that completes before its call returns, or that has a slot.
    pub(crate) fn lease(&self) -> Lease {
        Lease { holder: Arc::clone(&self.holder), length: self.lease }
    }

    /// Reserves a slot for the jobs of one write of an author. There is no slot if enough jobs of the author are held.
    /// While jobs wait in the ledger, new jobs may use only half of the slots.
    pub(crate) fn reserve(&self, author: &UserId) -> Reservation {
        let is_free = self.has_room() && self.held.count_of(author) < MAX_JOBS_OF_AUTHOR;
        let slot = if is_free { Arc::clone(&self.slots).try_acquire_owned().ok() } else { None };
        let length = if slot.is_some() { self.lease } else { Duration::ZERO };
        let call = slot.is_some().then(|| self.arrivals.begin_write(author, length));
        Reservation { lease: Lease { length, ..self.lease() }, begun: RenewalTime::now(), slot, call }
    }

    /// Whether new jobs may have a slot.
    fn has_room(&self) -> bool {
        !self.backlogged.load(Ordering::Relaxed) || self.slots.available_permits() > self.half_of_slots
    }

    /// More jobs of an author wait in the ledger. Requests a claim once few of the author's jobs are left here, so that
    /// a claim gets several at a time.
    pub(crate) fn more_wait(&self, author: &UserId) {
        if self.held.count_of(author) <= MAX_JOBS_OF_AUTHOR / 2 {
            self.waiting.notify_one();
        }
    }

    /// Begins a claim, one at a time. It ends with [`claimed`](Self::claimed).
    pub(crate) fn begin_claim(&self) -> LeasingCall {
        self.arrivals.begin_claim(self.lease)
    }

    /// Queues jobs that were just created with a reservation. Jobs without a lease wait in the ledger. The reply to the
    /// write should wait until [`Submitted::may_answer`].
    pub(crate) fn offer(&self, jobs: impl IntoIterator<Item = Job>, reservation: Reservation) -> Submitted {
        let Reservation { begun, mut slot, call, .. } = reservation;
        let (under_way, mut arrivals, mut is_slow) = (self.gate.begin(), Vec::new(), false);
        for job in jobs {
            if job.is_held() {
                is_slow |= self.lane_of(&job).is_slow.load(Ordering::Relaxed);
                arrivals.extend(self.arrival(job, slot.take(), begun, Some(Arc::clone(&under_way))));
            } else {
                self.more_wait(job.work.author());
            }
        }
        let is_held = !arrivals.is_empty();
        call.into_iter().for_each(|call| call.end(std::mem::take(&mut arrivals)));
        if is_slow { Submitted::UNPACED } else { self.gate.submitted(is_held.then_some(&*under_way)) }
    }

    /// Queues a job that could not be completed at once. If there is no slot, it waits in the ledger until its lease
    /// expires.
    pub(crate) fn offer_again(&self, job: Job) {
        match Arc::clone(&self.slots).try_acquire_owned() {
            // These jobs concern one inbox, so the start of their leases does not matter.
            Ok(slot) => {
                let arrival = self.arrival(job, Some(slot), RenewalTime::now(), None);
                arrival.into_iter().for_each(|arrival| arrival.proceed(&self.held, false));
            }
            Err(_) => tracing::debug!(job = job.id, "no free slot, the job waits until its lease runs out"),
        }
    }

    /// The lane of a job. Any lane works, as long as an author always gets the same one.
    fn lane_of(&self, job: &Job) -> &LaneSender {
        &self.lanes[self.hasher.hash_one(job.work.author()) as usize % self.lanes.len()]
    }

    /// A job that has arrived. Its lease is held from now on. `None` if a newer one is held.
    fn arrival(
        &self,
        job: Job,
        slot: Option<OwnedSemaphorePermit>,
        asked: RenewalTime,
        under_way: Option<Arc<UnderWay>>,
    ) -> Option<Arrival> {
        if !self.held.insert(&job, asked) {
            tracing::info!(job = job.id, "the lease expired before the job arrived, and the job was claimed again");
            return None;
        }
        let lane = self.lane_of(&job);
        let pace = JobPace::new(under_way, Arc::clone(&lane.is_slow));
        Some(Arrival::new(lane.jobs.clone(), QueuedJob { job, slot, pace }))
    }

    /// Slots for a claim: half of the free ones, so that new jobs find free slots during the ledger call.
    pub(crate) fn slots_for_claim(&self) -> Option<OwnedSemaphorePermit> {
        let half = u32::try_from(self.slots.available_permits().div_ceil(2)).unwrap_or(u32::MAX);
        if half == 0 { None } else { Arc::clone(&self.slots).try_acquire_many_owned(half).ok() }
    }

    /// Queues the jobs of a claim. `slots` are the slots taken for it, `asked` is the time at which it began.
    pub(crate) fn claimed(
        &self,
        claim: LeasingCall,
        jobs: Vec<Job>,
        mut slots: OwnedSemaphorePermit,
        asked: RenewalTime,
    ) {
        self.backlogged.store(jobs.len() >= slots.num_permits(), Ordering::Relaxed);
        claim.end(jobs.into_iter().filter_map(|job| self.arrival(job, slots.split(1), asked, None)));
    }

    /// Ends a claim that wrote nothing.
    pub(crate) fn nothing_claimed(&self, claim: LeasingCall) {
        claim.end([]);
    }

    /// Frees the slot of a job that a worker has finished. Requests a claim if half of the slots are free and jobs
    /// wait.
    pub(crate) fn release(&self, job: &Job, slot: Option<OwnedSemaphorePermit>) {
        drop(slot);
        self.held.remove(job.id, job.generation);
        if self.backlogged.load(Ordering::Relaxed) && self.slots.available_permits() >= self.half_of_slots {
            self.waiting.notify_one();
        }
    }
}

//! Jobs: commands submit them, and the workers of `fanout/` run them.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod.rs` | the queue: lanes in which jobs wait for a worker |
//! | `leases.rs` | the leases of these jobs, and how far they can be trusted |
//! | `creations.rs` | writes under way that create jobs |
//!
//! A process holds few jobs at a time, so that each is under way soon; all others wait in the ledger, for a node with a
//! free worker. A job is held from the transaction that creates it if there is a free slot; so on a node that is not
//! busy no further call is made before the job is done.

mod creations;
mod leases;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedRwLockReadGuard, OwnedSemaphorePermit, RwLock, RwLockWriteGuard, Semaphore, mpsc};

use creations::{Creation, Creations};
use leases::HeldLeases;
pub(crate) use leases::{LostLease, RenewalTime};

use super::options::FanoutOptions;
use super::runtime::Runtime;
use crate::ledger::{Job, Lease, MAX_JOBS_OF_AUTHOR};
use crate::model::UserId;

/// Jobs held for each worker, those under way included.
const SLOTS_PER_WORKER: usize = 64;

/// A write creates at most so many jobs: those of an edit.
const MAX_JOBS_PER_WRITE: usize = 3;

/// The job queues of this process: one for each worker, and all jobs of an author in the same one, so that an author's
/// posts arrive in the order in which they were written.
pub(crate) struct JobQueue {
    /// How long a job is held without a sign of life.
    lease: Duration,
    /// Names this process in leases.
    holder: Arc<str>,
    lanes: Vec<mpsc::Sender<QueuedJob>>,
    /// The other ends; the workers take them when they start.
    receivers: Mutex<Vec<mpsc::Receiver<QueuedJob>>>,
    /// The jobs in lanes and under way, by id.
    held: HeldLeases,
    creations: Arc<Creations>,
    slots: Arc<Semaphore>,
    /// Whether more jobs wait in the ledger than this process could take. New jobs queue up behind them.
    backlogged: AtomicBool,
    /// Held by claims for writing, by writes that create jobs with a lease for reading, until the jobs are in their
    /// lanes: or a new job could come before an earlier one of its author that was just claimed.
    claiming: Arc<RwLock<()>>,
    /// Jobs may wait in the ledger.
    waiting: Notify,
    hasher: RandomState,
}

/// A job in a lane.
pub(crate) struct QueuedJob {
    pub(crate) job: Job,
    /// Freed when the job is done, or lost.
    pub(crate) slot: Option<OwnedSemaphorePermit>,
}

/// A slot for the jobs that a write is about to create.
pub(crate) struct Reservation {
    lease: Lease,
    /// Before the ledger is asked to create the jobs.
    begun: RenewalTime,
    slot: Option<OwnedSemaphorePermit>,
    creation: Option<Creation>,
    /// No claim ends before the jobs are in their lanes.
    _no_claim: Option<OwnedRwLockReadGuard<()>>,
}

impl Reservation {
    /// The lease with which the jobs are to be created. Its length is zero if this process has no room for them.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }
}

impl JobQueue {
    pub(crate) fn new(options: FanoutOptions, runtime: &Runtime) -> Self {
        let slots = options.workers.max(1) * SLOTS_PER_WORKER;
        let lane = |_| mpsc::channel(slots * (MAX_JOBS_PER_WRITE + 1));
        let (lanes, receivers) = (0..options.workers.max(1)).map(lane).unzip();
        Self {
            lease: options.lease,
            holder: Arc::clone(runtime.holder()),
            lanes,
            receivers: Mutex::new(receivers),
            held: HeldLeases::default(),
            creations: Arc::default(),
            slots: Arc::new(Semaphore::new(slots)),
            backlogged: AtomicBool::new(false),
            claiming: Arc::default(),
            waiting: Notify::new(),
            hasher: RandomState::default(),
        }
    }

    /// How long a job is held without a sign of life.
    pub(crate) fn lease_length(&self) -> Duration {
        self.lease
    }

    /// The leases of the jobs in lanes and under way.
    pub(crate) fn held(&self) -> &HeldLeases {
        &self.held
    }

    /// Whether the lease of a job may still be in force. Checked before each write; it asks no store.
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

    /// Drops abandoned creations whose leases have run out.
    pub(crate) fn expire_creations(&self) {
        self.creations.forget_past();
    }

    /// A lease of this process, for a job that is done before its call returns, or that has a slot.
    pub(crate) fn lease(&self) -> Lease {
        Lease { holder: Arc::clone(&self.holder), length: self.lease }
    }

    /// Reserves a slot for the jobs of one write of an author's. There is none while jobs are being claimed, and for an
    /// author of whom enough are held. While jobs wait in the ledger, new ones leave them half of the slots.
    pub(crate) fn reserve(&self, author: &UserId) -> Reservation {
        let no_claim = Arc::clone(&self.claiming).try_read_owned().ok();
        let is_free = no_claim.is_some() && self.has_room() && self.held.count_of(author) < MAX_JOBS_OF_AUTHOR;
        let slot = if is_free { Arc::clone(&self.slots).try_acquire_owned().ok() } else { None };
        let length = if slot.is_some() { self.lease } else { Duration::ZERO };
        let _no_claim = no_claim.filter(|_| slot.is_some());
        let creation = slot.is_some().then(|| self.creations.begin(author, length));
        Reservation { lease: Lease { length, ..self.lease() }, begun: RenewalTime::now(), slot, creation, _no_claim }
    }

    /// Whether new jobs may have a slot.
    fn has_room(&self) -> bool {
        !self.backlogged.load(Ordering::Relaxed) || self.slots.available_permits() > self.half_of_slots()
    }

    fn half_of_slots(&self) -> usize {
        self.lanes.len() * SLOTS_PER_WORKER / 2
    }

    /// More jobs of an author wait in the ledger: asks for them once few of theirs are left here, and so several at a
    /// time.
    pub(crate) fn more_wait(&self, author: &UserId) {
        if self.held.count_of(author) <= MAX_JOBS_OF_AUTHOR / 2 {
            self.waiting.notify_one();
        }
    }

    /// To be held during a claim until its jobs are in their lanes.
    pub(crate) async fn claim_lock(&self) -> RwLockWriteGuard<'_, ()> {
        self.claiming.write().await
    }

    /// Queues the jobs that were just created with a reservation. Those that are not held wait in the ledger.
    pub(crate) fn offer(&self, jobs: impl IntoIterator<Item = Job>, reservation: Reservation) {
        let Reservation { begun, mut slot, creation, _no_claim, .. } = reservation;
        let in_doubt = creation.as_ref().is_some_and(Creation::has_rivals);
        for job in jobs {
            if job.is_held() {
                self.queue(job, slot.take(), begun, in_doubt);
            } else {
                self.more_wait(job.work.author());
            }
        }
        creation.into_iter().for_each(Creation::end);
    }

    /// Queues a job that could not be done at once. If there is no slot it waits in the ledger until its lease runs
    /// out.
    pub(crate) fn offer_again(&self, job: Job) {
        match Arc::clone(&self.slots).try_acquire_owned() {
            // These are jobs of one inbox: when their leases began is no matter.
            Ok(slot) => self.queue(job, Some(slot), RenewalTime::now(), false),
            Err(_) => tracing::debug!(job = job.id, "no free slot, the job waits until its lease runs out"),
        }
    }

    fn queue(&self, job: Job, slot: Option<OwnedSemaphorePermit>, asked: RenewalTime, in_doubt: bool) {
        // Any number does, as long as it is the author's.
        let lane = self.hasher.hash_one(job.work.author()) as usize % self.lanes.len();
        let (id, generation) = (job.id, job.generation);
        self.held.insert(&job, asked, in_doubt);
        if self.lanes[lane].try_send(QueuedJob { job, slot }).is_err() {
            self.held.remove(id, generation);
            tracing::warn!(job = id, "a lane is full, the job waits until its lease runs out");
        }
    }

    /// Slots for a claim: half of the free ones, so that new jobs find some while the ledger is asked.
    pub(crate) fn slots_for_claim(&self) -> Option<OwnedSemaphorePermit> {
        let half = u32::try_from(self.slots.available_permits().div_ceil(2)).unwrap_or(u32::MAX);
        if half == 0 { None } else { Arc::clone(&self.slots).try_acquire_many_owned(half).ok() }
    }

    /// Queues the jobs of a claim for which these slots were taken, and which began then.
    pub(crate) fn claimed(&self, jobs: Vec<Job>, mut slots: OwnedSemaphorePermit, asked: RenewalTime) {
        self.backlogged.store(jobs.len() >= slots.num_permits(), Ordering::Relaxed);
        self.held.doubt_later_than(&jobs);
        for job in jobs {
            self.queue(job, slots.split(1), asked, false);
        }
    }

    /// A worker is done with a job: asks for more if half of the slots are free and jobs wait.
    pub(crate) fn release(&self, job: &Job, slot: Option<OwnedSemaphorePermit>) {
        drop(slot);
        self.held.remove(job.id, job.generation);
        if self.backlogged.load(Ordering::Relaxed) && self.slots.available_permits() >= self.half_of_slots() {
            self.waiting.notify_one();
        }
    }
}

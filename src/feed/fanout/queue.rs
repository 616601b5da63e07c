//! The jobs that this process holds: the lanes in which they wait for a worker, and their leases.
//!
//! A process holds few jobs at a time, so that each is under way soon; all others wait in the ledger, for whichever node has
//! a free worker. A job is held from the transaction that creates it if there is a free slot; so on a node that is not busy
//! no further call is made before the job is done.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedRwLockReadGuard, OwnedSemaphorePermit, RwLock, RwLockWriteGuard, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::FanoutOptions;
use super::creations::{Creation, Creations};
use super::leases::{HeldLeases, Moment};
use crate::feed::runtime::Runtime;
use crate::ledger::{Job, Lease, MAX_JOBS_OF_AUTHOR};
use crate::model::UserId;

/// Jobs held for each worker, those under way included.
const SLOTS_PER_WORKER: usize = 64;

/// A write creates at most so many jobs: those of an edit.
const MAX_JOBS_PER_WRITE: usize = 3;

/// The job queues of this process: one a worker, and all jobs of an author in the same one, so that an author's posts
/// arrive in the order in which they were written.
pub(in crate::feed) struct Fanout {
    pub(super) options: FanoutOptions,
    /// Names this process in leases.
    holder: Arc<str>,
    lanes: Vec<mpsc::Sender<QueuedJob>>,
    /// The other ends; the workers take them when they start.
    pub(super) receivers: Mutex<Vec<mpsc::Receiver<QueuedJob>>>,
    /// The jobs in lanes and under way, by id.
    pub(super) held: Arc<HeldLeases>,
    pub(super) creations: Arc<Creations>,
    slots: Arc<Semaphore>,
    /// Whether more jobs wait in the ledger than this process could take. New jobs queue up behind them.
    backlogged: AtomicBool,
    /// Held by claims for writing, by writes that create jobs with a lease for reading, until the jobs are in their lanes: or
    /// a new job could come before an earlier one of its author that was just claimed.
    claiming: Arc<RwLock<()>>,
    /// Jobs may wait in the ledger.
    pub(super) waiting: Notify,
    /// How many rounds of renewals in a row found the broker away.
    pub(super) rounds_without_broker: AtomicU32,
    hasher: RandomState,
    pub(super) tasks: TaskTracker,
    pub(super) stopping: CancellationToken,
}

/// A job in a lane.
pub(super) struct QueuedJob {
    pub(super) job: Job,
    /// Freed when the job is done, or lost.
    pub(super) slot: Option<OwnedSemaphorePermit>,
}

/// A place for the jobs that a write is about to create.
pub(in crate::feed) struct Reservation {
    lease: Lease,
    /// Before the ledger is asked to create the jobs.
    begun: Moment,
    slot: Option<OwnedSemaphorePermit>,
    creation: Option<Creation>,
    /// No claim ends before the jobs are in their lanes.
    _no_claim: Option<OwnedRwLockReadGuard<()>>,
}

impl Reservation {
    /// The lease with which the jobs are to be created. Its length is zero if this process has no room for them.
    pub(in crate::feed) fn lease(&self) -> &Lease {
        &self.lease
    }
}

impl Fanout {
    pub(in crate::feed) fn new(options: FanoutOptions, runtime: &Runtime) -> Self {
        let slots = options.workers.max(1) * SLOTS_PER_WORKER;
        let lane = |_| mpsc::channel(slots * (MAX_JOBS_PER_WRITE + 1));
        let (lanes, receivers) = (0..options.workers.max(1)).map(lane).unzip();
        Self {
            options,
            holder: Arc::clone(runtime.holder()),
            lanes,
            receivers: Mutex::new(receivers),
            held: Arc::default(),
            creations: Arc::default(),
            slots: Arc::new(Semaphore::new(slots)),
            backlogged: AtomicBool::new(false),
            claiming: Arc::default(),
            waiting: Notify::new(),
            rounds_without_broker: AtomicU32::new(0),
            hasher: RandomState::default(),
            tasks: runtime.tasks().clone(),
            stopping: runtime.stopping().clone(),
        }
    }

    pub(in crate::feed) fn holder(&self) -> &str {
        &self.holder
    }

    pub(in crate::feed) fn page(&self) -> usize {
        self.options.page
    }

    /// How long a job is held without a sign of life.
    pub(in crate::feed) fn patience(&self) -> Duration {
        self.options.lease
    }

    pub(in crate::feed) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// A lease of this process, for a job that is done before its call returns, or that has a slot.
    pub(in crate::feed) fn lease(&self) -> Lease {
        Lease { holder: Arc::clone(&self.holder), length: self.options.lease }
    }

    /// Reserves a slot for the jobs of one write of an author's. There is none while jobs are being claimed, and for an author
    /// of whom enough are held. While jobs wait in the ledger, new ones leave them half of the slots.
    pub(in crate::feed) fn reserve(&self, author: &UserId) -> Reservation {
        let no_claim = Arc::clone(&self.claiming).try_read_owned().ok();
        let is_free = no_claim.is_some() && self.has_room() && self.held.count_of(author) < MAX_JOBS_OF_AUTHOR;
        let slot = if is_free { Arc::clone(&self.slots).try_acquire_owned().ok() } else { None };
        let length = if slot.is_some() { self.options.lease } else { Duration::ZERO };
        let _no_claim = no_claim.filter(|_| slot.is_some());
        let creation = slot.is_some().then(|| self.creations.begin(author, length));
        Reservation { lease: Lease { length, ..self.lease() }, begun: Moment::now(), slot, creation, _no_claim }
    }

    /// Whether new jobs may have a slot.
    fn has_room(&self) -> bool {
        !self.backlogged.load(Ordering::Relaxed) || self.slots.available_permits() > self.half_of_slots()
    }

    fn half_of_slots(&self) -> usize {
        self.lanes.len() * SLOTS_PER_WORKER / 2
    }

    /// More jobs of an author wait in the ledger: asks for them once few of theirs are left here, and so several at a time.
    pub(super) fn more_wait(&self, author: &UserId) {
        if self.held.count_of(author) <= MAX_JOBS_OF_AUTHOR / 2 {
            self.waiting.notify_one();
        }
    }

    /// To be held during a claim until its jobs are in their lanes.
    pub(super) async fn claim_lock(&self) -> RwLockWriteGuard<'_, ()> {
        self.claiming.write().await
    }

    /// Queues the jobs that were just created with a reservation. Those that are not held wait in the ledger.
    pub(in crate::feed) fn offer(&self, jobs: impl IntoIterator<Item = Job>, reservation: Reservation) {
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

    /// Queues a job that could not be done at once. If there is no slot it waits in the ledger until its lease runs out.
    pub(in crate::feed) fn offer_again(&self, job: Job) {
        match Arc::clone(&self.slots).try_acquire_owned() {
            // These are jobs of one inbox: when their leases began is no matter.
            Ok(slot) => self.queue(job, Some(slot), Moment::now(), false),
            Err(_) => tracing::debug!(job = job.id, "no free slot, the job waits until its lease runs out"),
        }
    }

    fn queue(&self, job: Job, slot: Option<OwnedSemaphorePermit>, asked: Moment, in_doubt: bool) {
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
    pub(super) fn slots_for_claim(&self) -> Option<OwnedSemaphorePermit> {
        let half = u32::try_from(self.slots.available_permits().div_ceil(2)).unwrap_or(u32::MAX);
        if half == 0 { None } else { Arc::clone(&self.slots).try_acquire_many_owned(half).ok() }
    }

    /// Queues the jobs of a claim for which these slots were taken, and which began then.
    pub(super) fn claimed(&self, jobs: Vec<Job>, mut slots: OwnedSemaphorePermit, asked: Moment) {
        self.backlogged.store(jobs.len() >= slots.num_permits(), Ordering::Relaxed);
        self.held.doubt_later_than(&jobs);
        for job in jobs {
            self.queue(job, slots.split(1), asked, false);
        }
    }

    /// A worker is done with a job: asks for more if half of the slots are free and jobs wait.
    pub(super) fn release(&self, job: &Job, slot: Option<OwnedSemaphorePermit>) {
        drop(slot);
        self.held.remove(job.id, job.generation);
        if self.backlogged.load(Ordering::Relaxed) && self.slots.available_permits() >= self.half_of_slots() {
            self.waiting.notify_one();
        }
    }

    /// Sleeps; `false` if it is time to stop.
    pub(in crate::feed) async fn sleep(&self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => true,
            () = self.stopping.cancelled() => false,
        }
    }

    /// Until it is time to stop.
    pub(in crate::feed) async fn stopped(&self) {
        self.stopping.cancelled().await;
    }
}

//! Fan-out jobs in this process: commands hand them over, the workers of `fanout/` run them.
//!
//! A write on the node that owns the partition hands its job over in memory, with no further call to the ledger.
//! Otherwise one signal wakes the owner, which loads the job. A node that misses the signal finds it when it polls.
//!
//! A bound on the jobs in flight holds back writers that are faster than the fan-out: a write takes one of
//! [`MAX_IN_FLIGHT`] slots before it begins, and its job frees it. After [`MAX_WAIT`] it goes on without one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use super::author_queues::{AuthorQueues, HandOver, JobEnd, QueuedJob, Slot};
use super::{Owner, Partition};
use crate::broker::{Broker, Signal};
use crate::feed::runtime::Runtime;
use crate::ledger::{FANOUT_PARTITIONS, Fence, Job, JobId, JobRequest, LoadedJob, NewJob, fanout_partition};
use crate::model::UserId;

/// The number of writes whose jobs are in flight. With 32 writers on the embedded stores, 12 instead of 32 gave a third
/// fewer posts a second, and a 99th percentile of deliveries of 61 instead of 86 ms.
const MAX_IN_FLIGHT: usize = 32;

/// The longest time for which a write waits for a slot: longer than some hundred writers need in turn, and far below
/// the timeouts of clients.
const MAX_WAIT: Duration = Duration::from_millis(400);

/// The number of jobs in memory, at some hundred bytes each; further ones wait in the ledger.
const MAX_JOBS: usize = 4_096;

/// New jobs of a partition in one load.
const LOADED_AT_ONCE: usize = 64;

/// The kind of work in the names of partitions.
const KIND: &str = "fanout";

/// The fan-out jobs of this process.
pub(crate) struct JobQueue {
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    partitions: Vec<Arc<Partition>>,
    state: Mutex<State>,
    in_flight: Arc<Semaphore>,
    /// Signals that an author is ready.
    ready: Notify,
    /// Signals that a partition is to be loaded.
    load: Notify,
    /// Signals that no job of some partition is running.
    idle: Notify,
}

#[derive(Default)]
struct State {
    partitions: Vec<AuthorQueues>,
    /// Authors with a job to run, each once, the longest waiting first.
    ready: VecDeque<(u16, UserId)>,
    /// The greatest number of a job that was seen, for the floors of partitions.
    greatest: JobId,
}

/// The begin of a write that may create jobs.
pub(crate) struct WriteTicket {
    /// The ownership of the author's partition before the write.
    fence: Option<Fence>,
    slot: Option<Slot>,
}

impl JobQueue {
    /// An empty queue. This process runs the jobs of the partitions that `owner` gets.
    pub(crate) fn new(broker: Arc<dyn Broker>, runtime: Arc<Runtime>, owner: &Owner) -> Self {
        let partition = |number| owner.partition(KIND, format!("{KIND}/{number}"));
        let partitions = (0..FANOUT_PARTITIONS).map(|_| AuthorQueues::default()).collect();
        Self {
            broker,
            runtime,
            partitions: (0..FANOUT_PARTITIONS).map(partition).collect(),
            state: Mutex::new(State { partitions, ..State::default() }),
            in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            ready: Notify::new(),
            load: Notify::new(),
            idle: Notify::new(),
        }
    }

    /// Begins a write that may create jobs of an author: waits while many are in flight.
    pub(crate) async fn begin_write(&self, author: &UserId) -> WriteTicket {
        let slot = tokio::time::timeout(MAX_WAIT, Arc::clone(&self.in_flight).acquire_owned()).await;
        WriteTicket { slot: slot.ok().and_then(Result::ok), ..self.ticket(author) }
    }

    /// The same, without waiting.
    pub(crate) fn ticket(&self, author: &UserId) -> WriteTicket {
        WriteTicket { fence: self.partition(fanout_partition(author)).fence(), slot: None }
    }

    /// Submits the jobs that a write has created, in order.
    pub(crate) fn submit(&self, jobs: impl IntoIterator<Item = NewJob>, ticket: WriteTicket) {
        let WriteTicket { fence, mut slot } = ticket;
        for new in jobs {
            let partition = new.job.partition();
            let author = new.job.work.author().clone();
            let handed_over = {
                let mut state = self.state.lock();
                state.greatest = state.greatest.max(new.job.id);
                let has_room = state.len() < MAX_JOBS;
                let fence = fence.as_ref().filter(|_| has_room);
                let queues = &mut state.partitions[usize::from(partition)];
                let handed_over = fence.map_or(HandOver::Load, |fence| queues.hand_over(new, fence, slot.take()));
                if handed_over == (HandOver::Added { is_first: true }) {
                    self.schedule(&mut state, partition, author);
                }
                handed_over
            };
            if handed_over == HandOver::Load {
                self.wake_owner(partition);
            }
        }
    }

    /// Wakes the owner of a partition whose jobs wait in the ledger.
    pub(crate) fn wake_owner(&self, partition: u16) {
        // A partition that is being given away is still owned, but its jobs are not loaded here any more.
        if self.on_signal(partition) {
            return;
        }
        let broker = Arc::clone(&self.broker);
        self.runtime.spawn(async move {
            if let Err(error) = broker.signal(Signal::JobsWaiting(partition)).await {
                tracing::debug!(%error, partition, "jobs were not signalled, their owner polls");
            }
        });
    }

    /// Jobs of a partition wait in the ledger. Returns whether this process loads them.
    pub(crate) fn on_signal(&self, partition: u16) -> bool {
        let mut state = self.state.lock();
        let queues = state.partitions.get_mut(usize::from(partition)).filter(|queues| queues.fence().is_some());
        if let Some(queues) = queues {
            queues.signal();
            self.load.notify_one();
            return true;
        }
        false
    }

    fn schedule(&self, state: &mut State, partition: u16, author: UserId) {
        state.ready.push_back((partition, author));
        self.ready.notify_one();
    }

    /// The greatest number of a job that was seen here.
    pub(crate) fn greatest_number(&self) -> JobId {
        self.state.lock().greatest
    }

    /// A partition of fan-out.
    pub(crate) fn partition(&self, number: u16) -> &Arc<Partition> {
        &self.partitions[usize::from(number)]
    }

    /// The partitions that this process owns.
    pub(crate) fn owned(&self) -> Vec<(u16, Fence)> {
        let state = self.state.lock();
        let owned = (0..FANOUT_PARTITIONS).zip(&state.partitions);
        owned.filter_map(|(partition, queues)| Some((partition, queues.fence()?.clone()))).collect()
    }

    /// Whether the jobs of a partition are queued here, under this ownership. It stays so while the lease may have run
    /// out, until the ownership has ended.
    pub(crate) fn owns(&self, partition: u16, fence: &Fence) -> bool {
        self.state.lock().partitions[usize::from(partition)].fence() == Some(fence)
    }

    /// Begins an ownership: the jobs of the partition are loaded.
    pub(crate) fn begin(&self, partition: u16, fence: &Fence) {
        self.reset(partition, Some(fence.clone()));
        self.on_signal(partition);
    }

    /// Ends an ownership, and waits until no job of the partition is running.
    pub(crate) async fn end(&self, partition: u16) {
        self.reset(partition, None);
        loop {
            let idle = self.idle.notified();
            if self.state.lock().partitions[usize::from(partition)].running() == 0 {
                return;
            }
            idle.await;
        }
    }

    fn reset(&self, partition: u16, fence: Option<Fence>) {
        let mut state = self.state.lock();
        state.partitions[usize::from(partition)].reset(fence);
        state.ready.retain(|(of, _)| *of != partition);
    }

    /// Waits until a job is ready, and takes it.
    pub(crate) async fn next(&self) -> QueuedJob {
        loop {
            if let Some(job) = self.take() {
                return job;
            }
            self.ready.notified().await;
        }
    }

    fn take(&self) -> Option<QueuedJob> {
        let mut state = self.state.lock();
        while let Some((partition, author)) = state.ready.pop_front() {
            if let Some(job) = state.partitions[usize::from(partition)].next(&author) {
                if !state.ready.is_empty() {
                    self.ready.notify_one();
                }
                return Some(job);
            }
        }
        None
    }

    /// A job that [`next`](Self::next) returned does not run any more. Its author goes to the end of the ready ones.
    pub(crate) fn ended(&self, id: JobId, author: &UserId, fence: &Fence, end: JobEnd) {
        let partition = fanout_partition(author);
        let mut state = self.state.lock();
        let queues = &mut state.partitions[usize::from(partition)];
        let has_more = queues.ended(id, author, fence, end);
        if queues.running() == 0 {
            self.idle.notify_waiters();
        }
        if queues.is_wanted {
            self.load.notify_one();
        }
        if has_more {
            self.schedule(&mut state, partition, author.clone());
        }
    }

    /// The ledger has removed a job that is done, or has failed to.
    pub(crate) fn removed(&self, job: &Job) {
        self.state.lock().partitions[usize::from(job.partition())].removed(job.id);
    }

    /// Waits until a partition is to be loaded.
    pub(crate) async fn load_wanted(&self) {
        self.load.notified().await;
    }

    /// What to load: the partitions that want it, or all that this process owns; and the authors to skip. Nothing while
    /// there is no room.
    pub(crate) fn requests(&self, all: bool) -> (Vec<JobRequest>, Vec<UserId>) {
        let mut state = self.state.lock();
        let mut room = MAX_JOBS.saturating_sub(state.len());
        let mut requests = Vec::new();
        let mut skipped = Vec::new();
        // The room goes to other partitions each time.
        let first = rand::random_range(0..FANOUT_PARTITIONS);
        for partition in (first..FANOUT_PARTITIONS).chain(0..first) {
            let queues = &mut state.partitions[usize::from(partition)];
            let new = room.min(LOADED_AT_ONCE);
            if new > 0
                && (all || queues.is_wanted)
                && let Some(fence) = queues.fence().cloned()
            {
                let (limit, authors) = queues.begin_load(new);
                skipped.extend(authors.cloned());
                room -= new;
                requests.push(JobRequest { partition, fence, limit });
            }
        }
        (requests, skipped)
    }

    /// Adds the jobs of a load.
    pub(crate) fn add_loaded(&self, requests: &[JobRequest], loaded: Vec<LoadedJob>) {
        let mut by_partition: HashMap<u16, Vec<LoadedJob>> = HashMap::new();
        let mut state = self.state.lock();
        let now = Instant::now();
        for job in loaded {
            state.greatest = state.greatest.max(job.id);
            by_partition.entry(job.partition).or_default().push(job);
        }
        for JobRequest { partition, limit, .. } in requests {
            let jobs = by_partition.remove(partition).unwrap_or_default();
            let queues = &mut state.partitions[usize::from(*partition)];
            if jobs.len() >= *limit {
                // More wait behind a full load.
                queues.is_wanted = true;
                self.load.notify_one();
            }
            for author in queues.add_loaded(jobs.into_iter().filter_map(|loaded| loaded.job.ok()), now) {
                self.schedule(&mut state, *partition, author);
            }
        }
    }
}

impl State {
    /// The number of jobs in memory.
    fn len(&self) -> usize {
        self.partitions.iter().map(AuthorQueues::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{InboxOptions, MemoryBroker};
    use crate::ledger::{SqliteLedger, SqliteOptions, Work};
    use crate::model::PostId;

    async fn queue() -> (JobQueue, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Arc::new(SqliteLedger::open(SqliteOptions::new(folder.path().join("l.db"))).await.unwrap());
        let broker = Arc::new(MemoryBroker::new(InboxOptions { length: 10, idle: Duration::from_secs(60) }));
        let owner = Owner::new(ledger, broker.clone(), Runtime::new(), true, Duration::from_secs(5));
        (JobQueue::new(broker, Runtime::new(), &owner), folder)
    }

    fn fence(partition: u16) -> Fence {
        Fence { partition: format!("{KIND}/{partition}").into(), generation: 1 }
    }

    /// The job of a user without others.
    fn job(number: u64) -> Job {
        let author = UserId::parse(&format!("user{number}")).unwrap();
        Job { id: JobId(number), work: Work::Post { post: PostId::ZERO, author, trace: None }, created_at: 0 }
    }

    /// Adds jobs of all partitions.
    fn load(queue: &JobQueue, jobs: impl Iterator<Item = u64>) {
        let requests =
            (0..FANOUT_PARTITIONS).map(|partition| JobRequest { partition, fence: fence(partition), limit: MAX_JOBS });
        let loaded = jobs.map(|id| LoadedJob { id: JobId(id), partition: job(id).partition(), job: Ok(job(id)) });
        queue.add_loaded(&requests.collect::<Vec<_>>(), loaded.collect());
    }

    #[tokio::test]
    async fn the_room_of_a_nearly_full_memory_goes_to_every_partition() {
        let (queue, _folder) = queue().await;
        (0..FANOUT_PARTITIONS).for_each(|partition| queue.begin(partition, &fence(partition)));
        assert_eq!(queue.requests(false).0.len(), usize::from(FANOUT_PARTITIONS), "each is loaded when it begins");
        load(&queue, 1..=(MAX_JOBS - LOADED_AT_ONCE) as u64);
        let mut waiting: std::collections::HashSet<u16> = (0..FANOUT_PARTITIONS).collect();
        for _ in 0..100 * FANOUT_PARTITIONS {
            let (requests, _) = queue.requests(true);
            assert_eq!(requests.len(), 1, "there is room for one");
            waiting.remove(&requests[0].partition);
        }
        assert_eq!(waiting, [].into(), "these partitions are never loaded");
        load(&queue, (MAX_JOBS - LOADED_AT_ONCE) as u64 + 1..=MAX_JOBS as u64);
        assert_eq!(queue.requests(true).0.len(), 0, "the memory is full");
    }

    #[tokio::test]
    async fn a_job_of_a_partition_that_ends_waits_for_the_next_owner() {
        let (queue, _folder) = queue().await;
        let partition = job(1).partition();
        queue.begin(partition, &fence(partition));
        load(&queue, 1..=1);
        let running = queue.take().expect("a job");
        assert!(queue.owns(partition, &running.fence), "the lease may be renewed late");
        {
            let mut end = std::pin::pin!(queue.end(partition));
            assert!(futures::poll!(&mut end).is_pending(), "the job is running");
            assert!(!queue.owns(partition, &running.fence));
            queue.ended(JobId(1), job(1).work.author(), &running.fence, JobEnd::Done);
            end.await;
        }
        queue.begin(partition, &Fence { generation: 2, ..fence(partition) });
        assert_eq!(queue.state.lock().len(), 0, "it is loaded again");
    }

    #[tokio::test]
    async fn the_jobs_of_an_author_are_scheduled_once_after_a_partition_was_lost_and_taken_again() {
        let (queue, _folder) = queue().await;
        let partition = job(1).partition();
        for _ in 0..2 {
            queue.begin(partition, &fence(partition));
            load(&queue, 1..=1);
        }
        assert_eq!(queue.state.lock().ready.len(), 1, "two workers would run two of its jobs at once");
    }
}

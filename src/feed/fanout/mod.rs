//! Carries posts to inboxes.
//!
//! A job is written with the post it carries, in one transaction, held by the process that wrote it. Workers walk the
//! followers page by page. The broker remembers each page that was written, so a page repeated after a crash, or by
//! a worker that lost its lease without noticing, changes nothing; and who repeats a job looks into each inbox, because
//! pages begin elsewhere once followers came or went. The cursor goes to the ledger now and then, with the
//! renewal of the lease; whoever claims the job of a dead worker starts from there.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod.rs` | queues, workers, leases |
//! | `carry.rs` | what each kind of job does |
//! | `walk.rs` | the way through the followers, page by page |
//! | `connected.rs` | who is connected is served first |

mod carry;
mod connected;
mod walk;

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Feed, now};
use crate::broker::Attempt;
use crate::ledger::{Job, Lease};
use crate::model::Millis;

pub(super) use carry::{Carried, LIVE};

/// How posts are carried.
#[derive(Clone, Copy, Debug)]
pub struct FanoutOptions {
    /// How many followers an author may have whose posts are written to each of them.
    pub push_limit: u64,
    /// Followers a page: one script call of the broker each.
    pub page: usize,
    /// Jobs carried at once.
    pub workers: usize,
    /// How long a job is held without a sign of life.
    pub lease: Duration,
}

/// How many jobs wait in memory for each worker. More stay in the ledger until their lease runs out and they are claimed.
const QUEUE: usize = 4_000;

/// How many jobs that nobody holds are claimed at once.
const CLAIM: usize = 200;

/// The job queues of this process: one a worker, and all jobs of an author in the same one, so that an author's posts
/// arrive in the order in which they were written.
pub(super) struct Fanout {
    options: FanoutOptions,
    /// Names this process in leases.
    holder: Arc<str>,
    lanes: Vec<mpsc::Sender<(Job, Attempt)>>,
    /// The other ends; the workers take them when they start.
    queued: Mutex<Vec<mpsc::Receiver<(Job, Attempt)>>>,
    /// Jobs that are in a lane: one whose lease ran out while it waited there is not queued twice.
    waiting: Mutex<HashSet<i64>>,
    hasher: RandomState,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Fanout {
    pub(super) fn new(options: FanoutOptions) -> Self {
        let (lanes, queued) = (0..options.workers.max(1)).map(|_| mpsc::channel(QUEUE)).unzip();
        Self {
            options,
            holder: uuid::Uuid::now_v7().simple().to_string().into(),
            lanes,
            queued: Mutex::new(queued),
            waiting: Mutex::default(),
            hasher: RandomState::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
        }
    }

    pub(super) fn holder(&self) -> &str {
        &self.holder
    }

    pub(super) fn page(&self) -> usize {
        self.options.page
    }

    /// How long a job is held without a sign of life.
    pub(super) fn patience(&self) -> Duration {
        self.options.lease
    }

    pub(super) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// This process's hold on a job from now on.
    pub(super) fn lease(&self, now: Millis) -> Lease {
        let lease = u64::try_from(self.options.lease.as_millis()).unwrap_or(u64::MAX);
        Lease { holder: Arc::clone(&self.holder), until: now.saturating_add(lease) }
    }

    /// Queues a job that was just written. If there is no room it waits in the ledger.
    pub(super) fn offer(&self, job: Job) {
        self.queue(job, Attempt::First);
    }

    fn queue(&self, job: Job, attempt: Attempt) {
        // Any number does, as long as it is the author's.
        let lane = self.hasher.hash_one(job.work.author()) as usize % self.lanes.len();
        let id = job.id;
        if self.waiting.lock().insert(id) && self.lanes[lane].try_send((job, attempt)).is_err() {
            self.waiting.lock().remove(&id);
            tracing::debug!(job = id, "the fan-out queue is full, the job waits in the ledger");
        }
    }

    /// Sleeps; `false` if it is time to stop.
    pub(super) async fn sleep(&self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => true,
            () = self.stopping.cancelled() => false,
        }
    }

    /// Until it is time to stop.
    pub(super) async fn stopped(&self) {
        self.stopping.cancelled().await;
    }

    pub(super) async fn stop(&self) {
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Feed {
    /// Starts the workers, and a look now and then at what other processes left behind.
    pub(super) fn start_fanout(self: &Arc<Self>) {
        for mut lane in self.fanout.queued.lock().drain(..) {
            let feed = Arc::clone(self);
            self.fanout.tasks.spawn(async move {
                let stopping = feed.fanout.stopping.clone();
                while let Some(Some((job, attempt))) = stopping.run_until_cancelled(lane.recv()).await {
                    let id = job.id;
                    feed.work(job, attempt).await;
                    feed.fanout.waiting.lock().remove(&id);
                }
            });
        }
        let feed = Arc::clone(self);
        self.fanout.tasks.spawn(async move {
            let every = feed.fanout.options.lease / 4;
            feed.claim_left_behind().await;
            while feed.fanout.sleep(every.mul_f64(rand::random_range(0.8..1.2))).await {
                feed.claim_left_behind().await;
            }
        });
    }

    async fn claim_left_behind(&self) {
        let now = now();
        match self.ledger.claim_jobs(now, &self.fanout.lease(now), CLAIM).await {
            Ok(jobs) => jobs.into_iter().for_each(|job| self.fanout.queue(job, Attempt::Repeated)),
            Err(error) => tracing::warn!(%error, "left behind jobs could not be claimed"),
        }
        match self.ledger.backlog().await {
            Ok(backlog) => {
                let age = backlog.oldest.map(|oldest| now.saturating_sub(oldest));
                self.metrics.fanout_backlog(backlog.jobs, age);
            }
            Err(error) => tracing::warn!(%error, "the fan-out backlog could not be counted"),
        }
    }

    /// Does a job, again and again until it is done, the lease is lost, or the process stops.
    async fn work(&self, job: Job, attempt: Attempt) {
        let mut held = Held { cursor: job.cursor.clone(), renewed: None, attempt };
        let mut pause = Duration::from_millis(50);
        loop {
            match self.attempt(&job, &mut held).await {
                Ok(Outcome::Done) => {
                    self.metrics.fanout_done(now().saturating_sub(job.created_at));
                    if let Err(error) = self.ledger.finish_job(job.id, &self.fanout.holder).await {
                        tracing::warn!(%error, job = job.id, "a finished job could not be marked so, it will be repeated");
                    }
                    return;
                }
                // It stays in the ledger until its lease runs out, and somebody claims it again.
                Ok(Outcome::Later) => return,
                Ok(Outcome::Lost) => return tracing::info!(job = job.id, "another worker has the job now"),
                Err(error) => {
                    tracing::warn!(%error, job = job.id, ?pause, "a fan-out waits for its stores");
                    let jitter = pause.mul_f64(rand::random_range(0.5..1.5));
                    if !self.fanout.sleep(jitter).await {
                        return;
                    }
                    pause = (pause * 2).min(Duration::from_secs(2));
                    // A page that seemed to fail may have been written.
                    held.attempt = Attempt::Repeated;
                }
            }
        }
    }
}

/// How far a worker is with a job.
struct Held {
    /// Everybody up to here is served.
    cursor: String,
    /// When the lease was last renewed, or the work began.
    renewed: Option<Instant>,
    /// Whether others, or this worker itself, may have written pages that its own do not match.
    attempt: Attempt,
}

enum Outcome {
    /// To be done once more.
    Later,
    /// Everybody is served.
    Done,
    /// The lease ran out and somebody else took it.
    Lost,
}

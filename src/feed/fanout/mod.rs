//! Carries posts to inboxes.
//!
//! A job is written with the post it carries, in one transaction. The process that wrote it holds its lease if it has room;
//! otherwise the job waits in the ledger until a node has. Leases are renewed for as long as their jobs wait or are under way,
//! and each has a generation: whoever claims the job of a dead worker raises it, and the dead worker, should it come back, is
//! told that it lost the job. A lease that ran out is lost, whether or not anybody claimed the job. At most one node holds
//! ordered jobs of an author, and an ordered job is begun only when no earlier one of its author is left.
//!
//! Workers walk the followers page by page, and the broker remembers with the job which followers each page served. An attempt
//! that is not the first begins by reading that, and with it the broker refuses the pages of all earlier attempts; so it goes
//! on where they ended, and no inbox is searched. The cursor goes to the ledger now and then.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod.rs` | workers, claims, renewals |
//! | `queue.rs` | the jobs that this process holds |
//! | `leases.rs` | their leases, and how far they can be trusted |
//! | `creations.rs` | writes under way that create jobs |
//! | `carry.rs` | what each kind of job does |
//! | `channel_updates.rs` | appends to the logs of profiles, topics and posts |
//! | `walk.rs` | the way through the followers, page by page |
//! | `connected.rs` | who is connected is served first |

mod carry;
mod channel_updates;
mod connected;
mod creations;
mod leases;
mod queue;
mod walk;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::error::isolate;
use super::{Feed, FeedError, now};
use crate::broker::{JobAttempt, JobProgress};
use crate::ledger::{Job, Lease};

pub(super) use channel_updates::ChannelUpdates;
use leases::Moment;
pub(super) use queue::Fanout;

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

/// How often the ledger is asked for jobs that wait, at most; and in any case four times within a lease.
const CLAIM_INTERVAL: Duration = Duration::from_secs(1);

/// How often leases are renewed within the length of one.
const ROUNDS_IN_A_LEASE: u32 = 4;

impl Feed {
    /// Starts the workers, the renewal of their leases, and the claims of jobs that wait in the ledger.
    pub(super) fn start_fanout(self: &Arc<Self>) {
        for mut lane in self.fanout.receivers.lock().drain(..) {
            let feed = Arc::clone(self);
            self.fanout.tasks.spawn(async move {
                let stopping = feed.fanout.stopping.clone();
                while let Some(Some(queued)) = stopping.run_until_cancelled(lane.recv()).await {
                    feed.work(&queued.job).await;
                    if !stopping.is_cancelled() {
                        feed.fanout.release(&queued.job, queued.slot);
                    }
                }
            });
        }
        let feed = Arc::clone(self);
        self.fanout.tasks.spawn(async move {
            let every = feed.fanout.options.lease / ROUNDS_IN_A_LEASE;
            feed.measure_backlog().await;
            while feed.fanout.sleep(every.mul_f64(rand::random_range(0.8..1.2))).await {
                feed.look_for_broker();
                feed.renew_leases().await;
                feed.fanout.creations.forget_past();
                feed.measure_backlog().await;
            }
        });
        let feed = Arc::clone(self);
        self.fanout.tasks.spawn(async move {
            let every = CLAIM_INTERVAL.min(feed.fanout.options.lease / 4);
            loop {
                feed.claim_waiting().await;
                tokio::select! {
                    more = feed.fanout.sleep(every.mul_f64(rand::random_range(0.8..1.2))) => if !more { return },
                    () = feed.fanout.waiting.notified() => {}
                }
            }
        });
    }

    /// Leases jobs that wait, or whose holder is gone, as far as there are slots.
    async fn claim_waiting(&self) {
        if self.is_cut_off() {
            return;
        }
        let _lock = self.fanout.claim_lock().await;
        let Some(slots) = self.fanout.slots_for_claim() else { return };
        let asked = Moment::now();
        match self.ledger.claim_jobs(&self.fanout.lease(), slots.num_permits()).await {
            Ok(jobs) => self.fanout.claimed(jobs, slots, asked),
            Err(error) => tracing::warn!(%error, "jobs that wait could not be claimed"),
        }
    }

    /// Renews the leases of the jobs held here, unless this node cannot do them: another node may reach the broker.
    async fn renew_leases(&self) {
        let held = self.fanout.held.all();
        if held.is_empty() || self.is_cut_off() {
            return;
        }
        let asked = Moment::now();
        match self.ledger.renew_jobs(&held, &self.fanout.lease()).await {
            Ok(renewed) => self.fanout.held.note_renewals(&held, &renewed, asked),
            Err(error) => tracing::warn!(%error, jobs = held.len(), "leases of jobs could not be renewed"),
        }
    }

    /// Notes whether the broker answered this node within the last moments: the lease of the caches tells, at no cost.
    fn look_for_broker(&self) {
        let rounds = &self.fanout.rounds_without_broker;
        if self.broker.cache_lease().is_held() {
            rounds.store(0, Ordering::Relaxed);
        } else {
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the broker has been away for about the length of a lease. A pause of this process alone does not count.
    fn is_cut_off(&self) -> bool {
        self.fanout.rounds_without_broker.load(Ordering::Relaxed) >= ROUNDS_IN_A_LEASE
    }

    /// Lets other nodes have the jobs that this one will not do.
    pub(super) async fn release_leases(&self) {
        self.release_jobs(&self.fanout.held.all()).await;
    }

    async fn release_jobs(&self, jobs: &[(i64, u64)]) {
        let released = Lease { length: Duration::ZERO, ..self.fanout.lease() };
        if !jobs.is_empty()
            && let Err(error) = self.ledger.renew_jobs(jobs, &released).await
        {
            tracing::warn!(%error, jobs = jobs.len(), "jobs wait until their leases run out");
        }
    }

    async fn measure_backlog(&self) {
        match self.ledger.quarantine_size().await {
            Ok(size) => self.metrics.quarantine(size),
            Err(error) => tracing::warn!(%error, "the quarantine could not be counted"),
        }
        match self.ledger.backlog().await {
            Ok(backlog) => {
                let age = backlog.oldest.map(|oldest| now().saturating_sub(oldest));
                self.metrics.fanout_backlog(backlog.jobs, age);
            }
            Err(error) => tracing::warn!(%error, "the fan-out backlog could not be counted"),
        }
    }

    /// Does a job, again and again until it is done, the lease is lost, the job is set aside, or the process stops.
    async fn work(&self, job: &Job) {
        let mut held = Held::new(job);
        let mut pause = Duration::from_millis(50);
        let mut failures = 0;
        loop {
            let (outcome, cause) = isolate(self.attempt(job, &mut held)).await;
            match outcome {
                Ok(Outcome::Done) => return self.finish(job, held.attempt).await,
                // It stays in the ledger until its lease runs out, and somebody claims it again.
                Ok(Outcome::Later) => return,
                Ok(Outcome::Lost) => return tracing::info!(job = job.id, "another worker has the job now"),
                Ok(Outcome::Fenced) => {
                    tracing::info!(job = job.id, "the broker refused a page, another attempt begins");
                }
                Err(error) => {
                    failures = if error.is_outage() { 0 } else { failures + 1 };
                    if self.job_quarantine.admits(failures, &error).await
                        && self.quarantine_job(job, &error, cause).await
                    {
                        return;
                    }
                    tracing::warn!(%error, job = job.id, failures, ?pause, "a fan-out waits for its stores");
                }
            }
            if !self.fanout.sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await {
                return;
            }
            pause = (pause * 2).min(Duration::from_secs(2));
            // A page that seemed to fail may have been written, or be on its way.
            held.attempt.retry += 1;
        }
    }

    /// Sets a job aside that always fails, so that its lane goes on. `false` if the ledger could not be written.
    async fn quarantine_job(&self, job: &Job, error: &FeedError, cause: String) -> bool {
        let reason = if matches!(error, FeedError::Internal) { cause } else { error.to_string() };
        match self.ledger.quarantine_job(job.id, job.generation, &reason, now()).await {
            Ok(finished) => {
                tracing::error!(job = job.id, work = ?job.work, reason, "a job always fails and was quarantined");
                if finished.more {
                    self.fanout.more_wait(job.work.author());
                }
                true
            }
            Err(error) => {
                tracing::warn!(%error, job = job.id, "a job that always fails could not be quarantined");
                false
            }
        }
    }

    /// Takes a job that is done out of the ledger. The broker need not remember it for long then.
    async fn finish(&self, job: &Job, attempt: JobAttempt) {
        match self.ledger.finish_job(job.id, job.generation).await {
            Ok(finished) => {
                if finished.was_held {
                    self.job_quarantine.succeeded();
                    self.retire(attempt);
                    self.metrics.fanout_done(now().saturating_sub(job.created_at));
                } else {
                    // Another worker does it once more: the author's later jobs wait for that.
                    self.fanout.held.note_loss(job);
                }
                if finished.more {
                    self.fanout.more_wait(job.work.author());
                }
            }
            Err(error) => {
                tracing::warn!(%error, job = job.id, "a finished job could not be marked so, it will be repeated");
            }
        }
    }

    /// The worker does not wait for it: if it fails, the broker remembers the job for a day.
    fn retire(&self, attempt: JobAttempt) {
        // A job for one inbox begins no attempt.
        if attempt.run.is_empty() {
            return;
        }
        let broker = Arc::clone(&self.broker);
        self.fanout.tasks.spawn(async move {
            if let Err(error) = broker.retire_job(&attempt).await {
                tracing::debug!(%error, job = attempt.job, "the broker remembers a finished job for a day");
            }
        });
    }
}

/// How far a worker is with a job.
struct Held {
    attempt: JobAttempt,
    /// What earlier attempts wrote.
    progress: JobProgress,
    /// Everybody up to here is served.
    cursor: String,
    /// When the cursor was last written to the ledger, or the work began.
    advanced: Instant,
}

impl Held {
    fn new(job: &Job) -> Self {
        Self {
            attempt: JobAttempt { job: job.id, generation: job.generation, retry: 0, run: "".into() },
            progress: JobProgress::default(),
            cursor: job.cursor.clone(),
            advanced: Instant::now(),
        }
    }

    /// Whether nothing was written by anybody, as far as is known.
    fn is_fresh(&self) -> bool {
        self.cursor.is_empty() && self.progress.is_empty()
    }
}

enum Outcome {
    /// To be done once more.
    Later,
    /// Everybody is served.
    Done,
    /// The lease ran out and somebody else took it.
    Lost,
    /// A page was refused: another attempt shows whether the job is still held.
    Fenced,
}

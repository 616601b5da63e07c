//! Fan-out: brings posts, edits and removals to the inboxes of followers.
//!
//! A job is written with the post, in one transaction. The process that wrote it holds its lease if it has a free slot;
//! otherwise the job waits in the ledger until a node has one. Leases are renewed while their jobs wait or run. Each
//! lease has a generation: a node that claims the job of a dead worker increments it, so that the dead worker, if it
//! comes back, finds that it has lost the job. At most one node holds ordered jobs of an author, so these jobs run in
//! order.
//!
//! Workers scan the followers page by page, and the broker stores with the job which followers each page served. A
//! repeated attempt first reads that state, and the broker then refuses the pages of all earlier attempts. The attempt
//! continues where they ended, without searching inboxes. The cursor is written to the ledger from time to time.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | workers, claims, renewals |
//! | `dispatcher.rs` | runs each kind of job |
//! | `running_job.rs` | the state of a worker with a job, and its lease |
//! | `follower_scanner.rs`, `scan.rs` | scans the followers, page by page |
//! | `follower_cache.rs` | the followers of authors who have few, cached |
//! | `connected_first.rs` | serves connected followers first |
//! | `page_writer.rs` | writes pages of inboxes |
//! | `finisher.rs` | removes finished jobs from the ledger |
//! | `channel_updates.rs` | appends to the logs of profiles, topics and posts |
//! | `pull_log.rs` | posts of authors with too many followers |

mod channel_updates;
mod connected_first;
mod dispatcher;
mod finisher;
mod follower_cache;
mod follower_scanner;
mod page_writer;
mod pull_log;
mod running_job;
mod scan;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub(crate) use follower_cache::FollowerCache;
pub(crate) use pull_log::PullLog;

use self::channel_updates::ChannelUpdates;
use self::connected_first::ConnectedFirst;
use self::dispatcher::Dispatcher;
use self::finisher::{FinishedJob, Finisher};
use self::follower_scanner::FollowerScanner;
use self::page_writer::PageWriter;
use self::running_job::{JobLeases, JobOutcome, RunningJob};
use super::content::PostCache;
use super::error::{FeedError, isolate};
use super::favourites::FavouriteService;
use super::invalidation::Invalidator;
use super::jobs::{JobPace, JobQueue, QueuedJob, RenewalTime};
use super::lineage::LineageTracker;
use super::options::FanoutOptions;
use super::quarantine::QuarantinePolicy;
use super::runtime::{Runtime, now};
use super::timelines::EdgeJobs;
use super::visibility::VisibilityPolicy;
use crate::broker::{Broker, JobAttempt};
use crate::ledger::{Job, Ledger, LedgerError};
use crate::metrics::Metrics;

/// The longest time between two claims of waiting jobs; at least four claims fit into a lease.
const CLAIM_INTERVAL: Duration = Duration::from_secs(1);

/// Renewals within the length of a lease.
const RENEWALS_PER_LEASE: u32 = 4;

/// The workers of this process.
pub(crate) struct FanoutWorkers {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    jobs: Arc<JobQueue>,
    /// Decides when a job has failed often enough to be quarantined.
    quarantine: Arc<QuarantinePolicy>,
    metrics: Arc<Metrics>,
    leases: Arc<JobLeases>,
    finisher: Arc<Finisher>,
    dispatcher: Dispatcher,
    /// The number of consecutive renewals that found the broker unreachable.
    rounds_without_broker: AtomicU32,
}

impl FanoutWorkers {
    /// Workers that run the jobs of this queue: see [`start`](Self::start).
    #[expect(clippy::too_many_arguments, reason = "a constructor names everything that the service can touch")]
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        followers: Arc<FollowerCache>,
        broker: Arc<dyn Broker>,
        runtime: Arc<Runtime>,
        jobs: Arc<JobQueue>,
        quarantine: Arc<QuarantinePolicy>,
        lineage: Arc<LineageTracker>,
        posts: Arc<PostCache>,
        visibility: Arc<VisibilityPolicy>,
        invalidator: Arc<Invalidator>,
        favourites: Arc<FavouriteService>,
        edges: Arc<EdgeJobs>,
        metrics: Arc<Metrics>,
        options: FanoutOptions,
    ) -> Self {
        let finisher = Finisher::new(
            ledger.clone(),
            broker.clone(),
            runtime.clone(),
            jobs.clone(),
            quarantine.clone(),
            metrics.clone(),
        );
        let finisher = Arc::new(finisher);
        let leases = Arc::new(JobLeases::new(ledger.clone(), broker.clone(), jobs.clone(), finisher.clone()));
        let writer = PageWriter::new(broker.clone(), runtime.clone(), jobs.clone(), visibility, metrics.clone());
        let writer = Arc::new(writer);
        let connected_first = ConnectedFirst::new(
            ledger.clone(),
            followers,
            broker.clone(),
            leases.clone(),
            writer.clone(),
            options.page,
        );
        let scanner =
            FollowerScanner::new(ledger.clone(), leases.clone(), writer.clone(), connected_first, options.page);
        let dispatcher = Dispatcher::new(
            ledger.clone(),
            broker.clone(),
            lineage,
            jobs.clone(),
            posts.clone(),
            invalidator,
            favourites,
            edges,
            ChannelUpdates::new(broker.clone(), posts),
            leases.clone(),
            writer,
            scanner,
            options,
        );
        let rounds_without_broker = AtomicU32::new(0);
        Self { ledger, broker, runtime, jobs, quarantine, metrics, leases, finisher, dispatcher, rounds_without_broker }
    }

    /// Starts the workers, the renewal of their leases, and the claims of jobs that wait in the ledger.
    pub(crate) fn start(self: &Arc<Self>) {
        for mut lane in self.jobs.take_lanes() {
            let workers = Arc::clone(self);
            self.runtime.spawn(async move {
                let stopping = workers.runtime.stopping().clone();
                while let Some(Some(queued)) = stopping.run_until_cancelled(lane.recv()).await {
                    let QueuedJob { job, slot, pace } = queued;
                    match workers.work(&job, pace).await {
                        Some(attempt) => workers.finisher.add(FinishedJob { job, attempt, slot }),
                        None if !stopping.is_cancelled() => workers.jobs.release(&job, slot),
                        None => {}
                    }
                }
            });
        }
        let finisher = Arc::clone(&self.finisher);
        self.runtime.spawn(async move { finisher.run().await });
        let workers = Arc::clone(self);
        self.runtime.spawn(async move {
            let every = workers.jobs.lease_length() / RENEWALS_PER_LEASE;
            workers.measure_backlog().await;
            while workers.runtime.sleep(every.mul_f64(rand::random_range(0.8..1.2))).await {
                workers.look_for_broker();
                workers.renew_leases().await;
                workers.jobs.forget_past_calls();
                workers.measure_backlog().await;
            }
        });
        let workers = Arc::clone(self);
        self.runtime.spawn(async move {
            let every = CLAIM_INTERVAL.min(workers.jobs.lease_length() / 4);
            loop {
                workers.claim_waiting().await;
                loop {
                    let pause = every.mul_f64(rand::random_range(0.8..1.2));
                    tokio::select! {
                        more = workers.runtime.sleep(pause) => if !more { return },
                        () = workers.jobs.claims_woken() => break,
                    }
                    // New jobs wait for a claim under way.
                    if workers.may_claim().await {
                        break;
                    }
                }
            }
        });
    }

    /// Whether jobs wait in the ledger, as far as it is known.
    async fn may_claim(&self) -> bool {
        self.ledger.has_waiting_jobs().await.unwrap_or(true)
    }

    /// Claims jobs that wait, or whose holder is gone, up to the number of free slots.
    async fn claim_waiting(&self) {
        if self.is_cut_off() {
            return;
        }
        let Some(slots) = self.jobs.slots_for_claim() else { return };
        let (asked, claim) = (RenewalTime::now(), self.jobs.begin_claim());
        match self.ledger.claim_jobs(&self.jobs.lease(), slots.num_permits()).await {
            Ok(jobs) => self.jobs.claimed(claim, jobs, slots, asked),
            Err(error) => {
                tracing::warn!(%error, "jobs that wait could not be claimed");
                if matches!(error, LedgerError::Busy) {
                    self.jobs.nothing_claimed(claim);
                }
            }
        }
    }

    /// Renews the leases of the jobs held here. If this node is cut off from the broker, it does not renew them:
    /// another node may reach the broker.
    async fn renew_leases(&self) {
        if self.is_cut_off() {
            return;
        }
        if let Err(error) = self.leases.renew_all().await {
            tracing::warn!(%error, "leases of jobs could not be renewed");
        }
    }

    /// Records whether the broker answered this node recently. The lease of the caches shows it, without a call.
    fn look_for_broker(&self) {
        let rounds = &self.rounds_without_broker;
        if self.broker.cache_lease().is_held() {
            rounds.store(0, Ordering::Relaxed);
        } else {
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the broker has been unreachable for about the length of a lease. A pause of this process alone does not
    /// count.
    fn is_cut_off(&self) -> bool {
        self.rounds_without_broker.load(Ordering::Relaxed) >= RENEWALS_PER_LEASE
    }

    /// Releases the leases of jobs that this process will not run, so that other nodes can claim them.
    pub(crate) async fn release_leases(&self) {
        self.finisher.flush().await;
        self.leases.release(&self.jobs.held().all()).await;
    }

    async fn measure_backlog(&self) {
        match self.ledger.quarantine_size().await {
            Ok(size) => self.metrics.quarantine(size),
            Err(error) => tracing::warn!(%error, "the quarantine could not be counted"),
        }
        match self.ledger.backlog().await {
            Ok(backlog) => {
                let age = backlog.oldest.map(|oldest| now().saturating_sub(oldest));
                self.metrics.fanout.backlog(backlog.jobs, age);
            }
            Err(error) => tracing::warn!(%error, "the fan-out backlog could not be counted"),
        }
    }

    /// Runs a job until it is done, the lease is lost, the job is quarantined, or the process stops. Returns the last
    /// attempt if the job is done: it is still in the ledger.
    async fn work(&self, job: &Job, pace: JobPace) -> Option<JobAttempt> {
        let mut running = RunningJob::new(job, pace);
        let mut pause = Duration::from_millis(50);
        let mut failures = 0;
        loop {
            let (outcome, cause) = isolate(self.dispatcher.attempt(job, &mut running)).await;
            match outcome {
                Ok(JobOutcome::Done) => return Some(running.attempt),
                // The job stays in the ledger until its lease expires and a node claims it again.
                Ok(JobOutcome::Repeat) => return None,
                Ok(JobOutcome::Lost) => {
                    tracing::info!(job = job.id, "another worker has the job now");
                    return None;
                }
                Ok(JobOutcome::Fenced) => {
                    tracing::info!(job = job.id, "the broker refused a page, another attempt begins");
                }
                Err(error) => {
                    failures = if error.is_outage() { 0 } else { failures + 1 };
                    if self.quarantine.admits(failures, &error).await && self.set_aside(job, &error, cause).await {
                        return None;
                    }
                    tracing::warn!(%error, job = job.id, failures, ?pause, "a fan-out waits for its stores");
                }
            }
            running.pace.takes_long();
            if !self.runtime.sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await {
                return None;
            }
            pause = (pause * 2).min(Duration::from_secs(2));
            // A page whose write seemed to fail may have been written, or may still be under way.
            running.attempt.retry += 1;
        }
    }

    /// Quarantines a job that always fails, so that its lane continues. `false` if the ledger could not be written.
    async fn set_aside(&self, job: &Job, error: &FeedError, cause: String) -> bool {
        let reason = if matches!(error, FeedError::Internal) { cause } else { error.to_string() };
        match self.ledger.quarantine_job(job.id, job.generation, &reason, now()).await {
            Ok(finished) => {
                tracing::error!(job = job.id, work = ?job.work, reason, "a job always fails and was quarantined");
                if finished.more {
                    self.jobs.more_wait(job.work.author());
                }
                true
            }
            Err(error) => {
                tracing::warn!(%error, job = job.id, "a job that always fails could not be quarantined");
                false
            }
        }
    }
}

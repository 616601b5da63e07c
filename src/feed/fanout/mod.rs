//! Fan-out: brings posts, edits and removals to the inboxes of followers.
//!
//! A job is written with the post, in one transaction, and belongs to the partition of its author. The process that
//! owns the partition runs it (`feed/work/`): at once if it wrote the post itself, else when it is signalled, or polls.
//! The jobs of an author run in order, authors beside each other.
//!
//! Workers scan the followers page by page, and the broker stores with the job which followers each page served. A job
//! that was loaded from the ledger, and a repeated attempt, first read that state, and the broker then refuses the
//! pages of all earlier attempts. The attempt continues where they ended, without searching inboxes.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the workers |
//! | `running_job.rs` | the state of a worker with a job, and its attempts |
//! | `job_sync.rs` | loads jobs that wait in the ledger, removes finished ones, raises the floors of partitions |
//! | `dispatcher.rs` | runs each kind of job, and appends to the logs of profiles, topics and posts |
//! | `follower_scanner.rs` | scans the followers page by page, connected ones first, and writes to their inboxes |
//! | `repost_hiding.rs` | the reposts of posts that some readers may not see any more |
//! | `topic_and_list_entries.rs` | what followers of topics and lists get, by the pull log |
//! | `lock_job.rs` | what follows when an account is locked or unlocked |
//! | `pull_log.rs` | posts of authors with too many followers, and for followers of topics and lists |

mod dispatcher;
mod follower_scanner;
mod job_sync;
mod lock_job;
mod pull_log;
mod repost_hiding;
mod running_job;
mod topic_and_list_entries;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

pub(crate) use pull_log::PullLog;

use self::dispatcher::Dispatcher;
use self::follower_scanner::FollowerScanner;
use self::job_sync::Finisher;
use self::running_job::{JobOutcome, RunningJob};
use super::error::isolate;
use super::favourites::FavouriteService;
use super::timelines::EdgeJobs;
use super::work::{JobEnd, QuarantinePolicy, QueuedJob};
use crate::backoff::Backoff;
use crate::feed::base::Base;
use crate::ledger::{FANOUT_PARTITIONS, FailedWork, Fault};
use crate::supervisor::OnPanic;
use crate::telemetry::SpanKind;

/// The first pause after a failed attempt; it doubles up to [`MAX_BACKOFF`].
const MIN_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// The pause before a job that asks for it is repeated. It is loaded at the next poll.
const REPEAT_INTERVAL: Duration = Duration::from_secs(1);

/// The interval at which a job whose lease may have run out checks whether it was renewed late.
const LAPSE_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The workers of this process.
pub(crate) struct FanoutWorkers {
    base: Arc<Base>,
    /// Decides when a job has failed often enough to be quarantined.
    quarantine: Arc<QuarantinePolicy>,
    finisher: Arc<Finisher>,
    dispatcher: Dispatcher,
}

impl FanoutWorkers {
    /// Workers that run the jobs of this queue: see [`start`](Self::start).
    pub(crate) fn new(
        base: Arc<Base>,
        edges: Arc<EdgeJobs>,
        favourites: Arc<FavouriteService>,
        quarantine: Arc<QuarantinePolicy>,
    ) -> Self {
        let dispatcher =
            Dispatcher { scanner: FollowerScanner::new(base.clone()), base: base.clone(), favourites, edges };
        Self { finisher: Arc::new(Finisher::new(base.clone())), base, quarantine, dispatcher }
    }

    /// Starts the workers, and loads jobs of the partitions that this process owns.
    pub(crate) fn start(self: &Arc<Self>) {
        for number in 0..FANOUT_PARTITIONS {
            self.base.runtime.supervise("fanout_ownership", self, move |workers| async move {
                workers.follow_ownership(number).await;
            });
        }
        for _ in 0..self.base.options.fanout.workers.max(1) {
            self.base.runtime.supervise("fanout_worker", self, |workers| async move {
                let stopping = workers.base.runtime.stopping().clone();
                while let Some(queued) = stopping.run_until_cancelled(workers.base.jobs.next()).await {
                    workers.run(queued).await;
                }
            });
        }
        self.base.runtime.supervise("fanout_finisher", &self.finisher, |finisher| async move { finisher.run().await });
        job_sync::start(&self.base);
    }

    /// Runs the jobs of a partition while this process owns it.
    async fn follow_ownership(&self, number: u16) {
        let partition = self.base.jobs.partition(number);
        let stopping = self.base.runtime.stopping();
        while let Some(fence) = stopping.run_until_cancelled(partition.owned()).await {
            self.base.jobs.begin(number, &fence);
            stopping.run_until_cancelled(partition.ended(&fence)).await;
            self.base.jobs.end(number).await;
            self.finisher.flush().await;
        }
    }

    /// Runs the next job of an author.
    async fn run(&self, mut queued: QueuedJob) {
        let id = queued.job.id;
        let author = queued.job.work.author().clone();
        let fence = queued.fence.clone();
        let mut span = self.base.tracer.child(queued.job.work.trace(), "process fanout", SpanKind::Consumer);
        span.set("feedline.job", id.0);
        let partition = self.base.jobs.partition(queued.job.partition());
        let mut running = RunningJob::new(&queued, partition, span.context());
        // The job is loaded again.
        let _on_panic = OnPanic(|| self.base.jobs.ended(id, &author, &fence, JobEnd::Lost));
        let end = self.attempt_until_done(&queued, &mut running).await;
        span.set("feedline.attempts", u64::from(running.tokens.attempt.retry) + 1);
        if end != JobEnd::Done {
            span.fail("not done here: it is loaded again, or quarantined");
        }
        span.end();
        // A writer that waits for a slot may begin.
        queued.slot = None;
        if end == JobEnd::Done {
            // Before the job ends: the end of an ownership waits for that, and then removes what is finished.
            self.finisher.add(queued.job, fence.clone(), running.tokens.attempt);
        }
        self.base.jobs.ended(id, &author, &fence, end);
    }

    /// Attempts a job until it is done, is to be repeated later, or does not belong to this process any more: another
    /// one owns it, it is quarantined, or the process stops.
    async fn attempt_until_done(&self, queued: &QueuedJob, running: &mut RunningJob) -> JobEnd {
        let mut backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
        let job = queued.job.id;
        loop {
            let (outcome, cause) = isolate(self.dispatcher.attempt(queued, running)).await;
            let pause = backoff.next_delay();
            match outcome {
                Ok(JobOutcome::Done) => {
                    self.quarantine.succeeded(job);
                    return JobEnd::Done;
                }
                Ok(JobOutcome::Repeat) => return JobEnd::Repeat(Instant::now() + REPEAT_INTERVAL),
                Ok(JobOutcome::Lost) => {
                    tracing::info!(%job, "the job is finished, or another process owns its partition");
                    return JobEnd::Lost;
                }
                Ok(JobOutcome::Fenced) => {
                    tracing::info!(%job, "a page was refused, or the lease may have run out: another attempt begins");
                }
                Err(error) => {
                    tracing::warn!(%error, %job, ?pause, "a fan-out waits for its stores");
                    if let Some(fault) = self.quarantine.failed(job, &error, cause).await
                        && self.set_aside(queued, &fault).await
                    {
                        return JobEnd::Lost;
                    }
                }
            }
            if !self.base.runtime.sleep(pause).await {
                return JobEnd::Lost;
            }
            // If the lease is renewed late, the job keeps its place.
            while !running.tokens.are_valid() {
                let has_ended = !self.base.jobs.owns(queued.job.partition(), &queued.fence);
                if has_ended || !self.base.runtime.sleep(LAPSE_POLL_INTERVAL).await {
                    return JobEnd::Lost;
                }
            }
            // A page whose write seemed to fail may have been written, or may still be under way.
            running.tokens.attempt.retry += 1;
        }
    }

    /// Quarantines a job that always fails, so that the author's next one runs. `false` if the ledger could not be
    /// written.
    async fn set_aside(&self, queued: &QueuedJob, fault: &Fault) -> bool {
        let QueuedJob { job, fence, .. } = queued;
        let reason = &fault.reason;
        match self.base.ledger.set_aside(FailedWork::Job(job.id, fence), fault).await {
            Ok(_) => {
                tracing::error!(job = %job.id, work = ?job.work, reason, "a job always fails and was quarantined");
                true
            }
            Err(error) => {
                tracing::warn!(%error, job = %job.id, "a job that always fails could not be quarantined");
                false
            }
        }
    }
}

//! The jobs of edges: a follow, an unfollow or a restriction changes one timeline, or two.
//!
//! The job is written with the edge, in one transaction, and run before the reply, so that the user sees the effect. If
//! it fails, a worker repeats it.

use std::sync::Arc;

use super::backfill::Backfill;
use crate::broker::Invalidation;
use crate::feed::error::Result;
use crate::feed::invalidation::Invalidator;
use crate::feed::jobs::JobQueue;
use crate::ledger::{Job, Lease, Ledger, Work};
use crate::model::{GoneReason, UserId};

/// The effect of a change on the visibility between two users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EdgeChange {
    /// They may see more.
    Opens,
    /// They may see less.
    Closes,
}

/// The outcome of a job that concerns one timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EdgeOutcome {
    /// The job is done.
    Done,
    /// The job is done as far as possible now, and must be repeated later.
    Repeat,
}

/// Runs the jobs of edges.
pub(crate) struct EdgeJobs {
    ledger: Arc<dyn Ledger>,
    invalidator: Arc<Invalidator>,
    jobs: Arc<JobQueue>,
    backfill: Arc<Backfill>,
}

impl EdgeJobs {
    /// Runs jobs that change timelines by `backfill`. Queues failed jobs in `jobs`.
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        invalidator: Arc<Invalidator>,
        jobs: Arc<JobQueue>,
        backfill: Arc<Backfill>,
    ) -> Self {
        Self { ledger, invalidator, jobs, backfill }
    }

    /// The lease for a job that its command runs before the reply.
    pub(crate) fn lease(&self) -> Lease {
        self.jobs.lease()
    }

    /// Puts a change between two users in force before the reply: no node serves the former relation, and the timelines
    /// of both users are up to date.
    ///
    /// # Errors
    /// If other nodes may still show content that is now hidden. The jobs are queued, and a repeated command
    /// invalidates again.
    pub(crate) async fn apply(
        &self,
        one: &UserId,
        other: &UserId,
        change: EdgeChange,
        jobs: impl IntoIterator<Item = Job> + Send,
    ) -> Result<()> {
        let jobs: Vec<Job> = jobs.into_iter().collect();
        let changed = [Invalidation::Relation(one.clone(), other.clone())];
        match change {
            EdgeChange::Closes => {
                if let Err(error) = self.invalidator.invalidate(&changed).await {
                    jobs.into_iter().for_each(|job| self.jobs.offer_again(job));
                    return Err(error);
                }
            }
            // Each job invalidates before it merges posts.
            EdgeChange::Opens if !jobs.is_empty() => {}
            EdgeChange::Opens => {
                if let Err(error) = self.invalidator.announce(&changed).await {
                    tracing::warn!(%error, "a relation changed, other nodes will notice it later");
                }
            }
        }
        for job in jobs {
            self.run_and_finish(job, change == EdgeChange::Closes).await;
        }
        Ok(())
    }

    /// Runs a job before the reply of its command. If it fails, a worker repeats it.
    pub(crate) async fn run_now(&self, job: Job) {
        self.run_and_finish(job, false).await;
    }

    async fn run_and_finish(&self, job: Job, is_in_force: bool) {
        let id = job.id;
        match self.bring_about(&job, is_in_force).await {
            Ok(EdgeOutcome::Repeat) => {}
            Ok(EdgeOutcome::Done) => {
                if let Err(error) = self.ledger.finish_job(id, job.generation).await {
                    tracing::warn!(%error, job = id, "a finished job could not be marked so, it will be repeated");
                }
            }
            Err(error) => {
                tracing::warn!(%error, job = id, "an edge is stored, its timeline will follow");
                self.jobs.offer_again(job);
            }
        }
    }

    /// Runs a job that concerns one timeline. Other jobs are ignored.
    ///
    /// # Errors
    /// If a store cannot be reached: the job has to be repeated.
    pub(crate) async fn run(&self, job: &Job) -> Result<EdgeOutcome> {
        self.bring_about(job, false).await
    }

    /// Changes the timeline. `is_in_force`: no node serves the former relation any more.
    async fn bring_about(&self, job: &Job, is_in_force: bool) -> Result<EdgeOutcome> {
        if let Work::Follow { reader, author } | Work::Unfollow { reader, author } | Work::Detach { reader, author } =
            &job.work
            && !is_in_force
        {
            // A fan-out that still reads the former followers then belongs to a post that is stored already: a follow
            // merges it, and an unfollow repeats the removal until its job is done.
            self.invalidator.invalidate(&[Invalidation::Relation(reader.clone(), author.clone())]).await?;
        }
        let backfill = &self.backfill;
        match &job.work {
            Work::Follow { reader, author } => {
                backfill.merge_author(reader, author).await?;
                backfill.sync_friendship(author, reader).await?;
                Ok(EdgeOutcome::Done)
            }
            Work::Unfollow { reader, author } => {
                let outcome = self.purge_author(job, reader, author, GoneReason::Unfollowed).await?;
                backfill.sync_friendship(author, reader).await?;
                Ok(outcome)
            }
            Work::Detach { reader, author } => self.purge_author(job, reader, author, GoneReason::Hidden).await,
            Work::Post { .. }
            | Work::Delete { .. }
            | Work::Edit { .. }
            | Work::RevokeVisibility { .. }
            | Work::GrantVisibility { .. } => Ok(EdgeOutcome::Done),
        }
    }

    async fn purge_author(
        &self,
        job: &Job,
        reader: &UserId,
        author: &UserId,
        reason: GoneReason,
    ) -> Result<EdgeOutcome> {
        // Read before the inbox: a post whose fan-out has ended by now is then found in the inbox.
        let more_may_come = self.ledger.carries_posts(author, job.id).await?
            || self.backfill.may_be_pulled(author, job.created_at, self.jobs.lease_length()).await?;
        if !self.backfill.purge_author(reader, author, reason, job.cursor == PURGED).await? || !more_may_come {
            return Ok(EdgeOutcome::Done);
        }
        self.ledger.advance_job(job.id, job.generation, PURGED, &self.jobs.lease()).await?;
        Ok(EdgeOutcome::Repeat)
    }
}

/// The cursor of a job that has removed the posts once, and must repeat the removal.
const PURGED: &str = "taken out";

//! The jobs of edges: a follow, an unfollow or a restriction changes one timeline, or two.
//!
//! The job is written with the edge, in one transaction, and run before the reply, so that the user sees the effect. If
//! it fails, the owner of the author's partition repeats it.

use std::sync::Arc;
use std::time::Duration;

use super::backfill::Backfill;
use super::list_backfill::sync_author;
use super::topic_backfill::merge_topics;
use crate::broker::Invalidation;
use crate::feed::base::Base;
use crate::feed::error::{FeedError, Result};
use crate::ledger::{EdgeWork, Job, NewJob, Work};
use crate::model::UserId;

/// How long a node may still append posts of the pull log for readers that it selected before an edge changed. A node
/// that takes longer counts as dead.
const PULL_PATIENCE: Duration = Duration::from_secs(5);

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

/// The circumstances of one run of a job.
#[derive(Clone, Copy)]
struct EdgeRun {
    /// No node serves the former relation any more.
    is_in_force: bool,
    /// The job asked to be repeated.
    is_repeated: bool,
    /// The job is removed once it is done: no earlier job of its author is left.
    removes_job: bool,
}

/// Runs the jobs of edges.
pub(crate) struct EdgeJobs {
    base: Arc<Base>,
    backfill: Arc<Backfill>,
}

impl EdgeJobs {
    /// Runs jobs that change timelines by `backfill`. Wakes the owners of failed ones by `jobs`.
    pub(crate) fn new(base: Arc<Base>, backfill: Arc<Backfill>) -> Self {
        Self { base, backfill }
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
        jobs: impl IntoIterator<Item = NewJob> + Send,
    ) -> Result<()> {
        let jobs: Vec<NewJob> = jobs.into_iter().collect();
        let changed = [Invalidation::Relation(one.clone(), other.clone())];
        match change {
            EdgeChange::Closes => {
                if let Err(error) = self.base.invalidator.invalidate(&changed).await {
                    jobs.iter().for_each(|new| self.base.jobs.wake_owner(new.job.partition()));
                    return Err(error);
                }
            }
            // Each job invalidates before it merges posts.
            EdgeChange::Opens if !jobs.is_empty() => {}
            EdgeChange::Opens => {
                if let Err(error) = self.base.invalidator.announce(&changed).await {
                    tracing::warn!(%error, "a relation changed, other nodes will notice it later");
                }
            }
        }
        for job in jobs {
            self.run_now(job, change == EdgeChange::Closes).await;
        }
        Ok(())
    }

    /// Runs a job before the reply. If no earlier job of the author is left, it is done then; else the owner of the
    /// partition runs it again after those, or because it failed. `is_in_force`: no node serves the former relation.
    pub(crate) async fn run_now(&self, new: NewJob, is_in_force: bool) {
        let is_last = new.previous.is_none();
        match self.run_once(&new.job, EdgeRun { is_in_force, is_repeated: false, removes_job: is_last }).await {
            Ok(EdgeOutcome::Done) if is_last => return,
            Ok(EdgeOutcome::Done | EdgeOutcome::Repeat) => {}
            Err(error) => tracing::warn!(%error, job = %new.job.id, "an edge is stored, its timeline will follow"),
        }
        self.base.jobs.wake_owner(new.job.partition());
    }

    /// Runs a job that concerns one timeline, after the earlier jobs of its author. `is_repeated`: the job asked to be
    /// repeated.
    ///
    /// # Errors
    /// If a store cannot be reached: the job has to be repeated.
    pub(crate) async fn run(&self, job: &Job, is_repeated: bool) -> Result<EdgeOutcome> {
        self.run_once(job, EdgeRun { is_in_force: false, is_repeated, removes_job: false }).await
    }

    async fn run_once(&self, job: &Job, run: EdgeRun) -> Result<EdgeOutcome> {
        let Work::Edge { change, reader, author } = &job.work else { return Err(FeedError::Internal) };
        if !run.is_in_force {
            // A fan-out that still reads the former followers then belongs to a post that is stored already: a follow
            // merges it, and the owner of the partition runs an unfollow after it.
            self.base.invalidator.invalidate(&[Invalidation::Relation(reader.clone(), author.clone())]).await?;
        }
        // Posts for friends depend on the follows of both users.
        sync_author(&self.base, reader, author).await?;
        sync_author(&self.base, author, reader).await?;
        match change {
            EdgeWork::Follow => {
                // Before the job is removed: the end of a restriction may return posts of followed topics.
                if let Some(topics) = self.base.followed_topics.of(reader).await? {
                    merge_topics(&self.base, reader, &topics.names()).await?;
                }
                // If the author follows the reader, they are friends now: the author may see more posts of the reader.
                let pairs = vec![(reader.clone(), author.clone()), (author.clone(), reader.clone())];
                self.backfill.merge_authors(pairs, run.removes_job.then_some(job.id)).await?;
                return Ok(EdgeOutcome::Done);
            }
            EdgeWork::Unfollow => {}
            EdgeWork::Detach if run.is_repeated => {}
            EdgeWork::Detach => self.backfill.hide_reposts_of(reader, author).await?,
            EdgeWork::DetachReposts => {
                self.backfill.purge_reposts(reader, author).await?;
                if run.removes_job {
                    self.base.ledger.remove_job(job.id, &[]).await?;
                }
                return Ok(EdgeOutcome::Done);
            }
        }
        let outcome = self.purge_author(job, (reader, author), run.is_repeated).await?;
        if *change == EdgeWork::Unfollow {
            self.backfill.sync_friendship(author, reader).await?;
        }
        if run.removes_job && outcome == EdgeOutcome::Done {
            self.base.ledger.remove_job(job.id, &[]).await?;
        }
        Ok(outcome)
    }

    async fn purge_author(
        &self,
        job: &Job,
        (reader, author): (&UserId, &UserId),
        is_repeated: bool,
    ) -> Result<EdgeOutcome> {
        // Read before the inbox: a post whose pull has ended by now is then found in the inbox.
        let more_may_come = self.backfill.may_be_pulled(author, job.created_at, PULL_PATIENCE).await?;
        let is_gone = self.backfill.purge_author(reader, author, is_repeated).await?;
        Ok(if is_gone && more_may_come { EdgeOutcome::Repeat } else { EdgeOutcome::Done })
    }
}

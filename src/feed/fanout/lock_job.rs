//! The job of an account that was locked or unlocked.
//!
//! Pages and live deliveries follow the lock itself, before its answer. This is what takes longer: the counts of
//! topics, and after an unlock the requests. Both can be done again from the beginning: posts that agree with the lock
//! and requests that were accepted are not found again.

use super::repost_hiding;
use super::running_job::{JobOutcome, RunningJob};
use super::topic_and_list_entries;
use crate::feed::base::Base;
use crate::feed::error::Result;
use crate::feed::runtime::now;
use crate::ledger::{EventConsumer, Job};
use crate::model::{PostId, UserId};

/// The posts that are compared by a call.
const POSTS_PER_PAGE: usize = 500;

/// The requests that are read by a call.
const REQUESTS_PER_PAGE: usize = 100;

/// Accepts the requests up to `accept_through`, oldest first, and updates the topics of the author's posts.
///
/// # Errors
/// If the ledger cannot be reached: the attempt is repeated.
pub(super) async fn run(
    base: &Base,
    job: &Job,
    accept_through: Option<u64>,
    running: &RunningJob,
) -> Result<JobOutcome> {
    if let Some(through) = accept_through
        && !accept_requests(base, job, through, running).await?
    {
        return Ok(JobOutcome::Fenced);
    }
    if accept_through.is_none() {
        repost_hiding::of_author(base, job.work.author(), running).await?;
    }
    let is_synced = sync_topics(base, job.work.author(), running).await?;
    let is_locked = base.relations.is_locked(job.work.author()).await?;
    topic_and_list_entries::lock_changed(base, job.work.author(), is_locked).await?;
    Ok(if is_synced { JobOutcome::Done } else { JobOutcome::Fenced })
}

/// Returns `false` if another process may own the partition.
async fn sync_topics(base: &Base, author: &UserId, running: &RunningJob) -> Result<bool> {
    let mut before = PostId::MAX;
    while running.tokens.are_valid() {
        let (posts, last) = base.ledger.posts_out_of_sync(author, before, POSTS_PER_PAGE).await?;
        for post in posts {
            base.ledger.sync_topics(author, &post).await?;
        }
        let Some(last) = last else { return Ok(true) };
        before = last;
    }
    Ok(false)
}

/// Returns `false` if another process may own the partition. Each follow has a job of its own, which comes after this
/// one.
async fn accept_requests(base: &Base, job: &Job, through: u64, running: &RunningJob) -> Result<bool> {
    let author = job.work.author();
    while running.tokens.are_valid() {
        let requests = base.ledger.oldest_requests(author, through, REQUESTS_PER_PAGE).await?;
        if requests.is_empty() {
            return Ok(true);
        }
        for request in requests {
            base.ledger.accept_request(&request.follower, author, now(), None).await?;
        }
        base.events.wake(EventConsumer::Notifications);
        base.jobs.wake_owner(job.partition());
    }
    Ok(false)
}

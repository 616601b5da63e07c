//! Removes reposts from open timelines whose readers may no longer see the reposted post. Pages need no job: they check
//! both posts on each read.
//!
//! Each repost gets a job of its own, in the partition of its author ([`Work::HideRepost`](crate::ledger::Work)).

use super::running_job::RunningJob;
use crate::feed::base::Base;
use crate::feed::error::Result;
use crate::feed::runtime::now;
use crate::model::{PostId, UserId};

/// The maximum number of reposts that are removed for one hidden post, or for all posts of a hidden author: the newest.
const MAX_REPOSTS: usize = 1_000;

/// The reposts whose jobs are created between two looks at the ownership.
const REPOSTS_PER_STEP: usize = 50;

/// The posts of an author that are looked at, in pages.
const MAX_POSTS: usize = 5_000;
const POSTS_PER_PAGE: usize = 500;

/// Announces that a post may be hidden.
///
/// # Errors
/// If the ledger cannot be reached.
pub(super) async fn of_post(base: &Base, post: PostId, running: &RunningJob) -> Result<()> {
    hide(base, &[post], MAX_REPOSTS, running).await.map(drop)
}

/// Announces that the posts of an author may be hidden.
///
/// # Errors
/// If the ledger cannot be reached.
pub(super) async fn of_author(base: &Base, author: &UserId, running: &RunningJob) -> Result<()> {
    let mut before = PostId::MAX;
    let mut reposts_left = MAX_REPOSTS;
    for _ in 0..MAX_POSTS / POSTS_PER_PAGE {
        let posts = base.ledger.author_posts(author, before, POSTS_PER_PAGE).await?;
        let Some(last) = posts.last().copied() else { break };
        reposts_left = reposts_left.saturating_sub(hide(base, &posts, reposts_left, running).await?);
        if reposts_left == 0 || !running.tokens.are_valid() {
            break;
        }
        before = last;
    }
    Ok(())
}

/// Returns the number of reposts. Most posts have none: nothing is written then.
async fn hide(base: &Base, posts: &[PostId], limit: usize, running: &RunningJob) -> Result<usize> {
    let mut reposts = base.ledger.newest_reposts(posts, limit).await?;
    reposts.truncate(limit);
    for some in reposts.chunks(REPOSTS_PER_STEP) {
        if !running.tokens.are_valid() {
            break;
        }
        for new in base.ledger.hide_reposts(some, now()).await? {
            base.jobs.wake_owner(new.job.partition());
        }
    }
    Ok(reposts.len())
}

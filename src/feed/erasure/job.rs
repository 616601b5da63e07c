//! The job that removes the data of an erased user.
//!
//! One process works on erasures, one at a time (`feed/work/`). A pass processes all data of the user in pages, with
//! pauses, so that the ledger's writer is never held for long. There is no cursor: the remaining rows are the progress,
//! so another process that takes the work over begins a pass. After a pass that finds nothing, the erasure waits
//! [`GRACE`] for another one: a write that began before the erasure may have ended after the first pass. If the second
//! pass finds nothing either, the erasure is finished.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::feed::base::Base;
use crate::feed::error::{FeedError, Result, isolate};
use crate::feed::identity::ErasureRecords;
use crate::feed::likes::CountPublisher;
use crate::feed::notifications::Notifications;
use crate::feed::posts::CommentService;
use crate::feed::runtime::now;
use crate::feed::timelines::EdgeJobs;
use crate::feed::work::{Consumer, Partition, PollSchedule, QuarantinePolicy, RunOutcome, work};
use crate::ledger::{Erasure, FailedWork, Fence, LedgerError, PersonalData, PersonalRow};
use crate::model::{Channel, CommentId, Millis, ObjectId, ObjectType, PostId, UserId};
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};

/// The name of the partition, and of its kind of work.
pub(crate) const PARTITION: &str = "erasure";

/// The longest duration of a write that was under way when its user was erased, in milliseconds: longer than any ledger
/// call.
const GRACE: Millis = 12_000;

/// How long an erasure that failed waits, while others run, in milliseconds.
const RETRY_INTERVAL: Millis = 10_000;

/// Erasures of other nodes are found at this interval.
const SCHEDULE: PollSchedule = PollSchedule { poll: Duration::from_secs(5), gather: Duration::ZERO };

/// Erasures in one look for those that are due. One of them runs; more are read because some may be unreadable.
const MAX_DUE: usize = 16;

/// The number of rows of a page, and the pause after it, in which other writes run.
const PAGE: usize = 200;
const PAUSE: Duration = Duration::from_millis(20);

/// The number of posts of a page. Each deletion creates a fan-out job; a small number keeps them from filling the
/// queue of jobs.
const POSTS_PER_PAGE: usize = 50;
const PAUSE_AFTER_POSTS: Duration = Duration::from_millis(250);

/// The number of follows of a page that end concurrently.
const CONCURRENCY: usize = 4;

/// A pass that is under way.
struct Pass {
    erasure: Erasure,
    begun: Millis,
    /// The number of its stage: see [`ErasureJob::page`].
    stage: u8,
    /// The key of the last row that the stage has processed.
    cursor: String,
    /// Rows found in this pass.
    found: usize,
}

/// Removes the data of erased users. `wiring/mod.rs` sets the fields.
pub(crate) struct ErasureJob {
    pub(crate) base: Arc<Base>,
    /// The partition [`PARTITION`].
    pub(crate) partition: Arc<Partition>,
    pub(crate) records: Arc<ErasureRecords>,
    pub(crate) edges: Arc<EdgeJobs>,
    pub(crate) comments: Arc<CommentService>,
    pub(crate) notifications: Arc<Notifications>,
    pub(crate) counts: Arc<CountPublisher>,
    pub(crate) quarantine: Arc<QuarantinePolicy>,
}

/// The worker of the partition.
struct ErasureWorker {
    job: Arc<ErasureJob>,
    pass: Option<Pass>,
}

impl ErasureJob {
    /// Works on erasures until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        self.base.runtime.supervise("erasures", self, |job| async move {
            let worker = || ErasureWorker { job: Arc::clone(&job), pass: None };
            work(&job.partition, &job.base.runtime, SCHEDULE, &job.quarantine, worker).await;
        });
    }

    /// Begins a pass of the erasure that has waited longest; `None` if none is due.
    async fn begin_pass(&self) -> Result<Option<Pass>> {
        let begun = now();
        let Some(erasure) = self.base.ledger.due_erasures(begun, MAX_DUE).await?.into_iter().next() else {
            return Ok(None);
        };
        // Another node may have begun the erasure a moment ago.
        self.records.hide(&erasure.user);
        Ok(Some(Pass { erasure, begun, stage: 0, cursor: String::new(), found: 0 }))
    }

    /// Processes a page. Returns the pause after it; `None`: the pass has ended.
    async fn step(&self, fence: &Fence, pass: &mut Pass) -> Result<Option<Duration>> {
        let Some((found, pause)) = self.page(pass).await? else {
            self.end_pass(fence, pass).await?;
            return Ok(None);
        };
        if found == 0 {
            pass.stage += 1;
            pass.cursor.clear();
            return Ok(Some(Duration::ZERO));
        }
        Ok(Some(pause))
    }

    /// Processes the next page of the stage. Returns the number of its rows (none are left after an empty one), and the
    /// pause after it; `None`: there is no such stage.
    async fn page(&self, pass: &mut Pass) -> Result<Option<(usize, Duration)>> {
        let ledger = &self.base.ledger;
        let mut pause = PAUSE;
        let found = match pass.stage {
            // Follows by other users, and the posts in their timelines.
            0 => self.follows(PersonalData::Followers, pass).await?,
            // Viewers of a post receive the same event as for any deletion.
            1 => {
                pause = PAUSE_AFTER_POSTS;
                self.posts(pass).await?
            }
            2 => self.follows(PersonalData::Following, pass).await?,
            // Comments on posts of other users. A comment with replies stays, without its author and text.
            3 => self.comments(pass).await?,
            4 => self.favourites(pass).await?,
            5 => self.likes(&pass.erasure.user).await?,
            // Notifications of other users about this user.
            6 => self.notices(&pass.erasure.user).await?,
            7 => ledger.erase_rest(&pass.erasure.user, PAGE).await?,
            // The remaining data of deleted posts, including other users' comments and likes. None of these rows is a
            // write of the user, so they do not count as found. Recently deleted posts wait until no write to them can
            // be under way.
            8 => {
                let before = now().saturating_sub(GRACE / 2);
                let found = ledger.erase_deleted_posts(&pass.erasure.user, before, PAGE).await?;
                return Ok(Some((found, pause)));
            }
            _ => return Ok(None),
        };
        pass.found += found;
        Ok(Some((found, pause)))
    }

    /// After the last stage: another pass follows, or the erasure is finished.
    async fn end_pass(&self, fence: &Fence, pass: &Pass) -> Result<()> {
        let mut erasure = pass.erasure.clone();
        let is_over = erasure.quiet_since.is_some_and(|since| pass.begun >= since + GRACE);
        let due_at = if pass.found > 0 {
            erasure.quiet_since = None;
            Some(0)
        } else if is_over {
            self.drop_channels(&erasure.user).await?;
            None
        } else {
            erasure.quiet_since = erasure.quiet_since.or(Some(now()));
            Some(now() + GRACE)
        };
        if self.base.ledger.end_erasure_pass(fence, &erasure, due_at).await? && due_at.is_none() {
            self.base.metrics.erased();
        }
        Ok(())
    }

    /// Drops the logs of the user's channels.
    async fn drop_channels(&self, user: &UserId) -> Result<()> {
        let user = || user.clone();
        let channels = [Channel::Timeline(user()), Channel::Notifications(user()), Channel::User(user())];
        let lists = self.base.ledger.lists(&user()).await?.into_iter().map(|list| Channel::List(list.id));
        let names: Vec<String> = channels.into_iter().chain(lists).map(|channel| channel.to_string()).collect();
        Ok(self.base.broker.drop_logs(&names).await?)
    }
}

#[async_trait]
impl Consumer for ErasureWorker {
    async fn run(&mut self, fence: &Fence) -> Result<RunOutcome> {
        let ErasureJob { base, quarantine, .. } = &*self.job;
        let ledger = &base.ledger;
        if self.pass.is_none() {
            self.pass = self.job.begin_pass().await?;
        }
        let Some(mut pass) = self.pass.take() else { return Ok(RunOutcome::Idle(None)) };
        let (done, cause) = isolate(self.job.step(fence, &mut pass)).await;
        let user = &pass.erasure.user;
        match done {
            Ok(Some(pause)) => {
                self.pass = Some(pass);
                Ok(RunOutcome::Rest(pause))
            }
            Ok(None) => {
                quarantine.succeeded(user);
                Ok(RunOutcome::More)
            }
            Err(error) => {
                if let Some(fault) = quarantine.failed(user, &error, cause).await {
                    let reason = &fault.reason;
                    tracing::error!(%user, reason, "an erasure always fails and was quarantined");
                    ledger.set_aside(FailedWork::Erasure(user, fence), &fault).await?;
                    return Ok(RunOutcome::More);
                }
                // The pass begins again later, after other erasures. If this fails too, it begins again at once.
                let due_at = now() + RETRY_INTERVAL;
                if let Err(error) = ledger.end_erasure_pass(fence, &pass.erasure, Some(due_at)).await {
                    tracing::debug!(%error, "an erasure that failed could not be postponed");
                }
                Err(error)
            }
        }
    }
}

/// The stages. Each method processes a page, and returns the number of its rows.
impl ErasureJob {
    /// The next page of a user's own rows.
    async fn personal_page(&self, data: PersonalData, pass: &mut Pass, limit: usize) -> Result<Vec<PersonalRow>> {
        let rows = self.base.ledger.personal_rows(&pass.erasure.user, data, &pass.cursor, limit).await?;
        if let Some(last) = rows.last() {
            pass.cursor.clone_from(&last.key);
        }
        Ok(rows)
    }

    /// Ends follows, and removes the followees' posts from the followers' timelines.
    async fn follows(&self, data: PersonalData, pass: &mut Pass) -> Result<usize> {
        let rows = self.personal_page(data, pass, PAGE).await?;
        let user = &pass.erasure.user;
        let found = rows.len();
        let ends = stream::iter(rows).map(|row| async move {
            let other = row.other.as_ref().ok_or_else(|| unreadable("follow", &row))?;
            let (follower, followee) = if data == PersonalData::Followers { (other, user) } else { (user, other) };
            if let Some(job) = self.base.ledger.unfollow(follower, followee, now()).await? {
                self.edges.run_now(job, false).await;
            }
            Ok::<_, FeedError>(())
        });
        ends.buffer_unordered(CONCURRENCY).try_collect::<()>().await?;
        Ok(found)
    }

    async fn posts(&self, pass: &mut Pass) -> Result<usize> {
        let rows = self.personal_page(PersonalData::Posts, pass, POSTS_PER_PAGE).await?;
        let user = &pass.erasure.user;
        for row in &rows {
            let post = PostId::parse(&row.key).ok_or_else(|| unreadable("post", row))?;
            let ticket = self.base.jobs.ticket(user);
            let deletion = self.base.ledger.delete_post(post, user, now()).await?;
            self.base.jobs.submit(deletion, ticket);
        }
        Ok(rows.len())
    }

    /// The logs of the posts hold the texts of the comments, so they are dropped; clients that recover from these logs
    /// reload the comments.
    async fn comments(&self, pass: &mut Pass) -> Result<usize> {
        let rows = self.personal_page(PersonalData::Comments, pass, PAGE).await?;
        let id = |row: &PersonalRow| CommentId::parse(&row.key).ok_or_else(|| unreadable("comment", row));
        let ids = rows.iter().map(id).collect::<std::result::Result<Vec<_>, _>>()?;
        let mut logs = BTreeSet::new();
        for comment in self.base.ledger.comments(&ids).await? {
            self.comments.remove(&comment, None).await?;
            logs.insert(Channel::Post(comment.post).to_string());
        }
        self.base.broker.drop_logs(&Vec::from_iter(logs)).await?;
        Ok(rows.len())
    }

    async fn favourites(&self, pass: &mut Pass) -> Result<usize> {
        let rows = self.personal_page(PersonalData::Favourites, pass, PAGE).await?;
        for row in &rows {
            let object =
                row.key.split_once(' ').and_then(|(kind, id)| ObjectType::parse(kind).zip(ObjectId::parse(id)));
            let (kind, id) = object.ok_or_else(|| unreadable("favourite", row))?;
            self.base.ledger.remove_favourite(&pass.erasure.user, &kind, &id).await?;
        }
        Ok(rows.len())
    }

    async fn likes(&self, user: &UserId) -> Result<usize> {
        let tallies = self.base.ledger.erase_likes(user, PAGE).await?;
        if !tallies.is_empty() {
            self.counts.publish(&tallies).await?;
        }
        Ok(tallies.len())
    }

    async fn notices(&self, user: &UserId) -> Result<usize> {
        let groups = self.base.ledger.erase_notices(user, PAGE).await?;
        let found = groups.len();
        self.notifications.publish_endings(groups.into_iter().filter(|(owner, _)| owner != user)).await?;
        Ok(found)
    }
}

/// The error of a row that cannot be removed. The erasure fails, instead of looking for more for ever.
fn unreadable(kind: &str, row: &PersonalRow) -> LedgerError {
    LedgerError::Failed(format!("the {kind} {:?} cannot be read", row.key))
}

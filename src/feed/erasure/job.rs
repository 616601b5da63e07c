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

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;

use crate::broker::Broker;
use crate::feed::error::{Result, isolate};
use crate::feed::identity::ErasureRecords;
use crate::feed::likes::CountPublisher;
use crate::feed::notifications::Notifications;
use crate::feed::posts::CommentService;
use crate::feed::runtime::{Runtime, now};
use crate::feed::timelines::EdgeJobs;
use crate::feed::work::{Consumer, JobQueue, Owner, Pace, Partition, QuarantinePolicy, Ran, work};
use crate::ledger::{Erasure, Fence, Ledger, LedgerError, PersonalData, PersonalRow};
use crate::metrics::Metrics;
use crate::model::{Channel, CommentId, Millis, ObjectId, ObjectType, PostId, UserId};

/// The name of the partition, and of its kind of work.
const PARTITION: &str = "erasure";

/// The longest duration of a write that was under way when its user was erased: longer than any ledger call.
const GRACE: Duration = Duration::from_secs(12);

/// How long an erasure that failed waits, while others run.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Erasures of other nodes are found at this interval.
const PACE: Pace = Pace { poll: Duration::from_secs(5), gather: Duration::ZERO };

/// Erasures in one look for those that are due. One of them runs; more are read because some may be unreadable.
const MAX_DUE: usize = 16;

/// The number of rows of a page, and the pause after it, in which other writes run.
const PAGE: usize = 200;
const PAUSE: Duration = Duration::from_millis(20);

/// The number of posts of one step. Each deletion creates a fan-out job; a small number keeps them from filling the
/// queue of jobs.
const POSTS_PER_PAGE: usize = 50;
const PAUSE_AFTER_POSTS: Duration = Duration::from_millis(250);

/// The number of rows of a page that are processed concurrently.
const CONCURRENCY: usize = 4;

/// The parts of a pass, in order.
const STAGES: [Stage; 9] = [
    Stage::Followers,
    Stage::Posts,
    Stage::Following,
    Stage::Comments,
    Stage::Favourites,
    Stage::Likes,
    Stage::Notices,
    Stage::Rest,
    Stage::DeletedPosts,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Follows by other users, and the posts in their timelines.
    Followers,
    /// Posts. Viewers of a post receive the same event as for any deletion.
    Posts,
    Following,
    /// Comments on posts of other users. A comment with replies stays, without its author and text.
    Comments,
    Favourites,
    Likes,
    /// Notifications of other users about this user.
    Notices,
    Rest,
    /// The remaining data of deleted posts, including other users' comments and likes. None of these rows is a write of
    /// the user, so they do not count as found. Recently deleted posts wait until no write to them can be under way.
    DeletedPosts,
}

/// A pass that is under way.
struct Pass {
    erasure: Erasure,
    begun: Millis,
    /// The index in [`STAGES`].
    stage: usize,
    /// The key of the last row that the stage has processed.
    cursor: String,
    /// The last post that the pass has deleted.
    before: PostId,
    /// Rows found in this pass.
    found: usize,
}

/// Removes the data of erased users.
pub(crate) struct ErasureJob {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    partition: Partition,
    records: Arc<ErasureRecords>,
    jobs: Arc<JobQueue>,
    edges: Arc<EdgeJobs>,
    comments: Arc<CommentService>,
    notifications: Arc<Notifications>,
    counts: Arc<CountPublisher>,
    quarantine: Arc<QuarantinePolicy>,
    metrics: Arc<Metrics>,
}

/// The worker of the partition.
struct ErasureWorker {
    job: Arc<ErasureJob>,
    pass: Option<Pass>,
}

impl ErasureJob {
    /// A worker for the erasures of this ledger: see [`start`](Self::start).
    #[expect(clippy::too_many_arguments, reason = "a constructor names everything that the service can touch")]
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        runtime: Arc<Runtime>,
        owner: &Owner,
        records: Arc<ErasureRecords>,
        jobs: Arc<JobQueue>,
        edges: Arc<EdgeJobs>,
        comments: Arc<CommentService>,
        notifications: Arc<Notifications>,
        counts: Arc<CountPublisher>,
        quarantine: Arc<QuarantinePolicy>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let partition = owner.partition(PARTITION, PARTITION);
        Self {
            ledger,
            broker,
            runtime,
            partition,
            records,
            jobs,
            edges,
            comments,
            notifications,
            counts,
            quarantine,
            metrics,
        }
    }

    /// Works on erasures until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        self.runtime.supervise("erasures", self, |job| async move {
            let mut worker = ErasureWorker { job: Arc::clone(&job), pass: None };
            work(&job.partition, &job.runtime, job.records.waker(), PACE, &job.quarantine, &mut worker).await;
        });
    }

    /// Begins a pass of the erasure that has waited longest; `None` if none is due.
    async fn begin_pass(&self) -> Result<Option<Pass>> {
        let begun = now();
        let Some(erasure) = self.ledger.due_erasures(begun, MAX_DUE).await?.into_iter().next() else { return Ok(None) };
        // Another node may have begun the erasure a moment ago.
        self.records.hide(&erasure.user);
        Ok(Some(Pass { erasure, begun, stage: 0, cursor: String::new(), before: PostId::MAX, found: 0 }))
    }

    /// Processes a page. Returns the pause after it; `None`: the pass has ended.
    async fn step(&self, fence: &Fence, pass: &mut Pass) -> Result<Option<Duration>> {
        let Some(stage) = STAGES.get(pass.stage).copied() else {
            self.end_pass(fence, pass).await?;
            return Ok(None);
        };
        let found = self.page(stage, pass).await?;
        if found == 0 {
            pass.stage += 1;
            pass.cursor.clear();
            return Ok(Some(Duration::ZERO));
        }
        if stage != Stage::DeletedPosts {
            pass.found += found;
        }
        Ok(Some(if stage == Stage::Posts { PAUSE_AFTER_POSTS } else { PAUSE }))
    }

    /// Processes the next page of a stage. Returns the number of its rows: none are left after an empty one.
    async fn page(&self, stage: Stage, pass: &mut Pass) -> Result<usize> {
        match stage {
            Stage::Followers => self.followers(pass).await,
            Stage::Posts => self.posts(pass).await,
            Stage::Following => self.following(pass).await,
            Stage::Comments => self.comments(pass).await,
            Stage::Favourites => self.favourites(pass).await,
            Stage::Likes => self.likes(&pass.erasure.user).await,
            Stage::Notices => self.notices(&pass.erasure.user).await,
            Stage::Rest => Ok(self.ledger.erase_rest(&pass.erasure.user, PAGE).await?),
            Stage::DeletedPosts => {
                let before = now().saturating_sub(millis(GRACE) / 2);
                Ok(self.ledger.erase_deleted_posts(&pass.erasure.user, before, PAGE).await?)
            }
        }
    }

    /// After the last stage: another pass follows, or the erasure is finished.
    async fn end_pass(&self, fence: &Fence, pass: &Pass) -> Result<()> {
        let Erasure { user, at, quiet_since } = pass.erasure.clone();
        let is_over = quiet_since.is_some_and(|since| pass.begun >= after(since, GRACE));
        if pass.found == 0 && is_over {
            self.drop_channels(&user).await?;
            if self.ledger.finish_erasure(fence, &user).await? {
                self.metrics.erased();
            }
            return Ok(());
        }
        let (quiet_since, due_at) =
            if pass.found > 0 { (None, 0) } else { (quiet_since.or(Some(now())), after(now(), GRACE)) };
        self.ledger.advance_erasure(fence, &Erasure { user, at, quiet_since }, due_at).await?;
        Ok(())
    }

    /// Drops the logs of the user's channels.
    async fn drop_channels(&self, user: &UserId) -> Result<()> {
        let user = || user.clone();
        let channels = [Channel::Timeline(user()), Channel::Notifications(user()), Channel::User(user())];
        Ok(self.broker.drop_logs(&channels.map(|channel| channel.to_string())).await?)
    }

    /// Ends a follow, and removes the followee's posts from the follower's timeline.
    async fn end_follow(&self, follower: &UserId, followee: &UserId) -> Result<()> {
        let now = now();
        if let Some(job) = self.ledger.unfollow(follower, followee, now).await? {
            self.edges.run_now(job).await;
        }
        Ok(())
    }
}

#[async_trait]
impl Consumer for ErasureWorker {
    async fn begin(&mut self, _: &Fence) -> Result<()> {
        self.pass = None;
        Ok(())
    }

    async fn run(&mut self, fence: &Fence) -> Result<Ran> {
        let pass = match self.pass.take() {
            Some(pass) => Some(pass),
            None => self.job.begin_pass().await?,
        };
        let Some(mut pass) = pass else { return Ok(Ran::Idle(None)) };
        let (done, cause) = isolate(self.job.step(fence, &mut pass)).await;
        match done {
            Ok(Some(pause)) => {
                self.pass = Some(pass);
                Ok(Ran::Rest(pause))
            }
            Ok(None) => {
                self.job.quarantine.succeeded(&pass.erasure.user);
                Ok(Ran::More)
            }
            Err(error) => {
                if let Some(fault) = self.job.quarantine.failed(&pass.erasure.user, &error, cause).await {
                    let (user, reason) = (&pass.erasure.user, &fault.reason);
                    tracing::error!(%user, reason, "an erasure always fails and was quarantined");
                    self.job.ledger.quarantine_erasure(fence, &pass.erasure, &fault).await?;
                    return Ok(Ran::More);
                }
                // The pass begins again later, after other erasures. If this fails too, it begins again at once.
                let due_at = after(now(), RETRY_INTERVAL);
                if let Err(error) = self.job.ledger.advance_erasure(fence, &pass.erasure, due_at).await {
                    tracing::debug!(%error, "an erasure that failed could not be postponed");
                }
                Err(error)
            }
        }
    }
}

/// A favourite as [`PersonalData::Favourites`] lists it.
#[derive(Deserialize)]
struct FavouriteRow {
    r#type: ObjectType,
    id: ObjectId,
}

/// The stages. Each method processes a page, and returns the number of its rows.
impl ErasureJob {
    /// The next page of a user's own rows.
    async fn personal_page(&self, data: PersonalData, pass: &mut Pass) -> Result<Vec<PersonalRow>> {
        let rows = self.ledger.personal_rows(&pass.erasure.user, data, &pass.cursor, PAGE).await?;
        if let Some(last) = rows.last() {
            pass.cursor.clone_from(&last.key);
        }
        Ok(rows)
    }

    async fn followers(&self, pass: &mut Pass) -> Result<usize> {
        let user = &pass.erasure.user;
        let followers = self.ledger.followers_after(user, &pass.cursor, PAGE).await?;
        let Some(last) = followers.last() else { return Ok(0) };
        pass.cursor = last.to_string();
        let found = followers.len();
        let ends = stream::iter(followers).map(|follower| async move { self.end_follow(&follower, user).await });
        ends.buffer_unordered(CONCURRENCY).try_collect::<Vec<()>>().await?;
        Ok(found)
    }

    async fn posts(&self, pass: &mut Pass) -> Result<usize> {
        let user = &pass.erasure.user;
        let posts = self.ledger.author_posts(user, pass.before, POSTS_PER_PAGE).await?;
        for post in &posts {
            let ticket = self.jobs.ticket(user);
            let deletion = self.ledger.delete_post(*post, user, now()).await?;
            self.jobs.submit(deletion, ticket);
            pass.before = *post;
        }
        Ok(posts.len())
    }

    async fn following(&self, pass: &mut Pass) -> Result<usize> {
        let rows = self.personal_page(PersonalData::Following, pass).await?;
        for row in &rows {
            let followee = row.other.as_ref().ok_or_else(|| unreadable("follow", row, &"no user"))?;
            self.end_follow(&pass.erasure.user, followee).await?;
        }
        Ok(rows.len())
    }

    /// The logs of the posts hold the texts of the comments, so they are dropped; clients that recover from these logs
    /// reload the comments.
    async fn comments(&self, pass: &mut Pass) -> Result<usize> {
        let rows = self.personal_page(PersonalData::Comments, pass).await?;
        let id = |row: &PersonalRow| CommentId::parse(&row.key).ok_or_else(|| unreadable("comment", row, &"no id"));
        let ids = rows.iter().map(id).collect::<std::result::Result<Vec<_>, _>>()?;
        let mut logs = BTreeSet::new();
        for comment in self.ledger.comments(&ids).await? {
            self.comments.remove(&comment, None).await?;
            logs.insert(Channel::Post(comment.post).to_string());
        }
        self.broker.drop_logs(&Vec::from_iter(logs)).await?;
        Ok(rows.len())
    }

    async fn favourites(&self, pass: &mut Pass) -> Result<usize> {
        let rows = self.personal_page(PersonalData::Favourites, pass).await?;
        for row in &rows {
            let FavouriteRow { r#type, id } =
                serde_json::from_str(&row.json).map_err(|error| unreadable("favourite", row, &error))?;
            self.ledger.remove_favourite(&pass.erasure.user, &r#type, &id).await?;
        }
        Ok(rows.len())
    }

    async fn likes(&self, user: &UserId) -> Result<usize> {
        let tallies = self.ledger.erase_likes(user, PAGE).await?;
        if !tallies.is_empty() {
            self.counts.publish(&tallies).await?;
        }
        Ok(tallies.len())
    }

    async fn notices(&self, user: &UserId) -> Result<usize> {
        let groups = self.ledger.erase_notices(user, PAGE).await?;
        for (owner, group) in groups.iter().filter(|(owner, _)| owner != user) {
            self.notifications.push_update(owner, *group).await?;
        }
        Ok(groups.len())
    }
}

/// The error of a row that cannot be removed. The erasure fails, instead of looking for more for ever.
fn unreadable(kind: &str, row: &PersonalRow, why: &dyn std::fmt::Display) -> LedgerError {
    LedgerError::Failed(format!("the {kind} {:?} cannot be read: {why}", row.key))
}

fn millis(time: Duration) -> Millis {
    Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX)
}

fn after(at: Millis, time: Duration) -> Millis {
    at.saturating_add(millis(time))
}

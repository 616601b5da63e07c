//! The job that removes the data of an erased user.
//!
//! A pass processes all data of the user in pages, with pauses, so that the ledger's writer is never held for long.
//! After a pass that finds nothing, the job waits [`GRACE`] and makes another: a write that began before the erasure
//! may have ended after the first pass. If the second pass finds nothing either, the erasure is finished.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;

use crate::backoff::Backoff;
use crate::broker::Broker;
use crate::feed::error::{Result, isolate};
use crate::feed::identity::ErasureRecords;
use crate::feed::likes::CountPublisher;
use crate::feed::notifications::Notifications;
use crate::feed::posts::CommentService;
use crate::feed::runtime::{Runtime, now};
use crate::feed::timelines::EdgeJobs;
use crate::feed::work::{JobQueue, QuarantinePolicy};
use crate::ledger::{Erasure, ErasureLease, Fault, Ledger, PersonalData, PersonalRow};
use crate::metrics::Metrics;
use crate::model::{Channel, CommentId, Millis, ObjectId, ObjectType, PostId, UserId};

/// The longest duration of a write that was under way when its user was erased: longer than any ledger call.
const GRACE: Duration = Duration::from_secs(12);

/// The interval at which a node looks for erasures that no node is working on.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// How long an erasure stays claimed without a renewal.
const LEASE: Duration = Duration::from_secs(10);

/// The pause after a failure; it doubles up to [`MAX_BACKOFF`].
const MIN_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// The number of rows of a page, and the pause after it, in which other writes run.
const PAGE: usize = 200;
const PAUSE: Duration = Duration::from_millis(20);

/// The number of posts of one step. Each deletion creates a fan-out job; a small number keeps them from filling the
/// lanes.
const POSTS_PER_PAGE: usize = 50;
const PAUSE_AFTER_POSTS: Duration = Duration::from_millis(250);

/// The number of rows of a page that are processed concurrently.
const CONCURRENCY: usize = 4;

/// The failing erasures that a process counts.
const MAX_FAILING: usize = 1_000;

/// An erasure that this node works on.
struct Pass<'a> {
    job: &'a ErasureJob,
    erasure: Erasure,
    /// Rows found in this pass.
    found: usize,
}

/// The reason why a pass ended.
enum PassOutcome {
    /// The pass processed everything.
    Complete,
    /// Another node has claimed the erasure.
    Lost,
}

/// Returns from the pass if the erasure was lost.
macro_rules! step {
    ($step:expr) => {
        if matches!($step.await?, PassOutcome::Lost) {
            return Ok(PassOutcome::Lost);
        }
    };
}

/// Removes the data of erased users.
pub(crate) struct ErasureJob {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    runtime: Arc<Runtime>,
    records: Arc<ErasureRecords>,
    jobs: Arc<JobQueue>,
    edges: Arc<EdgeJobs>,
    comments: Arc<CommentService>,
    notifications: Arc<Notifications>,
    counts: Arc<CountPublisher>,
    quarantine: Arc<QuarantinePolicy>,
    metrics: Arc<Metrics>,
}

impl ErasureJob {
    /// A worker for the erasures of this ledger: see [`start`](Self::start).
    #[expect(clippy::too_many_arguments, reason = "a constructor names everything that the service can touch")]
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        broker: Arc<dyn Broker>,
        runtime: Arc<Runtime>,
        records: Arc<ErasureRecords>,
        jobs: Arc<JobQueue>,
        edges: Arc<EdgeJobs>,
        comments: Arc<CommentService>,
        notifications: Arc<Notifications>,
        counts: Arc<CountPublisher>,
        quarantine: Arc<QuarantinePolicy>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { ledger, broker, runtime, records, jobs, edges, comments, notifications, counts, quarantine, metrics }
    }

    /// Works on erasures, one at a time, until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        self.runtime.supervise("erasures", self, |job| async move {
            let mut backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
            let mut failing = HashMap::new();
            loop {
                let pause = match job.work(&mut failing).await {
                    Ok(true) => Duration::ZERO,
                    Ok(false) => POLL_INTERVAL.mul_f64(rand::random_range(0.8..1.2)),
                    Err(error) => {
                        job.quarantine.note_outage(&error);
                        let pause = backoff.next_delay();
                        tracing::warn!(%error, ?pause, "an erasure waits for its stores");
                        if !job.runtime.sleep(pause).await {
                            return;
                        }
                        continue;
                    }
                };
                backoff.reset();
                tokio::select! {
                    more = job.runtime.sleep(pause) => if !more { return },
                    () = job.records.job_woken(), if !pause.is_zero() => {}
                }
            }
        });
    }

    fn lease(&self, until: Millis) -> ErasureLease {
        ErasureLease { holder: (**self.runtime.holder()).into(), until }
    }

    /// Claims an erasure and makes a pass. `false` if there is no erasure to process now. `failing`: the consecutive
    /// failures of erasures while the stores worked.
    async fn work(&self, failing: &mut HashMap<UserId, u32>) -> Result<bool> {
        let begun = now();
        let lease = self.lease(after(begun, LEASE));
        let Some(erasure) = self.ledger.claim_erasure(begun, &lease).await? else { return Ok(false) };
        let (done, cause) = isolate(self.make_pass(erasure.clone(), begun)).await;
        let error = match done {
            Ok(()) => {
                self.quarantine.succeeded();
                failing.remove(&erasure.user);
                return Ok(true);
            }
            Err(error) => error,
        };
        if error.is_outage() {
            return Err(error);
        }
        if failing.len() >= MAX_FAILING {
            failing.clear();
        }
        let failures = failing.entry(erasure.user.clone()).or_insert(0);
        *failures += 1;
        if !self.quarantine.admits(*failures, &error).await {
            return Err(error);
        }
        tracing::error!(user = %erasure.user, cause, "an erasure always fails and was quarantined");
        let fault = Fault::now(cause, *failures);
        self.ledger.quarantine_erasure(&erasure, self.runtime.holder(), &fault).await?;
        failing.remove(&erasure.user);
        Ok(true)
    }

    async fn make_pass(&self, erasure: Erasure, begun: Millis) -> Result<()> {
        // Another node may have begun the erasure a moment ago.
        self.records.hide(&erasure.user);
        let mut pass = Pass { job: self, erasure, found: 0 };
        if matches!(pass.run().await?, PassOutcome::Lost) {
            return Ok(());
        }
        let Pass { mut erasure, found, .. } = pass;
        match erasure.quiet_since {
            _ if found > 0 => {
                erasure.quiet_since = None;
                self.ledger.advance_erasure(&erasure, &self.lease(0)).await?;
            }
            Some(since) if begun >= after(since, GRACE) => {
                self.drop_channels(&erasure.user).await?;
                self.ledger.finish_erasure(&erasure.user, self.runtime.holder()).await?;
                self.metrics.erased();
            }
            since => {
                erasure.quiet_since = since.or(Some(now()));
                self.ledger.advance_erasure(&erasure, &self.lease(after(now(), GRACE))).await?;
            }
        }
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

/// A favourite as [`PersonalData::Favourites`] lists it.
#[derive(Deserialize)]
struct FavouriteRow {
    r#type: ObjectType,
    id: ObjectId,
}

impl Pass<'_> {
    async fn run(&mut self) -> Result<PassOutcome> {
        step!(self.followers());
        step!(self.posts());
        step!(self.following());
        step!(self.comments());
        step!(self.favourites());
        step!(self.likes());
        step!(self.notices());
        step!(self.rest());
        self.deleted_posts().await
    }

    /// After a page: extends the claim on the erasure, and pauses so that other writes can run.
    async fn next(&mut self, found: usize, pause: Duration) -> Result<PassOutcome> {
        self.found += found;
        let lease = self.job.lease(after(now(), LEASE));
        let is_held = self.job.ledger.advance_erasure(&self.erasure, &lease).await?;
        let goes_on = is_held && self.job.runtime.sleep(pause).await;
        Ok(if goes_on { PassOutcome::Complete } else { PassOutcome::Lost })
    }

    /// The next page of a user's own rows, after the key `after`; `None` at the end. Advances `after` to the end of the
    /// page.
    async fn personal_page(&self, data: PersonalData, after: &mut String) -> Result<Option<Vec<PersonalRow>>> {
        let rows = self.job.ledger.personal_rows(&self.erasure.user, data, after, PAGE).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        after.clone_from(&last.key);
        Ok(Some(rows))
    }

    /// Removes follows by other users, and the posts from their timelines.
    async fn followers(&mut self) -> Result<PassOutcome> {
        let mut cursor = String::new();
        loop {
            let (job, user) = (self.job, &self.erasure.user);
            let followers = job.ledger.followers_after(user, &cursor, PAGE).await?;
            let Some(last) = followers.last() else { return Ok(PassOutcome::Complete) };
            cursor = last.to_string();
            let found = followers.len();
            let ends = stream::iter(followers).map(|follower| async move { job.end_follow(&follower, user).await });
            ends.buffer_unordered(CONCURRENCY).try_collect::<Vec<()>>().await?;
            step!(self.next(found, PAUSE));
        }
    }

    /// Deletes posts. Viewers of a post receive the same event as for any deletion.
    async fn posts(&mut self) -> Result<PassOutcome> {
        let mut before = PostId::MAX;
        loop {
            let (job, user) = (self.job, &self.erasure.user);
            let posts = job.ledger.author_posts(user, before, POSTS_PER_PAGE).await?;
            let Some(last) = posts.last() else { return Ok(PassOutcome::Complete) };
            before = *last;
            for post in &posts {
                let ticket = job.jobs.ticket(user);
                let deletion = job.ledger.delete_post(*post, user, now()).await?;
                job.jobs.submit(deletion, ticket);
            }
            step!(self.next(posts.len(), PAUSE_AFTER_POSTS));
        }
    }

    async fn following(&mut self) -> Result<PassOutcome> {
        let mut after = String::new();
        loop {
            let (job, user) = (self.job, &self.erasure.user);
            let Some(rows) = self.personal_page(PersonalData::Following, &mut after).await? else {
                return Ok(PassOutcome::Complete);
            };
            for followee in rows.iter().filter_map(|row| row.other.as_ref()) {
                job.end_follow(user, followee).await?;
            }
            step!(self.next(rows.len(), PAUSE));
        }
    }

    /// Deletes comments on posts of other users. A comment with replies stays, without its author and text. The logs of
    /// these posts hold the text, so they are dropped; clients that recover from these logs reload the comments.
    async fn comments(&mut self) -> Result<PassOutcome> {
        let mut after = String::new();
        loop {
            let job = self.job;
            let Some(rows) = self.personal_page(PersonalData::Comments, &mut after).await? else {
                return Ok(PassOutcome::Complete);
            };
            let ids: Vec<CommentId> = rows.iter().filter_map(|row| CommentId::parse(&row.key)).collect();
            let mut logs = BTreeSet::new();
            for comment in job.ledger.comments(&ids).await? {
                job.comments.remove(&comment, None).await?;
                logs.insert(Channel::Post(comment.post).to_string());
            }
            job.broker.drop_logs(&Vec::from_iter(logs)).await?;
            step!(self.next(rows.len(), PAUSE));
        }
    }

    async fn favourites(&mut self) -> Result<PassOutcome> {
        let mut after = String::new();
        loop {
            let (job, user) = (self.job, &self.erasure.user);
            let Some(rows) = self.personal_page(PersonalData::Favourites, &mut after).await? else {
                return Ok(PassOutcome::Complete);
            };
            for row in &rows {
                match serde_json::from_str::<FavouriteRow>(&row.json) {
                    Ok(row) => _ = job.ledger.remove_favourite(user, &row.r#type, &row.id).await?,
                    Err(error) => tracing::error!(%error, key = row.key, "a favourite cannot be read, it stays"),
                }
            }
            step!(self.next(rows.len(), PAUSE));
        }
    }

    async fn likes(&mut self) -> Result<PassOutcome> {
        loop {
            let tallies = self.job.ledger.erase_likes(&self.erasure.user, PAGE).await?;
            if tallies.is_empty() {
                return Ok(PassOutcome::Complete);
            }
            self.job.counts.publish(&tallies).await?;
            step!(self.next(tallies.len(), PAUSE));
        }
    }

    /// Removes notifications of other users about this user.
    async fn notices(&mut self) -> Result<PassOutcome> {
        loop {
            let user = &self.erasure.user;
            let groups = self.job.ledger.erase_notices(user, PAGE).await?;
            if groups.is_empty() {
                return Ok(PassOutcome::Complete);
            }
            for (owner, group) in groups.iter().filter(|(owner, _)| owner != user) {
                self.job.notifications.push_update(owner, *group).await?;
            }
            step!(self.next(groups.len(), PAUSE));
        }
    }

    async fn rest(&mut self) -> Result<PassOutcome> {
        loop {
            let removed = self.job.ledger.erase_rest(&self.erasure.user, PAGE).await?;
            if removed == 0 {
                return Ok(PassOutcome::Complete);
            }
            step!(self.next(removed, PAUSE));
        }
    }

    /// Removes the remaining data of deleted posts, including other users' comments and likes. None of these rows is a
    /// write of the user, so they do not count as found. Recently deleted posts wait until no write to them can be
    /// under way.
    async fn deleted_posts(&mut self) -> Result<PassOutcome> {
        loop {
            let before = now().saturating_sub(millis(GRACE) / 2);
            let removed = self.job.ledger.erase_deleted_posts(&self.erasure.user, before, PAGE).await?;
            if removed < PAGE {
                return Ok(PassOutcome::Complete);
            }
            step!(self.next(0, PAUSE));
        }
    }
}

fn millis(time: Duration) -> Millis {
    Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX)
}

fn after(at: Millis, time: Duration) -> Millis {
    at.saturating_add(millis(time))
}

//! Runs each kind of job: appends its change to the logs of profiles, topics and posts, then to inboxes.

use std::sync::Arc;

use super::follower_scanner::{FollowerScan, FollowerScanner};
use super::lock_job;
use super::repost_hiding;
use super::running_job::{JobOutcome, RunningJob};
use super::topic_and_list_entries;
use crate::broker::{Append, Invalidation, PageRecipients, Signal};
use crate::feed::base::Base;
use crate::feed::error::Result;
use crate::feed::favourites::FavouriteService;
use crate::feed::pushes::ending_plan;
use crate::feed::runtime::now;
use crate::feed::timelines::{EdgeJobs, EdgeOutcome};
use crate::feed::visibility::Recipients;
use crate::feed::work::QueuedJob;
use crate::ledger::{JOBS, Job, JobId, PostAlertPage, VisibilityChange, Work};
use crate::model::{Channel, Entry, GoneReason, Millis, PostId, PostRemoved, Retention, UserId, Visibility};
use crate::telemetry::SpanKind;

/// The users of a page of alerts. One transaction queues it.
const ALERTS_PER_PAGE: usize = 500;

/// Dispatches jobs: to follower scans, to the pull log, or to edge jobs.
pub(super) struct Dispatcher {
    pub(super) base: Arc<Base>,
    pub(super) favourites: Arc<FavouriteService>,
    pub(super) edges: Arc<EdgeJobs>,
    pub(super) scanner: FollowerScanner,
}

impl Dispatcher {
    /// Makes one attempt at a job.
    ///
    /// # Errors
    /// If a store cannot be reached: the attempt is repeated.
    pub(super) async fn attempt(&self, queued: &QueuedJob, running: &mut RunningJob) -> Result<JobOutcome> {
        let job = &queued.job;
        self.base.lineage.note_number(JOBS, job.id.0).await?;
        if !matches!(job.work, Work::Edge { .. })
            && let Some(outcome) = running.begin(&self.base).await?
        {
            return Ok(outcome);
        }
        match &job.work {
            Work::Post { post, author, trace: _ } => self.fan_out_post(job, *post, author, running).await,
            Work::Delete { post, author, topics, visibility } => {
                let removal = removed(*post, author, visibility, GoneReason::Deleted);
                self.fan_out_deletion(job, removal, topics, running).await
            }
            Work::Edit { post, author, topics, visibility } => {
                // The entry of an edit shows the post, so every node must drop the former version first. The command
                // also waits for that, but its node may have died.
                self.base.invalidator.invalidate(&[Invalidation::Post(*post)]).await?;
                if running.is_unpublished() {
                    let before = removed(*post, author, visibility, GoneReason::Hidden);
                    publish_edit(&self.base, job.id, before, topics).await?;
                    running.has_published = true;
                }
                let entry = Entry::Edited(*post);
                let recipients = Recipients::RemainingViewers { before: visibility };
                let outcome = self.dispatch(&scan(job, &entry, recipients), running).await?;
                topic_and_list_entries::edited(&self.base, *post, topics).await?;
                Ok(outcome)
            }
            Work::RevokeVisibility { post, change, .. } => {
                // Another node may have edited the post and died before this node received the invalidation.
                self.base.posts.invalidate(*post);
                let recipients = match change {
                    Some(VisibilityChange { before, after }) => Recipients::FormerViewers { before, after },
                    None => Recipients::NonViewers,
                };
                let entry = Entry::Gone(*post, GoneReason::Hidden);
                let outcome = self.dispatch(&scan(job, &entry, recipients), running).await?;
                topic_and_list_entries::of_post(&self.base, *post, &entry).await?;
                // Nobody loses a post that is for everyone now.
                if change.as_ref().is_none_or(|change| change.after != Visibility::Public) {
                    repost_hiding::of_post(&self.base, *post, running).await?;
                }
                self.clear_alerts_after(outcome, *post, running).await
            }
            Work::GrantVisibility { post, change, .. } => {
                self.base.posts.invalidate(*post);
                let entry = Entry::Post(*post);
                let scan = match change {
                    Some(VisibilityChange { before, after }) => {
                        scan(job, &entry, Recipients::NewViewers { before, after })
                    }
                    // It was released from the quarantine: inboxes are searched for the post.
                    None => FollowerScan { created_at: 0, ..scan(job, &entry, Recipients::Viewers) },
                };
                let outcome = self.dispatch(&scan, running).await?;
                topic_and_list_entries::of_post(&self.base, *post, &entry).await?;
                Ok(outcome)
            }
            Work::HideAuthor { post, author } => {
                let entry = Entry::AuthorGone(*post);
                if !running.tokens.are_valid() {
                    return Ok(JobOutcome::Fenced);
                }
                let outcome = self.pull(job.id, author, &entry, false).await?;
                topic_and_list_entries::author_gone(&self.base, author, &entry).await?;
                repost_hiding::of_author(&self.base, author, running).await?;
                Ok(outcome)
            }
            Work::HideRepost { repost, .. } => {
                let entry = Entry::AuthorGone(*repost);
                let outcome = self.dispatch(&scan(job, &entry, Recipients::LosersOfRepost), running).await?;
                topic_and_list_entries::of_post(&self.base, *repost, &entry).await?;
                Ok(outcome)
            }
            Work::LockChanged { accept_through, .. } => lock_job::run(&self.base, job, *accept_through, running).await,
            Work::Edge { .. } => Ok(match self.edges.run(job, queued.is_repeated).await? {
                EdgeOutcome::Done => JobOutcome::Done,
                EdgeOutcome::Repeat => JobOutcome::Repeat,
            }),
        }
    }

    async fn fan_out_post(
        &self,
        job: &Job,
        post: PostId,
        author: &UserId,
        running: &mut RunningJob,
    ) -> Result<JobOutcome> {
        if !running.is_fresh() {
            // Another node may have deleted the post while this node was cut off from the broker.
            self.base.posts.invalidate(post);
        }
        // A deleted post is not fanned out any further.
        let Some(cached) = self.base.posts.get([post]).await?.remove(&post) else { return Ok(JobOutcome::Done) };
        let entry = Entry::Post(post);
        self.announce_trace(post, running).await;
        if running.is_unpublished() {
            let mut span = self.base.tracer.child(running.trace, "publish channels", SpanKind::Producer);
            let published = publish(&self.base, job.id, author, &cached.post.topics, &entry).await;
            if let Err(error) = &published {
                span.fail(error.code());
            }
            span.end();
            published?;
            running.has_published = true;
        }
        let scan = FollowerScan { trace: running.trace, ..scan(job, &entry, Recipients::Viewers) };
        let outcome = self.dispatch(&scan, running).await?;
        topic_and_list_entries::of_post(&self.base, post, &entry).await?;
        // Users asked for alerts about what an author writes.
        match (outcome, self.base.options.pushes.plan.filter(|_| cached.post.repost.is_none())) {
            (JobOutcome::Done, Some(plan)) => self.queue_alerts(job, post, plan.grace, running).await,
            (outcome, _) => Ok(outcome),
        }
    }

    /// Signals the trace of a post to all nodes, before the first hint of the post.
    async fn announce_trace(&self, post: PostId, running: &RunningJob) {
        let trace = running.trace;
        if trace.is_none() {
            return;
        }
        self.base.tracer.note_post(post, trace);
        if let Err(error) = self.base.broker.signal(Signal::PostTraced { post, trace }).await {
            tracing::debug!(%error, %post, "a trace was not signalled, deliveries of other nodes have no spans");
        }
    }

    /// Queues alerts about a post for the users who asked for them. A repeated attempt queues nothing twice.
    async fn queue_alerts(&self, job: &Job, post: PostId, grace: Millis, running: &RunningJob) -> Result<JobOutcome> {
        let author = job.work.author();
        let followers = self.base.followers.cached(author);
        if followers.as_ref().is_some_and(|followers| followers.is_without_alerts()) {
            return Ok(JobOutcome::Done);
        }
        let mut after = String::new();
        while running.tokens.are_valid() {
            let author = author.clone();
            let now = now();
            let due_at = job.created_at.saturating_add(grace).max(now);
            let page = PostAlertPage { post, author, after: after.clone(), users: ALERTS_PER_PAGE, due_at };
            if let Some(last) = self.base.ledger.queue_post_alerts(&page, now).await? {
                after = last.to_string();
                continue;
            }
            if let Some(followers) = followers.filter(|_| after.is_empty()) {
                followers.note_without_alerts();
            }
            return Ok(JobOutcome::Done);
        }
        Ok(JobOutcome::Fenced)
    }

    async fn fan_out_deletion(
        &self,
        job: &Job,
        removal: PostRemoved,
        topics: &[String],
        running: &mut RunningJob,
    ) -> Result<JobOutcome> {
        let PostRemoved { post, author, visibility, .. } = removal.clone();
        self.base.invalidator.invalidate(&[Invalidation::Post(post)]).await?;
        if running.is_unpublished() {
            let removal = Entry::PostRemoved(Box::new(removal));
            publish(&self.base, job.id, &author, topics, &removal).await?;
            append(&self.base, job.id, &Channel::Post(post), &removal).await?;
            running.has_published = true;
        }
        let entry = Entry::Gone(post, GoneReason::Deleted);
        let outcome = self.dispatch(&scan(job, &entry, Recipients::Holders { before: &visibility }), running).await?;
        topic_and_list_entries::append(&self.base, &author, topics, &entry).await?;
        repost_hiding::of_post(&self.base, post, running).await?;
        self.favourites.remove_deleted_post(post).await?;
        self.clear_alerts_after(outcome, post, running).await
    }

    /// Withdraws alerts about a post from the devices of users who may not see it any more.
    async fn clear_alerts_after(&self, outcome: JobOutcome, post: PostId, running: &RunningJob) -> Result<JobOutcome> {
        if !matches!(outcome, JobOutcome::Done) || self.base.options.pushes.plan.is_none() {
            return Ok(outcome);
        }
        let mut after = String::new();
        while running.tokens.are_valid() {
            let users = self.base.ledger.alerted_users(post, &after, ALERTS_PER_PAGE).await?;
            let Some(last) = users.last() else { return Ok(JobOutcome::Done) };
            after = last.to_string();
            let pairs: Vec<(UserId, PostId)> = users.into_iter().map(|user| (user, post)).collect();
            let seen = self.base.visibility.can_see_posts(&pairs).await?;
            let unseen = pairs.into_iter().zip(seen).filter(|(_, is_seen)| !is_seen);
            let items: Vec<(UserId, u64)> = unseen.map(|((user, post), _)| (user, post.0)).collect();
            if !items.is_empty() {
                self.base.ledger.clear_pushes(&items, &ending_plan()).await?;
            }
        }
        Ok(JobOutcome::Fenced)
    }

    /// Delivers an entry to the author's followers: by a scan that writes to each of them, or by the pull log if there
    /// are too many. Each entry uses a single mode, independent of the author's other entries.
    async fn dispatch(&self, scan: &FollowerScan<'_>, job: &mut RunningJob) -> Result<JobOutcome> {
        // A repeated attempt keeps the mode of the earlier attempt.
        if job.progress.own {
            return self.append_to_pull_log(scan, job).await;
        }
        if !job.is_fresh() {
            return self.scanner.run(scan, job).await;
        }
        let push_limit = self.base.options.fanout.push_limit;
        // Hysteresis: an author whose follower count fluctuates around the limit keeps the mode. Two posts in a row
        // with different modes could overtake each other.
        let lower = push_limit - push_limit / 5;
        let followers = self.base.followers.cached(scan.author);
        if followers.is_some_and(|followers| followers.len() <= lower) {
            // Most authors: the ledger need not be asked for their mode.
            return self.scanner.run(scan, job).await;
        }
        let mode = self.base.ledger.fanout_mode(scan.author).await?;
        if mode.followers > push_limit || (mode.pulled && mode.followers > lower) {
            return self.append_to_pull_log(scan, job).await;
        }
        self.scanner.run(scan, job).await
    }

    /// Appends an entry to the pull log, and signals all nodes. A node that misses the signal polls the log.
    async fn append_to_pull_log(&self, scan: &FollowerScan<'_>, job: &RunningJob) -> Result<JobOutcome> {
        if !job.progress.own {
            let own = vec![scan.author.clone()];
            let page = self.scanner.write(scan, &job.tokens, PageRecipients::Own, own).await?;
            if !self.scanner.finish(page).await? {
                return Ok(JobOutcome::Fenced);
            }
        }
        if !job.tokens.are_valid() {
            return Ok(JobOutcome::Fenced);
        }
        // Nodes read entries without their recipients. Some entries apply only to inboxes that hold the post.
        self.pull(job.tokens.attempt.job, scan.author, scan.entry, scan.recipients.needs_look()).await
    }

    /// Appends an entry to the pull log once for a job, and signals all nodes.
    async fn pull(&self, id: JobId, author: &UserId, entry: &Entry, needs_search: bool) -> Result<JobOutcome> {
        self.base.ledger.pull(id, author, entry, needs_search, now()).await?;
        if let Err(error) = self.base.broker.signal(Signal::PullLogAppended).await {
            tracing::debug!(%error, job = %id, "an entry of the pull log was not signalled, nodes poll it");
        }
        Ok(JobOutcome::Done)
    }
}

/// The removal of a post for all readers that could see it under its former visibility.
fn removed(post: PostId, author: &UserId, visibility: &Visibility, reason: GoneReason) -> PostRemoved {
    PostRemoved { post, author: author.clone(), visibility: visibility.clone(), reason }
}

/// A scan of the followers of a job's author.
fn scan<'a>(job: &'a Job, entry: &'a Entry, recipients: Recipients<'a>) -> FollowerScan<'a> {
    FollowerScan { author: job.work.author(), entry, recipients, created_at: job.created_at, trace: None }
}

/// Appends an entry to the profile of an author and to topics.
async fn publish(base: &Base, job: JobId, author: &UserId, topics: &[String], entry: &Entry) -> Result<()> {
    let channels = topics.iter().map(|topic| topic_channel(topic));
    for channel in std::iter::once(Channel::User(author.clone())).chain(channels) {
        append(base, job, &channel, entry).await?;
    }
    Ok(())
}

/// Appends an edit to the profile of the author, to the post and to its topics. The post is removed for readers
/// that lost access by the edit, and from topics that the edit removed.
async fn publish_edit(base: &Base, job: JobId, before: PostRemoved, topics: &[String]) -> Result<()> {
    let id = before.post;
    let Some(cached) = base.posts.get([id]).await?.remove(&id) else { return Ok(()) };
    let edited = Entry::Edited(id);
    let everywhere = [Channel::User(before.author.clone()), Channel::Post(id)];
    let narrowed = before.visibility != cached.post.visibility;
    let removed = Entry::PostRemoved(Box::new(before));
    for channel in &everywhere {
        append(base, job, channel, &edited).await?;
        if narrowed {
            append(base, job, channel, &removed).await?;
        }
    }
    for topic in &cached.post.topics {
        let entry = if topics.contains(topic) { edited.clone() } else { Entry::Post(id) };
        append(base, job, &topic_channel(topic), &entry).await?;
    }
    for topic in topics.iter().filter(|topic| narrowed || !cached.post.topics.contains(topic)) {
        append(base, job, &topic_channel(topic), &removed).await?;
    }
    Ok(())
}

/// Appends an entry, at most once of each kind for each job.
async fn append(base: &Base, job: JobId, channel: &Channel, entry: &Entry) -> Result<()> {
    let channel = channel.to_string();
    let kind = char::from(entry.encode().0);
    let key = format!("job {job} {kind}");
    let retention = Retention::SHARED;
    let append = Append { channel: &channel, entry, retention, idempotency_key: Some(&key), version: None };
    base.broker.append(append).await?;
    Ok(())
}

fn topic_channel(topic: &str) -> Channel {
    Channel::Topic(topic.into())
}

//! Carries posts to inboxes.
//!
//! A job is written with the post it carries, in one transaction, held by the process that wrote it. Workers walk the
//! followers page by page. The broker remembers each page that was written, so a page repeated after a crash, or by
//! a worker that lost its lease without noticing, changes nothing; and who repeats a job looks into each inbox, because
//! pages begin elsewhere once followers came or went. The cursor goes to the ledger now and then, with the
//! renewal of the lease; whoever claims the job of a dead worker starts from there.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Feed, FeedError, Result, now};
use crate::broker::{Append, Attempt, FanOut, FannedOut, Keep};
use crate::ledger::{Job, Lease, Work};
use crate::model::{Entry, GoneReason, Millis, PostId, UserId};

/// How posts are carried.
#[derive(Clone, Copy, Debug)]
pub struct FanoutOptions {
    /// Followers a page: one script call of the broker each.
    pub page: usize,
    /// Jobs carried at once.
    pub workers: usize,
    /// How long a job is held without a sign of life.
    pub lease: Duration,
}

/// How many jobs wait in memory for each worker. More stay in the ledger until their lease runs out and they are claimed.
const QUEUE: usize = 4_000;

/// How many jobs that nobody holds are claimed at once.
const CLAIM: usize = 200;

/// How much smaller a page is whose entries must look for a post in each inbox first: about 1 ms each where they search
/// all of it in vain, and Redis does nothing else meanwhile.
const SEARCHING: usize = 20;

/// Pages of one job on their way at once, so that the broker works while the ledger is read.
const AHEAD: usize = 3;

/// How much of the logs of `user:` and `topic:` is kept, for readers that come back.
const LIVE: Keep = Keep { size: 100, ttl: Duration::from_secs(3600) };

/// The job queues of this process: one a worker, and all jobs of an author in the same one, so that an author's posts
/// arrive in the order in which they were written.
pub(super) struct Fanout {
    options: FanoutOptions,
    /// Names this process in leases.
    holder: Arc<str>,
    lanes: Vec<mpsc::Sender<(Job, Attempt)>>,
    /// The other ends; the workers take them when they start.
    queued: Mutex<Vec<mpsc::Receiver<(Job, Attempt)>>>,
    /// Jobs that are in a lane: one whose lease ran out while it waited there is not queued twice.
    waiting: Mutex<HashSet<i64>>,
    hasher: RandomState,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Fanout {
    pub(super) fn new(options: FanoutOptions) -> Self {
        let (lanes, queued) = (0..options.workers.max(1)).map(|_| mpsc::channel(QUEUE)).unzip();
        Self {
            options,
            holder: uuid::Uuid::now_v7().simple().to_string().into(),
            lanes,
            queued: Mutex::new(queued),
            waiting: Mutex::default(),
            hasher: RandomState::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
        }
    }

    pub(super) fn holder(&self) -> &str {
        &self.holder
    }

    pub(super) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// This process's hold on a job from now on.
    pub(super) fn lease(&self, now: Millis) -> Lease {
        let lease = u64::try_from(self.options.lease.as_millis()).unwrap_or(u64::MAX);
        Lease { holder: Arc::clone(&self.holder), until: now.saturating_add(lease) }
    }

    /// Queues a job that was just written. If there is no room it waits in the ledger.
    pub(super) fn offer(&self, job: Job) {
        self.queue(job, Attempt::First);
    }

    fn queue(&self, job: Job, attempt: Attempt) {
        // Any number does, as long as it is the author's.
        let lane = self.hasher.hash_one(job.work.author()) as usize % self.lanes.len();
        let id = job.id;
        if self.waiting.lock().insert(id) && self.lanes[lane].try_send((job, attempt)).is_err() {
            self.waiting.lock().remove(&id);
            tracing::debug!(job = id, "the fan-out queue is full, the job waits in the ledger");
        }
    }

    /// Sleeps; `false` if it is time to stop.
    pub(super) async fn sleep(&self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => true,
            () = self.stopping.cancelled() => false,
        }
    }

    /// Until it is time to stop.
    pub(super) async fn stopped(&self) {
        self.stopping.cancelled().await;
    }

    pub(super) async fn stop(&self) {
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Feed {
    /// Starts the workers, and a look now and then at what other processes left behind.
    pub(super) fn start_fanout(self: &Arc<Self>) {
        for mut lane in self.fanout.queued.lock().drain(..) {
            let feed = Arc::clone(self);
            self.fanout.tasks.spawn(async move {
                let stopping = feed.fanout.stopping.clone();
                while let Some(Some((job, attempt))) = stopping.run_until_cancelled(lane.recv()).await {
                    let id = job.id;
                    feed.work(job, attempt).await;
                    feed.fanout.waiting.lock().remove(&id);
                }
            });
        }
        let feed = Arc::clone(self);
        self.fanout.tasks.spawn(async move {
            let every = feed.fanout.options.lease / 4;
            feed.claim_left_behind().await;
            while feed.fanout.sleep(every.mul_f64(rand::random_range(0.8..1.2))).await {
                feed.claim_left_behind().await;
            }
        });
    }

    async fn claim_left_behind(&self) {
        let now = now();
        match self.ledger.claim_jobs(now, &self.fanout.lease(now), CLAIM).await {
            Ok(jobs) => jobs.into_iter().for_each(|job| self.fanout.queue(job, Attempt::Repeated)),
            Err(error) => tracing::warn!(%error, "left behind jobs could not be claimed"),
        }
        match self.ledger.backlog().await {
            Ok(backlog) => {
                let age = backlog.oldest.map(|oldest| now.saturating_sub(oldest));
                self.metrics.fanout_backlog(backlog.jobs, age);
            }
            Err(error) => tracing::warn!(%error, "the fan-out backlog could not be counted"),
        }
    }

    /// Does a job, again and again until it is done, the lease is lost, or the process stops.
    async fn work(&self, job: Job, attempt: Attempt) {
        let mut held = Held { cursor: job.cursor.clone(), renewed: None, attempt };
        let mut pause = Duration::from_millis(50);
        loop {
            match self.attempt(&job, &mut held).await {
                Ok(Outcome::Done) => {
                    self.metrics.fanout_done(now().saturating_sub(job.created_at));
                    if let Err(error) = self.ledger.finish_job(job.id, &self.fanout.holder).await {
                        tracing::warn!(%error, job = job.id, "a finished job could not be marked so, it will be repeated");
                    }
                    return;
                }
                // It stays in the ledger until its lease runs out, and somebody claims it again.
                Ok(Outcome::Later) => return,
                Ok(Outcome::Lost) => return tracing::info!(job = job.id, "another worker has the job now"),
                Err(error) => {
                    tracing::warn!(%error, job = job.id, ?pause, "a fan-out waits for its stores");
                    let jitter = pause.mul_f64(rand::random_range(0.5..1.5));
                    if !self.fanout.sleep(jitter).await {
                        return;
                    }
                    pause = (pause * 2).min(Duration::from_secs(2));
                    // A page that seemed to fail may have been written.
                    held.attempt = Attempt::Repeated;
                }
            }
        }
    }

    async fn attempt(&self, job: &Job, held: &mut Held) -> Result<Outcome> {
        match &job.work {
            Work::Post { post, author } => {
                if held.attempt == Attempt::Repeated {
                    // It may have been deleted at another node while this one could not hear of it.
                    self.bodies.forget(*post);
                }
                // A post deleted meanwhile is not carried any further.
                let Some(body) = self.bodies.get([*post]).await?.remove(post) else { return Ok(Outcome::Done) };
                let entry = Entry::Post(*post);
                if held.cursor.is_empty() {
                    self.tell_channels(job.id, author, &body.post.topics, &entry).await?;
                }
                self.walk(job.id, author, &entry, held).await
            }
            Work::Delete { post, author, topics } => {
                self.forget(*post).await?;
                let entry = Entry::Gone(*post, GoneReason::Deleted);
                if held.cursor.is_empty() {
                    self.tell_channels(job.id, author, topics, &entry).await?;
                    self.tell_post(job.id, *post, &entry).await?;
                }
                self.walk(job.id, author, &entry, held).await
            }
            Work::Follow { .. } | Work::Unfollow { .. } => Ok(match self.carry_edge(job).await? {
                Carried::ForGood => Outcome::Done,
                Carried::ForNow => Outcome::Later,
            }),
        }
    }

    /// Does a job that concerns one timeline.
    pub(super) async fn carry_edge(&self, job: &Job) -> Result<Carried> {
        match &job.work {
            Work::Follow { reader, author } => self.bring_in(reader, author).await.map(|()| Carried::ForGood),
            Work::Unfollow { reader, author } => self.take_out(job.id, reader, author).await,
            Work::Post { .. } | Work::Delete { .. } => Ok(Carried::ForGood),
        }
    }

    /// Tells those who look at the author's profile or at a topic.
    async fn tell_channels(&self, job: i64, author: &UserId, topics: &[String], entry: &Entry) -> Result<()> {
        let key = format!("job {job}");
        let channels = topics.iter().map(|topic| format!("topic:{topic}"));
        for channel in std::iter::once(format!("user:{author}")).chain(channels) {
            let append = Append { channel: &channel, entry, keep: LIVE, idempotency_key: Some(&key), version: None };
            self.broker.append(append).await?;
        }
        Ok(())
    }

    /// Tells those who look at the post.
    async fn tell_post(&self, job: i64, post: PostId, entry: &Entry) -> Result<()> {
        let (channel, key) = (format!("post:{post}"), format!("job {job}"));
        let append = Append { channel: &channel, entry, keep: LIVE, idempotency_key: Some(&key), version: None };
        self.broker.append(append).await?;
        Ok(())
    }

    /// Walks the followers from where the job stands, a few pages ahead of the broker's answers.
    async fn walk(&self, job: i64, author: &UserId, entry: &Entry, held: &mut Held) -> Result<Outcome> {
        let mut ahead = held.cursor.clone();
        let mut on_the_way: VecDeque<Page> = VecDeque::new();
        let mut more = true;
        let page = match (entry, held.attempt) {
            (Entry::Post(_), Attempt::First) => self.fanout.options.page,
            _ => (self.fanout.options.page / SEARCHING).max(1),
        };
        loop {
            while more && on_the_way.len() < AHEAD {
                if !self.renew(job, held).await? {
                    return Ok(Outcome::Lost);
                }
                let mut users = self.ledger.followers_after(author, &ahead, page).await?;
                more = users.len() == page;
                let next = users.last().map_or_else(|| ahead.clone(), ToString::to_string);
                // The author's own timeline comes first.
                if ahead.is_empty() {
                    users.insert(0, author.clone());
                }
                if !users.is_empty() {
                    let written =
                        self.write_page(format!("{job}:{ahead}"), next.clone(), entry.clone(), users, held.attempt);
                    on_the_way.push_back(Page { begin: ahead, end: next.clone(), written });
                }
                ahead = next;
            }
            let Some(page) = on_the_way.pop_front() else { return Ok(Outcome::Done) };
            match page.written.await.map_err(|_| FeedError::Internal)?? {
                FannedOut::Written(receipts) => {
                    self.metrics.fanned_out(&receipts);
                    held.cursor = page.end;
                }
                // Written by somebody before us, as the last page: who followed since got the post by following.
                FannedOut::Before(end) if end == page.begin => return Ok(Outcome::Done),
                // Written by somebody before us. If that page ended elsewhere, ours beyond it do not fit.
                FannedOut::Before(end) => {
                    let moved = end != page.end;
                    held.cursor = end;
                    if moved {
                        for page in on_the_way.drain(..) {
                            let _ = page.written.await;
                        }
                        ahead.clone_from(&held.cursor);
                        more = true;
                    }
                }
            }
        }
    }

    fn write_page(
        &self,
        page: String,
        next: String,
        entry: Entry,
        users: Vec<UserId>,
        attempt: Attempt,
    ) -> JoinHandle<Result<FannedOut>> {
        let broker = Arc::clone(&self.broker);
        self.fanout.tasks.spawn(async move {
            Ok(broker.fan_out(FanOut { page: &page, next: &next, entry: &entry, users: &users, attempt }).await?)
        })
    }

    /// Renews the lease now and then. `false` if somebody else has it.
    async fn renew(&self, job: i64, held: &mut Held) -> Result<bool> {
        let due = held.renewed.get_or_insert_with(Instant::now).elapsed() > self.fanout.options.lease / 3;
        if due {
            held.renewed = Some(Instant::now());
            return Ok(self.ledger.advance_job(job, &held.cursor, &self.fanout.lease(now())).await?);
        }
        Ok(true)
    }
}

/// How far a worker is with a job.
struct Held {
    /// Everybody up to here is served.
    cursor: String,
    /// When the lease was last renewed, or the work began.
    renewed: Option<Instant>,
    /// Whether others, or this worker itself, may have written pages that its own do not match.
    attempt: Attempt,
}

/// A page that the broker is writing.
struct Page {
    /// After which follower it begins.
    begin: String,
    /// Its last follower.
    end: String,
    written: JoinHandle<Result<FannedOut>>,
}

/// What became of a job that concerns one timeline.
pub(super) enum Carried {
    /// It is done.
    ForGood,
    /// It is done as far as can be now, and to be done once more.
    ForNow,
}

enum Outcome {
    /// To be done once more.
    Later,
    /// Everybody is served.
    Done,
    /// The lease ran out and somebody else took it.
    Lost,
}

//! The setup of fan-out scenarios on Redis: followers, full inboxes, and a count of hints for some of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use feedline::broker::{
    Broker, FanOut, InboxState, JobAttempt, MessageListener, PageRecipients, PresenceEvent, Signal, inbox_channel,
    measured,
};
use feedline::ledger::JobId;
use feedline::model::{Entry, PositionRef, PostId, UserId};
use futures::stream::FuturesUnordered;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::context::BenchContext;
use super::process::ServerProcess;
use super::seed;
use super::server::ServerSetup;

/// Followers of the author.
pub(super) const FOLLOWERS: usize = 10_000;
/// Inboxes that are filled concurrently.
const MAX_CONCURRENT_FILLS: usize = 16;
/// The bench subscribes to every n-th inbox.
const SUBSCRIPTION_STRIDE: usize = 500;
/// Followers a page, as in the server.
pub(super) const PAGE_SIZE: usize = 500;
/// Pages in flight when Redis is measured alone: the pages of two posts.
const MAX_PAGES_IN_FLIGHT: usize = 2 * FOLLOWERS / PAGE_SIZE;
/// No more entries are expected after this time without one.
const QUIET_PERIOD: Duration = Duration::from_millis(100);

/// The state of the setup.
pub(super) struct FanoutSetup {
    /// The Redis, if the bench started it.
    pub redis: Option<ServerProcess>,
    /// The setup of the server.
    pub server: ServerSetup,
    /// All followers, in order of id.
    pub followers: Vec<UserId>,
    /// Counts the hints of the subscribed inboxes.
    pub hints: Arc<HintCounter>,
    /// Keeps the subscriptions.
    _hearing: Arc<dyn Broker>,
}

impl FanoutSetup {
    /// Starts a Redis, or uses the given one, loads the followers into a ledger and fills their inboxes.
    pub(super) async fn prepare(bench: &BenchContext) -> Result<Self> {
        let (redis, url) = bench.start_redis().await?;
        let mut setup = bench.server_setup().await?;
        setup.broker.clone_from(&url);
        bench.bar.set_message("filling the ledger");
        let incarnation = seed::followers(&setup.ledger, FOLLOWERS).await?;
        let followers: Vec<UserId> = (0..FOLLOWERS).filter_map(|n| UserId::parse(&seed::user(n))).collect();

        let hints = Arc::new(HintCounter::default());
        let hearing = seed::broker(&url, &setup.prefix, &incarnation).await?;
        hearing.listen(Arc::clone(&hints) as Arc<dyn MessageListener>);
        bench.bar.set_message(format!("filling {FOLLOWERS} inboxes"));
        fill(bench, &*hearing, &followers).await?;
        // Every n-th follower from the end. This includes the last one, whose inbox is written last.
        for user in followers.iter().rev().step_by(SUBSCRIPTION_STRIDE) {
            hearing.subscribe(&inbox_channel(user)).await?;
        }
        Ok(Self { redis, server: setup, followers, hints, _hearing: hearing })
    }

    /// Stops and removes everything that was set up, except the server.
    pub(super) async fn tear_down(self, bench: &BenchContext) -> Result<()> {
        bench.tear_down(self.server).await?;
        match self.redis {
            Some(redis) => redis.stop().await,
            None => Ok(()),
        }
    }
}

/// Fills the inboxes to their full length, as those of active users are.
pub(super) async fn fill(bench: &BenchContext, broker: &dyn Broker, users: &[UserId]) -> Result<()> {
    bench.start_progress(users.len());
    let hour_ago = now()?.saturating_sub(3_600_000);
    let posts: Vec<PostId> = (0..seed::LENGTH).map(|n| PostId::from_parts(hour_ago + n, 0, 0)).collect();
    let posts = &posts;
    stream::iter(users)
        .map(|user| async move {
            if let InboxState::Unfilled(epoch) = broker.open_inbox(user).await? {
                let filled = broker.fill_inbox(user, &epoch, posts, PostId::ZERO, 0).await?;
                ensure!(filled.is_some(), "the inbox of {user} went away while it was filled");
            }
            bench.bar.inc(1);
            Ok(())
        })
        .buffer_unordered(MAX_CONCURRENT_FILLS)
        .try_collect()
        .await
}

fn now() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64)
}

/// Counts hints.
#[derive(Debug, Default)]
pub(super) struct HintCounter {
    heard: AtomicU64,
    changed: Notify,
}

impl HintCounter {
    /// The number of subscribed inboxes.
    pub(super) const COUNT: u64 = FOLLOWERS.div_ceil(SUBSCRIPTION_STRIDE) as u64;

    /// The number of hints so far.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Acquire)
    }

    /// Waits until no more hints arrive.
    pub(super) async fn wait_until_quiet(&self) {
        while timeout(QUIET_PERIOD, self.changed()).await.is_ok() {}
    }

    /// Waits until a hint arrives.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl MessageListener for HintCounter {
    fn entry(&self, _channel: &str, _position: Option<PositionRef<'_>>, _entry: &Entry) {
        self.heard.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
    }

    fn presence_event(&self, _channel: &str, _notice: &PresenceEvent) {}

    fn signal(&self, _signal: Signal) {}

    fn resync(&self) {}
}

/// The baseline: Redis with the same script, without a server.
pub(super) struct RedisBaseline {
    connection: MultiplexedConnection,
    prefix: String,
    /// The last post written.
    post: PostId,
}

impl RedisBaseline {
    /// Connects, and loads the script.
    pub(super) async fn connect(url: &str, prefix: &str) -> Result<Self> {
        let mut connection = seed::connection(url).await?;
        measured::load_fan_out().query_async::<()>(&mut connection).await?;
        Ok(Self { connection, prefix: prefix.to_owned(), post: PostId::ZERO })
    }

    /// Sends the pages of one post after another, pipelined, for `length`. Returns followers a second.
    pub(super) async fn measure(&mut self, followers: &[UserId], length: Duration) -> Result<f64> {
        let start = Instant::now();
        let author = UserId::parse("author").context("an id")?;
        let mut in_flight = FuturesUnordered::new();
        let mut written = 0;
        while start.elapsed() < length {
            // Each post is newer than all earlier ones, so Redis never has to search for its place.
            self.post = self.post.max(PostId::from_parts(now()?, 0, 0));
            self.post.0 += 1;
            for (n, users) in followers.chunks(PAGE_SIZE).enumerate() {
                let attempt = JobAttempt { job: JobId(self.post.0), generation: 1, retry: 0, run: "".into() };
                let page = PageRecipients::Range { after: format!("{n}"), to: String::new() };
                let entry = Entry::Post(self.post);
                let page =
                    FanOut { attempt: &attempt, page: &page, entry: &entry, author: &author, users, created_at: 0 };
                let call = measured::fan_out(&self.prefix, seed::LENGTH, &page);
                let mut connection = self.connection.clone();
                in_flight.push(async move { call.query_async::<Vec<i64>>(&mut connection).await });
                if in_flight.len() == MAX_PAGES_IN_FLIGHT {
                    written += receipts(in_flight.next().await)?;
                }
            }
        }
        while !in_flight.is_empty() {
            written += receipts(in_flight.next().await)?;
        }
        Ok(written as f64 / start.elapsed().as_secs_f64())
    }
}

/// The number of inboxes that a page was written to. Fails unless it is all of them: the comparison would be void.
fn receipts(answer: Option<redis::RedisResult<Vec<i64>>>) -> Result<usize> {
    let receipts = answer.transpose()?.unwrap_or_default();
    let missing = receipts.iter().filter(|receipt| **receipt < 0).count();
    ensure!(missing == 0, "{missing} inboxes were not written");
    Ok(receipts.len())
}

//! A post goes to 10,000 full inboxes on Redis without connected users: followers a second.
//!
//! The baseline, in the same run, is Redis alone: the same script and the same inboxes, pipelined over one connection.
//! The difference is the cost of the ledger, the jobs and their bookkeeping.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use feedline::broker::{
    Broker, FanOut, InboxState, JobAttempt, MessageListener, PageRecipients, PresenceEvent, Signal, inbox_channel,
    measured,
};
use feedline::feed::now;
use feedline::ledger::JobId;
use feedline::model::{Entry, InboxId, PositionRef, PostId, UserId};
use futures::stream::FuturesUnordered;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout};

use super::client::{LoadClient, SocketTarget};
use super::context::BenchContext;
use super::options::BrokerKind;
use super::process::move_to;
use super::report::{Goal, Report};
use super::seed::{self, AUTHOR, INBOX_LENGTH};
use super::stores::Stores;

/// Posts in flight, which are accepted but not yet delivered to the last follower; and whether every tenth of them is a
/// repost.
const LOADS: [(u64, bool); 3] = [(1, false), (4, false), (4, true)];
/// Followers of the author.
const FOLLOWERS: usize = 10_000;
/// Inboxes that are filled concurrently.
const MAX_CONCURRENT_FILLS: usize = 16;
/// The bench subscribes to every n-th inbox, and hears of each post as often as there are such inboxes.
const SUBSCRIPTION_STRIDE: usize = 500;
const HINTS: u64 = FOLLOWERS.div_ceil(SUBSCRIPTION_STRIDE) as u64;
/// Followers a page, as in the server.
const PAGE_SIZE: usize = 500;
/// Pages in flight when Redis is measured alone: the pages of two posts.
const MAX_PAGES_IN_FLIGHT: usize = 2 * FOLLOWERS / PAGE_SIZE;
/// No more hints are expected after this time without one.
const QUIET_PERIOD: Duration = Duration::from_millis(100);
/// The time before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);
/// A run fails after this time without a reply.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext) -> Result<Report> {
    let mut report = Report::new("fanout");
    let stores = Stores::start(bench, Some(BrokerKind::Redis)).await?;
    let followers = seed::ids(seed::user, FOLLOWERS)?;
    let incarnation = seed::fill_followers(&stores.ledger, &followers).await?;
    let broker = seed::broker(&stores.broker, &bench.prefix(), &incarnation).await?;
    bench.say(&format!("filling {FOLLOWERS} inboxes"));
    fill(&*broker, &followers).await?;
    let hints = Arc::new(HintCounter::default());
    broker.listen(Arc::clone(&hints) as Arc<dyn MessageListener>);
    // Every n-th follower from the end. This includes the last one, whose inbox is written last.
    for user in followers.iter().rev().step_by(SUBSCRIPTION_STRIDE) {
        broker.subscribe(&inbox_channel(user)).await?;
    }
    let server = stores.start_feedline(bench).await?;
    // Without connected clients Redis carries the load, so it has the clients' core for itself.
    bench.options.pin.map_or(Ok(()), |cores| move_to(cores.server))?;
    let author = LoadClient::sign_in(SocketTarget::feedline(server.addr), &stores.secret, AUTHOR).await?;
    let mut redis = seed::connection(&stores.broker).await?;
    measured::load_fan_out().query_async::<()>(&mut redis).await?;
    let alone = RedisAlone { redis, prefix: bench.prefix(), followers: &followers, post: PostId::ZERO };
    let mut sides = [FanoutSide::Server { author, last: 1 }, FanoutSide::Redis(alone)];
    for (window, has_reposts) in LOADS {
        let what = format!("{window} posts in flight{}", if has_reposts { ", 1 of 10 a repost" } else { "" });
        let measure = async |side: &mut FanoutSide<'_>| side.measure(bench, &hints, window, has_reposts).await;
        let runs = bench.alternate(&what, &mut sides, measure).await?;
        report
            .row(format!("fan-out to {FOLLOWERS}, {what}"), "followers/s", runs[0].clone())
            .against(("Redis alone", runs[1].clone()))
            .goal(Goal::RatioAtLeast(0.70));
    }
    drop(sides);
    server.stop().await?;
    report.notes.push(stores.note());
    Ok(report)
}

/// Fills the inboxes to their full length, as those of active users are.
async fn fill(broker: &dyn Broker, users: &[UserId]) -> Result<()> {
    let hour_ago = now().saturating_sub(3_600_000);
    let posts: Vec<PostId> = (0..INBOX_LENGTH).map(|n| PostId::from_parts(hour_ago + n, 0, 0)).collect();
    let posts = &posts;
    stream::iter(users)
        .map(|user| async move {
            if let InboxState::Unfilled(epoch) = broker.open_inbox(&InboxId::Timeline(user.clone())).await? {
                let filled =
                    broker.fill_inbox(&InboxId::Timeline(user.clone()), &epoch, posts, PostId::ZERO, 0).await?;
                ensure!(filled.is_some(), "the inbox of {user} went away while it was filled");
            }
            Ok(())
        })
        .buffer_unordered(MAX_CONCURRENT_FILLS)
        .try_collect()
        .await
}

/// Counts the hints of the subscribed inboxes.
#[derive(Debug, Default)]
struct HintCounter {
    heard: AtomicU64,
    changed: Notify,
}

impl HintCounter {
    fn heard(&self) -> u64 {
        self.heard.load(Ordering::Acquire)
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

/// The server, or the baseline.
enum FanoutSide<'a> {
    /// The socket of the author, and the id of its last command.
    Server { author: LoadClient, last: u64 },
    /// The same inboxes, without a server.
    Redis(RedisAlone<'a>),
}

impl FanoutSide<'_> {
    /// Returns followers a second.
    async fn measure(
        &mut self,
        bench: &BenchContext,
        hints: &HintCounter,
        window: u64,
        has_reposts: bool,
    ) -> Result<f64> {
        match self {
            Self::Server { author, last } => {
                write(author, last, hints, WARM_UP, window, has_reposts).await?;
                write(author, last, hints, bench.length(), window, has_reposts).await
            }
            Self::Redis(alone) => {
                let heard = hints.heard();
                let rate = alone.measure(bench.length()).await?;
                while timeout(QUIET_PERIOD, hints.changed.notified()).await.is_ok() {}
                ensure!(hints.heard() > heard, "nothing was heard of Redis alone");
                Ok(rate)
            }
        }
    }
}

/// Keeps `window` posts in flight for `length`, then waits for the last one. Returns followers a second.
async fn write(
    author: &mut LoadClient,
    last: &mut u64,
    hints: &HintCounter,
    length: Duration,
    window: u64,
    has_reposts: bool,
) -> Result<f64> {
    // The post of the author's that the next repost shows: the one of the newest reply.
    let mut newest = None;
    let start = Instant::now();
    let first = hints.heard();
    let mut sent = 0;
    loop {
        let complete = (hints.heard() - first) / HINTS;
        let is_over = start.elapsed() >= length;
        if is_over && complete >= sent {
            return Ok(sent as f64 * FOLLOWERS as f64 / start.elapsed().as_secs_f64());
        }
        while !is_over && sent < complete + window {
            *last += 1;
            ensure!(!has_reposts || sent < 10 || newest.is_some(), "no reply has the id of a post");
            let command = match newest.filter(|_| has_reposts && last.is_multiple_of(10)) {
                Some(post) => seed::repost_command(*last, post),
                None => seed::post_command(*last),
            };
            author.send(command).await?;
            sent += 1;
        }
        let mut replies = String::new();
        tokio::select! {
            () = hints.changed.notified() => {}
            read = author.read(|payload| replies += &String::from_utf8_lossy(payload)) => drop(read?),
            () = sleep_until((start + length + TIMEOUT).into()) => bail!("posts did not arrive within {TIMEOUT:?}"),
        }
        ensure!(!replies.contains("\"error\":"), "the server refused a post: {replies}");
        newest = newest_post(&replies).or(newest);
    }
}

/// The id of the post in the last of some replies.
fn newest_post(replies: &str) -> Option<PostId> {
    let id = replies.rsplit_once("\"rpc\":{\"data\":{\"id\":")?.1;
    id.split(',').next()?.parse().ok().map(PostId)
}

/// The baseline: Redis with the same script, without a server.
struct RedisAlone<'a> {
    redis: MultiplexedConnection,
    prefix: String,
    followers: &'a [UserId],
    /// The last post written.
    post: PostId,
}

impl RedisAlone<'_> {
    /// Sends the pages of one post after another, pipelined, for `length`. Returns followers a second.
    async fn measure(&mut self, length: Duration) -> Result<f64> {
        let start = Instant::now();
        let author = seed::id(AUTHOR)?;
        let mut in_flight = FuturesUnordered::new();
        let mut written = 0;
        while start.elapsed() < length {
            // Each post is newer than all earlier ones, so Redis never has to search for its place.
            self.post = self.post.max(PostId::from_parts(now(), 0, 0));
            self.post.0 += 1;
            for (n, users) in self.followers.chunks(PAGE_SIZE).enumerate() {
                let attempt = JobAttempt { job: JobId(self.post.0), generation: 1, retry: 0, run: "".into() };
                let page = PageRecipients::Range { after: format!("{n}"), to: String::new() };
                let entry = Entry::Post(self.post);
                let page =
                    FanOut { attempt: &attempt, page: &page, entry: &entry, author: &author, users, created_at: 0 };
                let call = measured::fan_out(&self.prefix, INBOX_LENGTH, &page);
                let mut redis = self.redis.clone();
                in_flight.push(async move { call.query_async::<Vec<i64>>(&mut redis).await });
                if in_flight.len() == MAX_PAGES_IN_FLIGHT {
                    written += receipts(in_flight.try_next().await?)?;
                }
            }
        }
        while !in_flight.is_empty() {
            written += receipts(in_flight.try_next().await?)?;
        }
        Ok(written as f64 / start.elapsed().as_secs_f64())
    }
}

/// The number of inboxes that a page was written to. Fails unless it is all of them: the comparison would be void.
fn receipts(answer: Option<Vec<i64>>) -> Result<usize> {
    let receipts = answer.unwrap_or_default();
    let missing = receipts.iter().filter(|receipt| **receipt < 0).count();
    ensure!(missing == 0, "{missing} inboxes were not written");
    Ok(receipts.len())
}

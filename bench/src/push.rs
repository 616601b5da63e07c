//! Notifications that are due for as many devices: how many the bridge reviews, renders, sends and settles a second.
//! The provider accepts everything at once (`push.dry_run`).
//!
//! The queue is filled before the server starts, with notifications of users with a device each. The measurement begins
//! when the first push was accepted, and ends with the last one. Then notifications come at half of the goal's rate and
//! at half of the rate that was reached, and the time to their acceptance is measured.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use feedline::feed::now;
use feedline::ledger::{BulkLoad, DeviceRegistration, DeviceSession, NotificationEvent, PushPlan, UserNotifications};
use feedline::model::{Device, DeviceId, Millis, NotificationKind, PushTarget, UserId};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use hyper::Method;
use tokio::time::sleep;

use super::context::BenchContext;
use super::http_load::HttpClient;
use super::process::ServerProcess;
use super::report::{Goal, Report};
use super::seed::{self, AUTHOR};
use super::stores::Stores;

/// The interval between two writes of notifications, or two readings of metrics.
const INTERVAL: Duration = Duration::from_millis(20);
/// How long the latency is measured.
const LATENCY_TIME: Duration = Duration::from_secs(10);
/// The longest time without progress.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The least part of a rate at which a figure counts as taken at that rate.
const MIN_PART: f64 = 0.95;
/// The maximum number of notifications that are written in one call, and of concurrent calls that register devices.
const BATCH: usize = 500;
const MAX_CONCURRENT_CALLS: usize = 64;
/// The metric that counts, and the histogram of the time to acceptance.
const ACCEPTED: &str = "feedline_push_accepted_total{";
const LAG: &str = "feedline_push_lag_seconds_bucket{le=\"";

/// Runs the scenario with this number of pushes.
pub(super) async fn run(bench: &BenchContext, pushes: usize) -> Result<Report> {
    let mut report = Report::new("push");
    let goal_rate = if bench.options.redis.is_some() { 2_000.0 } else { 5_000.0 };
    let mut rates = Vec::new();
    let mut latencies = [Vec::new(), Vec::new()];
    for run in bench.runs("push") {
        let mut stores = Stores::start(bench, None).await?;
        stores.settings = vec![
            ("FEEDLINE__PUSH__ENABLED", "true".to_owned()),
            ("FEEDLINE__PUSH__DRY_RUN", "true".to_owned()),
            ("FEEDLINE__PUSH__CONCURRENCY", "1000".to_owned()),
        ];
        bench.say(&format!("queueing {pushes} pushes"));
        let mut queue = PushQueue::new(&stores, pushes)?;
        queue.fill().await?;
        let server = stores.start_feedline(bench).await?;
        let (rate, _) = until_accepted(&server, &stores, pushes).await?;
        rates.push(rate);
        for (wanted, latencies) in [goal_rate / 2.0, rate / 2.0].into_iter().zip(&mut latencies) {
            bench.say(&format!("{wanted:.0} pushes/s"));
            let (p99, reached) = latency(&server, &stores, &mut queue, wanted).await?;
            latencies.push(p99 * 1e3);
            if reached < MIN_PART * wanted {
                let what = format!("a latency is that at {reached:.0}/s; {wanted:.0}/s were wanted");
                report.notes.push(format!("run {}: {what}", run + 1));
            }
        }
        server.stop().await?;
        report.notes.retain(|note| *note != stores.note());
        report.notes.push(stores.note());
    }
    let [at_goal, at_reached] = latencies;
    report.row("pushes, from the queue to the provider", "/s", rates).goal(Goal::AtLeast(goal_rate));
    let name = format!("event to provider at {:.0}/s, p99", goal_rate / 2.0);
    report.row(name, "ms", at_goal).goal(Goal::AtMost(1_000.0));
    report.row("event to provider at half of the rate, p99", "ms", at_reached);
    report.notes.push(format!("{pushes} users with a device and a notification each; the provider accepts at once"));
    Ok(report)
}

/// Notifies users at this rate for [`LATENCY_TIME`]. Returns the p99 of the time to acceptance, in seconds, and the
/// notifications that were written a second.
async fn latency(server: &ServerProcess, stores: &Stores, queue: &mut PushQueue, rate: f64) -> Result<(f64, f64)> {
    let ledger = queue.open().await?;
    let before = AcceptedPushes::read(server, stores).await?;
    let start = Instant::now();
    let mut written = 0;
    while start.elapsed() < LATENCY_TIME {
        let due = (start.elapsed().as_secs_f64() * rate) as usize;
        queue.add(&*ledger, due - written).await?;
        written = due;
        sleep(INTERVAL).await;
    }
    let reached = written as f64 / start.elapsed().as_secs_f64();
    ledger.close().await;
    let (_, after) = until_accepted(server, stores, before.accepted + written).await?;
    Ok((after.p99_since(&before), reached))
}

/// Waits until this many pushes were accepted in all. Returns the rate from the first one seen to the last one, in
/// pushes a second, and the metrics.
async fn until_accepted(server: &ServerProcess, stores: &Stores, wanted: usize) -> Result<(f64, AcceptedPushes)> {
    let mut progress = (Instant::now(), 0);
    let mut first = None;
    loop {
        let read = AcceptedPushes::read(server, stores).await?;
        let now = Instant::now();
        if read.accepted > progress.1 {
            progress = (now, read.accepted);
        }
        let (begin, before) = *first.get_or_insert(progress);
        if read.accepted >= wanted {
            ensure!(before < wanted, "{wanted} pushes are too few: all were accepted at the first look");
            return Ok(((read.accepted - before) as f64 / (now - begin).as_secs_f64(), read));
        }
        ensure!(progress.0.elapsed() < TIMEOUT, "{} of {wanted} pushes, none for {TIMEOUT:?}", progress.1);
        sleep(INTERVAL).await;
    }
}

/// The accepted pushes at some time.
#[derive(Default)]
struct AcceptedPushes {
    /// Their number.
    accepted: usize,
    /// The upper bounds of the time to acceptance, in seconds, and the number of pushes up to each.
    lag: Vec<(f64, f64)>,
}

impl AcceptedPushes {
    /// Reads the metrics of a server.
    async fn read(server: &ServerProcess, stores: &Stores) -> Result<Self> {
        let token = seed::token(&stores.secret, AUTHOR)?;
        let metrics = HttpClient::open(server.addr).call(Method::GET, "/metrics", &token).await?;
        let mut read = Self::default();
        for line in String::from_utf8_lossy(&metrics).lines() {
            let value = line.rsplit(' ').next().unwrap_or_default();
            if line.starts_with(ACCEPTED) {
                read.accepted += value.parse::<usize>()?;
            } else if let Some(bound) = line.strip_prefix(LAG).and_then(|rest| rest.split('"').next()) {
                read.lag.push((bound.replace("+Inf", "inf").parse()?, value.parse()?));
            }
        }
        Ok(read)
    }

    /// The p99 of the pushes since an earlier reading, in seconds, interpolated within the bucket.
    fn p99_since(&self, before: &Self) -> f64 {
        let counts = self.lag.iter().zip(&before.lag).map(|((bound, now), (_, before))| (*bound, now - before));
        let counts: Vec<(f64, f64)> = counts.collect();
        let wanted = counts.last().map_or(0.0, |(_, all)| all * 0.99);
        let mut below = (0.0, 0.0);
        for (bound, count) in counts {
            if count >= wanted {
                let part = (wanted - below.1) / (count - below.1).max(1.0);
                return if bound.is_finite() { below.0 + (bound - below.0) * part } else { below.0 };
            }
            below = (bound, count);
        }
        below.0
    }
}

/// The users with a device, and the number of their notifications.
struct PushQueue {
    /// `ledger.url` of the server.
    url: String,
    users: Vec<UserId>,
    author: UserId,
    /// The number of notifications so far.
    queued: usize,
}

impl PushQueue {
    /// A queue in the ledger of a server, for a number of users.
    fn new(stores: &Stores, users: usize) -> Result<Self> {
        let users = seed::ids(seed::user, users)?;
        Ok(Self { url: stores.ledger.clone(), users, author: seed::id(AUTHOR)?, queued: 0 })
    }

    /// Opens the ledger.
    async fn open(&self) -> Result<Box<dyn BulkLoad>> {
        seed::open_ledger(&self.url).await
    }

    /// Gives each user a device, and a notification that is due at once. The server does not run yet.
    async fn fill(&mut self) -> Result<()> {
        let ledger = self.open().await?;
        let now = now();
        ledger.load_users(&self.users, now).await?;
        ledger.load_users(std::slice::from_ref(&self.author), now).await?;
        // A notification of a follow ends with it.
        let edges: Vec<_> = self.users.iter().map(|user| (self.author.clone(), user.clone())).collect();
        ledger.load_follows(&edges, now).await?;
        let id = DeviceId::parse("phone").context("a device id")?;
        let register = async |user: &UserId| {
            let registration = registration(&id, user, now);
            ledger.register_device(user, &registration, 1).await.map(drop)
        };
        stream::iter(&self.users).map(register).buffer_unordered(MAX_CONCURRENT_CALLS).try_collect::<()>().await?;
        self.add(&*ledger, self.users.len()).await?;
        ledger.close().await;
        Ok(())
    }

    /// Notifies users in turn. The pushes are due at once.
    async fn add(&mut self, ledger: &dyn BulkLoad, number: usize) -> Result<()> {
        let plan = PushPlan { grace: 0, digest: 0 };
        let end = self.queued + number;
        while self.queued < end {
            // A user is notified once in a batch: two notifications of one moment would be one group.
            let batch = self.queued..end.min(self.queued + BATCH.min(self.users.len()));
            self.queued = batch.end;
            let batch: Vec<UserNotifications> = batch.map(|n| self.notification(n)).collect();
            ledger.notify_many(&batch, now(), 0, Some(plan)).await?;
        }
        Ok(())
    }

    fn notification(&self, n: usize) -> UserNotifications {
        let event = NotificationEvent::new(NotificationKind::Follow, &self.author);
        UserNotifications { to: self.users[n % self.users.len()].clone(), events: vec![event] }
    }
}

fn registration(id: &DeviceId, user: &UserId, now: Millis) -> DeviceRegistration {
    let device = Device {
        id: id.clone(),
        target: PushTarget::Fcm { token: format!("token-of-{user}") },
        locale: None,
        time_zone: None,
        app_version: None,
        registered_at: now - 1,
        seen_at: now - 1,
    };
    DeviceRegistration { device, session: DeviceSession::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p99_is_interpolated() {
        let before = AcceptedPushes { accepted: 1, lag: vec![(0.1, 1.0), (0.2, 1.0), (f64::INFINITY, 1.0)] };
        let after = AcceptedPushes { accepted: 201, lag: vec![(0.1, 101.0), (0.2, 201.0), (f64::INFINITY, 201.0)] };
        assert!((after.p99_since(&before) - 0.198).abs() < 1e-9, "{}", after.p99_since(&before));
    }
}

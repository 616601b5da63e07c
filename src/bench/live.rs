//! A post goes to 10,000 followers on Redis, 1,000 of them connected: latency from acceptance to the last socket.
//!
//! The baseline is the sum of its parts at best: twice the floor's broadcast to 1,000 sockets, and Redis's time for the
//! same script over the same number of inboxes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::time::sleep_until;

use super::arrivals::ReceiverGroup;
use super::broadcast_room::{BroadcastRoom, SOCKETS};
use super::client::open_all;
use super::context::BenchContext;
use super::fanout::PostAuthor;
use super::fanout_setup::{FOLLOWERS, FanoutSetup, RedisBaseline, fill, millis_a_post};
use super::publishers::PublisherKind;
use super::report::{Better, Goal, Report, Row, median};
use super::seed::{self, AUTHOR};

/// The time limit of a post to the last socket.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Posts before the measurement.
const WARM_UP: usize = 3;

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext) -> Result<Report> {
    let setup = FanoutSetup::prepare(bench).await?;
    // The baseline of Redis has its own inboxes, so that its writes do not reach the sockets.
    let prefix = format!("{}-alone", setup.server.prefix);
    fill(bench, &*seed::broker(&setup.server.broker, &prefix, &setup.incarnation).await?, &setup.followers).await?;
    let mut alone = RedisBaseline::connect(&setup.server.broker, &prefix).await?;
    let server = bench.start_server(&setup.server).await?;
    let floor = bench.start_floor().await?;
    let mut room = BroadcastRoom::floor(bench, floor.floor(), PublisherKind::Socket).await?;
    let connected = (0..FOLLOWERS).step_by(FOLLOWERS / SOCKETS);
    let greetings: Vec<String> =
        connected.map(|n| seed::connect(&setup.server.secret, &seed::user(n))).collect::<Result<_>>()?;
    bench.bar.set_message("connecting");
    let sockets = open_all(server.feedline(), &greetings, "\"connect\":", bench).await?;
    let mut audience = ReceiverGroup::new(sockets.into_iter().map(|(socket, _)| socket));
    let mut author = PostAuthor::sign_in(server.feedline(), &setup.server.secret, AUTHOR).await?;

    let length = Duration::from_secs(bench.options.seconds);
    let (mut measured, mut bounds, mut parts) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
    bench.start_progress(bench.options.runs);
    for run in 0..bench.options.runs {
        bench.bar.set_message(format!("run {}", run + 1));
        measured.push(posts(&mut author, &mut audience, length).await?);
        let broadcast = room.measure(bench, Some(&floor.process), 1).await?.millis;
        let redis = millis_a_post(alone.measure(&setup.followers, length).await?);
        bounds.push(2.0 * broadcast + redis);
        parts[0].push(broadcast);
        parts[1].push(redis);
        bench.bar.inc(1);
    }
    let mut report = Report::new("fanout --live");
    report.rows.push(Row {
        name: format!("accepted → last of {SOCKETS} sockets, {FOLLOWERS} followers"),
        unit: "ms",
        better: Better::Less,
        measured,
        against: Some(("2 × floor + Redis", bounds)),
        goal: Some(Goal::RatioAtMost(1.0)),
    });
    let [broadcast, redis] = parts.map(|runs| median(&runs));
    report.notes.push(format!("floor's broadcast {broadcast:.2} ms, Redis's script for all followers {redis:.2} ms"));
    server.stop().await?;
    floor.stop().await?;
    setup.tear_down(bench).await?;
    Ok(report)
}

/// Writes one post after another for `length`. Returns the median latency from acceptance to the last socket, in
/// milliseconds.
async fn posts(author: &mut PostAuthor, audience: &mut ReceiverGroup, length: Duration) -> Result<f64> {
    let (mut times, start) = (Vec::new(), Instant::now());
    while times.len() < WARM_UP + 1 || start.elapsed() < length {
        times.push(post(author, audience).await?.as_secs_f64() * 1e3);
    }
    Ok(median(&times[WARM_UP..]))
}

/// Writes one post. Returns the latency from its acceptance to the last socket.
pub(super) async fn post(author: &mut PostAuthor, audience: &mut ReceiverGroup) -> Result<Duration> {
    let arrivals = Arc::clone(&audience.arrivals);
    let wanted = arrivals.complete() + 1;
    let (mut accepted, mut arrived) = (None, None);
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    let mut writing = std::pin::pin!(author.write_one());
    loop {
        if let (Some(accepted), Some(arrived)) = (accepted, arrived) {
            return Ok(Instant::saturating_duration_since(&arrived, accepted));
        }
        tokio::select! {
            // A post can be delivered before its author receives the acceptance, so both are awaited together.
            written = &mut writing, if accepted.is_none() => { written?; accepted = Some(Instant::now()); }
            () = arrivals.changed.notified(), if arrived.is_none() => {
                arrived = (arrivals.complete() >= wanted).then(Instant::now);
            }
            error = audience.failure() => return Err(error),
            () = sleep_until(deadline) => bail!("a post did not reach every socket within {TIMEOUT:?}"),
        }
    }
}

//! One channel, 1,000 sockets, several publications in flight: deliveries a second.
//!
//! A closed loop: a publication is complete when every socket has it, and only then is the next one sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tokio::time::sleep_until;

use super::arrivals::ReceiverGroup;
use super::client::{LoadClient, open_all};
use super::context::BenchContext;
use super::floor::JOIN;
use super::frames::push_text;
use super::process::Process;
use super::report::{Better, Goal, Report, Row, median};
use super::seed;
use super::target::SocketTarget;

/// Subscribers of the channel.
pub(super) const SOCKETS: usize = 1_000;
/// Publications in flight.
const WINDOWS: [usize; 3] = [1, 8, 32];
/// The time before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);
/// A run fails after this time without a reply.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The channel.
const CHANNEL: &str = "bench:room";

/// The figures of one run.
pub(super) struct BroadcastRun {
    /// Deliveries a second.
    pub rate: f64,
    /// How long a publication took on average, in milliseconds.
    pub millis: f64,
    /// The server's part of a core.
    pub server: f64,
    /// The clients' part of a core.
    pub clients: f64,
}

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext) -> Result<Report> {
    let (own, target, secret) = match &bench.options.server {
        Some(addr) => (None, SocketTarget::feedline(*addr), seed::secret_from_environment()?),
        None => {
            let setup = bench.server_setup().await?;
            let server = bench.start_server(&setup).await?;
            let (target, secret) = (server.feedline(), setup.secret.clone());
            (Some((server, setup)), target, secret)
        }
    };
    let floor = bench.start_floor().await?;
    let server = BroadcastSide {
        room: BroadcastRoom::feedline(bench, target, &secret).await?,
        process: own.as_ref().map(|(server, _)| &server.process),
        tallies: Vec::new(),
    };
    let bare = BroadcastSide {
        room: BroadcastRoom::floor(bench, floor.floor()).await?,
        process: Some(&floor.process),
        tallies: Vec::new(),
    };
    let report = compare(bench, [server, bare]).await?;
    if let Some((server, setup)) = own {
        server.stop().await?;
        bench.tear_down(setup).await?;
    }
    floor.stop().await?;
    Ok(report)
}

/// The server, or the floor.
struct BroadcastSide<'a> {
    room: BroadcastRoom,
    process: Option<&'a Process>,
    tallies: Vec<BroadcastRun>,
}

/// Measures both in turn, window by window.
async fn compare(bench: &BenchContext, mut sides: [BroadcastSide<'_>; 2]) -> Result<Report> {
    let mut report = Report::new("broadcast");
    bench.start_progress(WINDOWS.len() * bench.options.runs * 2);
    for window in WINDOWS {
        for run in 0..bench.options.runs {
            bench.bar.set_message(format!("{window} in flight, run {}", run + 1));
            // The first of the two alternates.
            for turn in [run % 2, (run + 1) % 2] {
                let side = &mut sides[turn];
                side.tallies.push(side.room.measure(bench, side.process, window).await?);
                bench.bar.inc(1);
            }
        }
        let [served, bare] = sides.each_mut().map(|side| std::mem::take(&mut side.tallies));
        report.rows.push(row(window, &served, &bare));
        for (who, tallies) in [("server", &served), ("floor", &bare)] {
            let middle = |of: fn(&BroadcastRun) -> f64| median(&tallies.iter().map(of).collect::<Vec<_>>());
            report.notes.push(format!(
                "{window} in flight: {who} {:.0} % of a core, clients {:.0} %; {:.0} k deliveries a second of its \
                 CPU time",
                middle(|tally| tally.server) * 100.0,
                middle(|tally| tally.clients) * 100.0,
                middle(|tally| tally.rate / tally.server) / 1e3,
            ));
        }
    }
    Ok(report)
}

fn row(window: usize, served: &[BroadcastRun], bare: &[BroadcastRun]) -> Row {
    Row {
        name: format!("broadcast to {SOCKETS}, {window} in flight"),
        unit: "deliveries/s",
        better: Better::More,
        measured: served.iter().map(|tally| tally.rate).collect(),
        against: Some(("floor", bare.iter().map(|tally| tally.rate).collect())),
        goal: Some(Goal::RatioAtLeast(0.85)),
    }
}

/// A publisher and its receivers.
pub(super) struct BroadcastRoom {
    publisher: LoadClient,
    /// A frame with the number `n` of a publication.
    frame: fn(u64, &mut Vec<u8>),
    audience: ReceiverGroup,
}

impl BroadcastRoom {
    /// A room on a Feedline server: all clients are signed in and subscribed to the channel.
    async fn feedline(bench: &BenchContext, target: SocketTarget, secret: &str) -> Result<Self> {
        let greetings: Vec<String> = (0..SOCKETS)
            .map(|n| {
                let connect = seed::connect(secret, &seed::user(n))?;
                Ok(format!("{connect}\n{{\"id\":2,\"subscribe\":{{\"channel\":\"{CHANNEL}\"}}}}"))
            })
            .collect::<Result<_>>()?;
        let sockets = open_all(target, &greetings, "\"id\":2", bench).await?;
        let mut publisher = LoadClient::open(target).await?;
        publisher.send(&seed::connect(secret, "publisher")?).await?;
        publisher.expect("\"connect\":").await?;
        Ok(Self::new(publisher, sockets, |n, frame| {
            let payload = seed::payload();
            let command = format!("{{\"id\":{},\"publish\":{{\"channel\":\"{CHANNEL}\",\"data\":{payload}}}}}", n + 10);
            push_text(frame, command.as_bytes());
        }))
    }

    /// A room on the floor, which sends only the payload.
    pub(super) async fn floor(bench: &BenchContext, target: SocketTarget) -> Result<Self> {
        let sockets = open_all(target, &vec![JOIN.to_owned(); SOCKETS], JOIN, bench).await?;
        Ok(Self::new(LoadClient::open(target).await?, sockets, |_, frame| push_text(frame, seed::payload().as_bytes())))
    }

    fn new(publisher: LoadClient, sockets: Vec<(LoadClient, String)>, frame: fn(u64, &mut Vec<u8>)) -> Self {
        Self { publisher, frame, audience: ReceiverGroup::new(sockets.into_iter().map(|(socket, _)| socket)) }
    }

    /// Publishes for the length of a run, and measures.
    pub(super) async fn measure(
        &mut self,
        bench: &BenchContext,
        server: Option<&Process>,
        window: usize,
    ) -> Result<BroadcastRun> {
        let length = Duration::from_secs(bench.options.seconds);
        self.publish(WARM_UP, window).await?;
        let (before, own) = (server.map(Process::cpu).transpose()?, Process::own_cpu()?);
        let (from, start) = (self.audience.arrivals.complete(), Instant::now());
        self.publish(length, window).await?;
        let (count, took) = (self.audience.arrivals.complete() - from, start.elapsed().as_secs_f64());
        ensure!(count > 0, "nothing arrived within {length:?}");
        let server = match (server, before) {
            (Some(server), Some(before)) => (server.cpu()? - before).as_secs_f64() / took,
            _ => f64::NAN,
        };
        let publications = count as f64;
        Ok(BroadcastRun {
            rate: publications * f64::from(self.audience.arrivals.sockets) / took,
            millis: took * 1e3 * window as f64 / publications,
            server,
            clients: (Process::own_cpu()? - own).as_secs_f64() / took,
        })
    }

    /// Keeps `window` publications in flight for `length`, then waits for the last one.
    async fn publish(&mut self, length: Duration, window: usize) -> Result<()> {
        let Self { publisher, frame, audience } = self;
        let arrivals = Arc::clone(&audience.arrivals);
        let deadline = tokio::time::Instant::now() + length;
        let mut sent = arrivals.complete();
        let mut frames = Vec::new();
        let mut replies = Vec::new();
        loop {
            let complete = arrivals.complete();
            let over = tokio::time::Instant::now() >= deadline;
            if over && complete == sent {
                return Ok(());
            }
            frames.clear();
            while !over && sent - complete < window as u64 {
                frame(sent, &mut frames);
                sent += 1;
            }
            if !frames.is_empty() {
                publisher.send_frames(&frames).await?;
            }
            tokio::select! {
                () = arrivals.changed.notified() => {}
                seen = publisher.read_with(|segment| replies.extend_from_slice(segment)) => {
                    seen?;
                    refuse_errors(&mut replies)?;
                }
                error = audience.failure() => return Err(error),
                () = sleep_until(deadline + TIMEOUT) => bail!("publications did not arrive within {TIMEOUT:?}"),
            }
        }
    }
}

/// Fails on an error reply to the publisher; discards other replies.
fn refuse_errors(replies: &mut Vec<u8>) -> Result<()> {
    let text = String::from_utf8_lossy(replies);
    ensure!(!text.contains("\"error\":"), "the server refused a publication: {text}");
    replies.clear();
    Ok(())
}

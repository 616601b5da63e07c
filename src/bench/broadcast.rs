//! One channel, 1,000 sockets, several publications in flight: deliveries a second.
//!
//! A closed loop: a publication is complete when every socket has it, and only then is the next one sent. With HTTP
//! publishers, each has also received the response to its last request.

use anyhow::Result;
use clap::Args;

use super::broadcast_room::{BroadcastRoom, BroadcastRun, SOCKETS};
use super::context::BenchContext;
use super::options::number_between;
use super::process::Process;
use super::publishers::PublisherKind;
use super::report::{Better, Goal, Report, Row, median};
use super::seed;
use super::target::SocketTarget;

/// The most publications in flight.
pub(super) const MAX_IN_FLIGHT: usize = 32;

/// How publications are sent.
#[derive(Clone, Debug, Args)]
pub(super) struct BroadcastLoad {
    /// The publishers: one socket that sends all that may be in flight at once, or N HTTP clients with one request at a
    /// time each
    #[arg(long, value_name = "socket|http:N", default_value = "socket")]
    pub(super) publishers: PublisherKind,
    /// Publications that were sent and have not arrived at every socket
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_values_t = [1, 8, 32],
        value_parser = number_between(1, MAX_IN_FLIGHT)
    )]
    in_flight: Vec<usize>,
}

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext, load: &BroadcastLoad) -> Result<Report> {
    let kind = load.publishers;
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
        room: BroadcastRoom::feedline(bench, target, &secret, kind).await?,
        process: own.as_ref().map(|(server, _)| &server.process),
        tallies: Vec::new(),
    };
    let bare = BroadcastSide {
        room: BroadcastRoom::floor(bench, floor.floor(), kind).await?,
        process: Some(&floor.process),
        tallies: Vec::new(),
    };
    let report = compare(bench, load, [server, bare]).await?;
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
async fn compare(bench: &BenchContext, load: &BroadcastLoad, mut sides: [BroadcastSide<'_>; 2]) -> Result<Report> {
    let mut report = Report::new("broadcast");
    bench.start_progress(load.in_flight.len() * bench.options.runs * 2);
    for &window in &load.in_flight {
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
        report.rows.extend(rows(load.publishers, window, &served, &bare));
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

fn rows(kind: PublisherKind, window: usize, served: &[BroadcastRun], bare: &[BroadcastRun]) -> Vec<Row> {
    let each = |runs: &[BroadcastRun], of: fn(&BroadcastRun) -> f64| runs.iter().map(of).collect::<Vec<_>>();
    let (publishers, goal) = match kind {
        PublisherKind::Socket => (String::new(), Some(0.85)),
        PublisherKind::Http(1) => {
            let goals = [(8, 0.7), (32, 0.5)];
            (", 1 HTTP publisher".to_owned(), goals.iter().find(|(at, _)| *at == window).map(|(_, least)| *least))
        }
        PublisherKind::Http(number) => (format!(", {number} HTTP publishers"), None),
    };
    let mut rows = vec![Row {
        name: format!("broadcast to {SOCKETS}, {window} in flight{publishers}"),
        unit: "deliveries/s",
        better: Better::More,
        measured: each(served, |run| run.rate),
        against: Some(("floor", each(bare, |run| run.rate))),
        goal: goal.map(Goal::RatioAtLeast),
    }];
    if kind != PublisherKind::Socket {
        rows.push(Row {
            name: "  99 of 100 other calls within".to_owned(),
            unit: "ms",
            better: Better::Less,
            measured: each(served, |run| run.call_p99),
            against: Some(("floor", each(bare, |run| run.call_p99))),
            goal: Some(Goal::AtMost(5.0)),
        });
    }
    rows
}

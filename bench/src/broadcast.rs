//! One channel, 1,000 sockets, several publications in flight: deliveries a second.
//!
//! A closed loop: a publication is complete when every socket has it, and only then is the next one sent. With HTTP
//! publishers, each has also received the response to its last request.
//!
//! The baseline, in the same run, is the floor. With `--encoding protobuf` it is the same server with receivers of
//! JSON: the messages of the floor have no encoding.

use anyhow::{Result, ensure};
use clap::Args;

use super::broadcast_room::{BroadcastRoom, BroadcastRun, ReceiverKind, SOCKETS};
use super::context::BenchContext;
use super::options::number_between;
use super::process::{Process, ServerProcess};
use super::publishers::PublisherKind;
use super::report::{Better, Goal, Report, Row, median};
use super::seed;
use super::target::{LoadEncoding, LoadTransport, SocketTarget};

/// The most publications in flight.
pub(super) const MAX_IN_FLIGHT: usize = 32;

/// How publications are sent.
#[derive(Clone, Debug, Args)]
pub(super) struct BroadcastLoad {
    /// The publishers: one socket that sends all that may be in flight at once, or N HTTP clients with one request at a
    /// time each
    #[arg(long, value_name = "socket|http:N", default_value = "socket")]
    pub(super) publishers: PublisherKind,
    /// The transport of the receivers; the floor has WebSockets only
    #[arg(long, value_enum, default_value_t)]
    transport: LoadTransport,
    /// The encoding of the receivers; Protobuf is compared with JSON on the same server
    #[arg(long, value_enum, default_value_t)]
    encoding: LoadEncoding,
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

impl BroadcastLoad {
    fn receivers(&self) -> ReceiverKind {
        ReceiverKind { transport: self.transport, encoding: self.encoding }
    }
}

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext, load: &BroadcastLoad) -> Result<Report> {
    let receivers = load.receivers();
    ensure!(
        receivers.transport != LoadTransport::Sse || receivers.encoding == LoadEncoding::Json,
        "--transport sse goes with --encoding json only: server-sent events are text"
    );
    let kind = load.publishers;
    let (own, target, secret) = match &bench.options.server {
        Some(addr) => (None, SocketTarget::feedline(*addr), seed::secret_from_environment()?),
        None => {
            let setup = bench.server_setup().await?;
            let server = bench.start_server(&setup).await?;
            let target = server.feedline();
            let secret = setup.secret.clone();
            (Some((server, setup)), target, secret)
        }
    };
    let process = own.as_ref().map(|(server, _)| &server.process);
    let room = BroadcastRoom::feedline(bench, target, &secret, kind, receivers).await?;
    let server = BroadcastSide { name: "server", room, process, runs: Vec::new() };
    let mut floor: Option<ServerProcess> = None;
    let baseline = match receivers.encoding {
        LoadEncoding::Json => {
            let floor = floor.insert(bench.start_floor().await?);
            let room = BroadcastRoom::floor(bench, floor.floor(), kind).await?;
            BroadcastSide { name: "floor", room, process: Some(&floor.process), runs: Vec::new() }
        }
        LoadEncoding::Protobuf => {
            let json = ReceiverKind { encoding: LoadEncoding::Json, ..receivers };
            let room = BroadcastRoom::feedline(bench, target, &secret, kind, json).await?;
            BroadcastSide { name: "JSON", room, process, runs: Vec::new() }
        }
    };
    let report = compare(bench, load, [server, baseline]).await?;
    if let Some((server, setup)) = own {
        server.stop().await?;
        bench.tear_down(setup).await?;
    }
    match floor {
        Some(floor) => floor.stop().await.map(|()| report),
        None => Ok(report),
    }
}

/// The server, or the baseline.
struct BroadcastSide<'a> {
    name: &'static str,
    room: BroadcastRoom,
    process: Option<&'a Process>,
    runs: Vec<BroadcastRun>,
}

/// The runs of one side with one number of publications in flight.
struct SideRuns {
    name: &'static str,
    runs: Vec<BroadcastRun>,
}

impl SideRuns {
    fn each(&self, of: fn(&BroadcastRun) -> f64) -> Vec<f64> {
        self.runs.iter().map(of).collect()
    }
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
                side.runs.push(side.room.measure(bench, side.process, window).await?);
                bench.bar.inc(1);
            }
        }
        let [served, baseline] =
            sides.each_mut().map(|side| SideRuns { name: side.name, runs: std::mem::take(&mut side.runs) });
        report.rows.extend(rows(load, window, &served, &baseline));
        for side in [&served, &baseline] {
            let middle = |of: fn(&BroadcastRun) -> f64| median(&side.each(of));
            report.notes.push(format!(
                "{window} in flight: {} {:.0} % of a core, clients {:.0} %; {:.0} k deliveries a second of its \
                 CPU time",
                side.name,
                middle(|run| run.server) * 100.0,
                middle(|run| run.clients) * 100.0,
                middle(|run| run.rate / run.server) / 1e3,
            ));
        }
    }
    Ok(report)
}

fn rows(load: &BroadcastLoad, window: usize, served: &SideRuns, baseline: &SideRuns) -> Vec<Row> {
    let kind = load.publishers;
    let against = |of: fn(&BroadcastRun) -> f64| Some((baseline.name, baseline.each(of)));
    let (publishers, floor_goal) = match kind {
        PublisherKind::Socket => (String::new(), Some(0.85)),
        PublisherKind::Http(1) => {
            let goals = [(8, 0.7), (32, 0.5)];
            (", 1 HTTP publisher".to_owned(), goals.iter().find(|(at, _)| *at == window).map(|(_, least)| *least))
        }
        PublisherKind::Http(number) => (format!(", {number} HTTP publishers"), None),
    };
    let goal = match load.encoding {
        LoadEncoding::Json => floor_goal,
        LoadEncoding::Protobuf => Some(1.0),
    };
    let transport = load.transport.suffix();
    let encoding = load.encoding.suffix();
    let mut rows = vec![Row {
        name: format!("broadcast to {SOCKETS}, {window} in flight{publishers}{transport}{encoding}"),
        unit: "deliveries/s",
        better: Better::More,
        measured: served.each(|run| run.rate),
        against: against(|run| run.rate),
        goal: goal.map(Goal::RatioAtLeast),
    }];
    if kind != PublisherKind::Socket {
        rows.push(Row {
            name: "  99 of 100 other calls within".to_owned(),
            unit: "ms",
            better: Better::Less,
            measured: served.each(|run| run.call_p99),
            against: against(|run| run.call_p99),
            goal: Some(Goal::AtMost(5.0)),
        });
    }
    rows
}

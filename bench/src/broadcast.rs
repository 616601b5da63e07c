//! One channel, 1,000 sockets, several publications in flight: deliveries a second.
//!
//! A closed loop: a publication is complete when every socket has it, and only then is the next one sent. With HTTP
//! publishers, each has also received the response to its last request.
//!
//! The baseline, in the same run, is the floor. With `--encoding protobuf` it is the same server with receivers of
//! JSON: the messages of the floor have no encoding.

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use super::broadcast_room::{BroadcastRoom, BroadcastRun, SOCKETS};
use super::client::{LoadTransport, SocketTarget};
use super::context::BenchContext;
use super::frames::LoadEncoding;
use super::options::number;
use super::publishers::{MAX_IN_FLIGHT, PublisherKind};
use super::report::{Goal, Report, each, middle};
use super::stores::Stores;

/// How publications are sent.
#[derive(Clone, Debug, Args)]
pub(super) struct BroadcastOptions {
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
        value_parser = number(1..=MAX_IN_FLIGHT)
    )]
    in_flight: Vec<usize>,
}

/// Runs the scenario.
pub(super) async fn run(bench: &BenchContext, options: &BroadcastOptions) -> Result<Report> {
    let BroadcastOptions { publishers, transport, encoding, .. } = *options;
    ensure!(
        transport != LoadTransport::Sse || encoding == LoadEncoding::Json,
        "--transport sse goes with --encoding json only: server-sent events are text"
    );
    let stores = Stores::start(bench, None).await?;
    let server = match bench.options.server {
        Some(_) => None,
        None => Some(stores.start_feedline(bench).await?),
    };
    let (addr, secret, pid) = match &server {
        Some(server) => (server.addr, stores.secret.clone(), Some(server.pid)),
        None => {
            let secret = std::env::var("FEEDLINE__AUTH__HMAC_SECRET");
            let secret = secret.context("--server needs the server's secret in FEEDLINE__AUTH__HMAC_SECRET")?;
            (bench.options.server.context("an address")?, secret, None)
        }
    };
    let feedline = async |encoding| {
        let target = SocketTarget::feedline_with(addr, transport, encoding);
        BroadcastRoom::feedline(bench, target, encoding, &secret, publishers, pid).await
    };
    let floor = match encoding {
        LoadEncoding::Json => Some(bench.start_floor().await?),
        LoadEncoding::Protobuf => None,
    };
    let (baseline, other) = match &floor {
        Some(floor) => ("floor", BroadcastRoom::floor(bench, floor, publishers).await?),
        None => ("JSON", feedline(LoadEncoding::Json).await?),
    };
    let mut rooms = [feedline(encoding).await?, other];
    let mut report = Report::new("broadcast");
    for &window in &options.in_flight {
        let what = format!("{window} in flight");
        let measure = async |room: &mut BroadcastRoom| room.measure(bench.length(), window).await;
        let runs = bench.alternate(&what, &mut rooms, measure).await?;
        add_rows(&mut report, options, window, &runs, baseline);
    }
    drop(rooms);
    for server in server.into_iter().chain(floor) {
        server.stop().await?;
    }
    Ok(report)
}

/// Adds the figures of a number of publications in flight: the runs of the server, and of the baseline.
fn add_rows(
    report: &mut Report,
    options: &BroadcastOptions,
    window: usize,
    runs: &[Vec<BroadcastRun>],
    baseline: &'static str,
) {
    let (publishers, floor_goal) = match options.publishers {
        PublisherKind::Socket => (String::new(), Some(0.85)),
        PublisherKind::Http(1) => {
            let goals = [(8, 0.7), (32, 0.5)];
            (", 1 HTTP publisher".to_owned(), goals.iter().find(|(at, _)| *at == window).map(|(_, least)| *least))
        }
        PublisherKind::Http(number) => (format!(", {number} HTTP publishers"), None),
    };
    let transport = match options.transport {
        LoadTransport::Websocket => "",
        LoadTransport::HttpStream => ", HTTP streams",
        LoadTransport::Sse => ", server-sent events",
    };
    let (encoding, goal) = match options.encoding {
        LoadEncoding::Json => ("", floor_goal),
        LoadEncoding::Protobuf => (", Protobuf", Some(1.0)),
    };
    report
        .row(
            format!("broadcast to {SOCKETS}, {window} in flight{publishers}{transport}{encoding}"),
            "deliveries/s",
            each(&runs[0], |run| run.rate),
        )
        .against((baseline, each(&runs[1], |run| run.rate)))
        .goal(goal.map(Goal::RatioAtLeast));
    if options.publishers != PublisherKind::Socket {
        report
            .row("  99 of 100 other calls within", "ms", each(&runs[0], |run| run.call_p99))
            .against((baseline, each(&runs[1], |run| run.call_p99)))
            .goal(Goal::AtMost(5.0));
    }
    for (name, runs) in ["server", baseline].into_iter().zip(runs) {
        report.notes.push(format!(
            "{window} in flight: {name} {:.0} % of a core, clients {:.0} %; {:.0} k deliveries a second of CPU time",
            middle(runs, |run| run.server * 100.0),
            middle(runs, |run| run.clients * 100.0),
            middle(runs, |run| run.rate / run.server / 1e3),
        ));
    }
}

//! `feedline-bench`: measures the capacity of a machine.
//!
//! Each scenario starts the servers that it measures (`feedline`, this executable as the [`floor`], and a Redis where
//! needed), loads them from this process, and stops them. Figures that are compared are measured alternately, run
//! by run, so that a busy neighbour affects both. BENCHMARKS.md describes the method for each figure.
//!
//! | file | contents |
//! |---|---|
//! | `broadcast`, `feed`, `fanout`, `likes`, `timeline`, `reconnect`, `idle`, `push` | one scenario each |
//! | `options`, `context` | the command-line options; the context of all scenarios |
//! | `floor`, `floor_room`, `floor_http` | the server that only delivers messages: sockets, queues, HTTP publishers |
//! | `broadcast_room`, `publishers`, `api_probe` | load: a channel with its publishers; other calls meanwhile |
//! | `client`, `greeting`, `frames`, `messages` | load: clients of sockets and streams, counters of messages |
//! | `arrivals`, `socket_group`, `target` | load: arrivals at all clients, groups of them, endpoints |
//! | `feed_graph`, `feed_writers`, `feed_deliveries`, `feed_side`, `feed_peer`, `feed_report` | parts of `feed` |
//! | `likers`, `http_client` | load: clients that like; HTTP requests |
//! | `push_queue`, `push_metrics` | load: devices and notifications that are due; the pushes that were accepted |
//! | `server`, `postgres`, `process`, `pin` | the measured servers, child processes, and their cores |
//! | `seed`, `dataset`, `fanout_setup`, `ledger` | users, tokens and posts that are created before the load |
//! | `report` | medians, the table, JSON |

mod api_probe;
mod arrivals;
mod broadcast;
mod broadcast_room;
mod client;
mod context;
mod dataset;
mod fanout;
mod fanout_setup;
mod feed;
mod feed_deliveries;
mod feed_graph;
mod feed_peer;
mod feed_report;
mod feed_side;
mod feed_writers;
mod floor;
mod floor_http;
mod floor_room;
mod frames;
mod greeting;
mod http_client;
mod idle;
mod ledger;
mod likers;
mod likes;
mod messages;
mod options;
mod pin;
mod postgres;
mod process;
mod publishers;
mod push;
mod push_metrics;
mod push_queue;
mod reconnect;
mod report;
mod seed;
mod server;
mod socket_group;
mod target;
mod timeline;

use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

use broadcast::BroadcastLoad;
use context::BenchContext;
use feed::FeedLoad;
use options::{BenchOptions, number_between};
use publishers::PublisherKind;
use report::Report;
use target::LoadTransport;

/// jemalloc, as in the server: the floor is compared with it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures the capacity of this machine.
#[derive(Clone, Debug, Parser)]
#[command(name = "feedline-bench", version)]
struct BenchArgs {
    #[command(subcommand)]
    scenario: Scenario,
    #[command(flatten)]
    options: BenchOptions,
}

/// The scenarios.
#[derive(Clone, Debug, Subcommand)]
enum Scenario {
    /// 1,000 sockets on one channel; 1, 8 and 32 publications in flight: deliveries a second, compared with the floor,
    /// or with JSON if the encoding is another
    Broadcast(BroadcastLoad),
    /// 1,000 connected users who follow 10 of 100 authors, posts by 1, 8 and 32 HTTP writers: posts and deliveries a
    /// second, CPU time, latency, compared with the floor
    Feed(FeedLoad),
    /// A post to 10,000 active followers on Redis: followers a second, compared with Redis alone
    Fanout,
    /// 10,000 signed-in connections with two channels each: bytes a connection
    Idle {
        /// The transport of the connections
        #[arg(long, value_enum, default_value_t)]
        transport: LoadTransport,
    },
    /// 10,000 clients reconnect at once and recover 5 entries each: reconnects a second a core
    Reconnect,
    /// The first page of 30 of users who follow 300, warm and after 14 days away: pages a second, and latency
    Timeline,
    /// 1,000 users like 10,000 posts, or one: likes acknowledged a second, and latency until they are settled
    Likes {
        /// The store of the queue of likes [default: redis with --redis, otherwise embedded]. `redis` without --redis
        /// starts a Redis
        #[arg(long, value_enum)]
        broker: Option<likes::QueueKind>,
        /// The part of the maximum rate at which latencies are measured
        #[arg(long, value_name = "PART", default_value_t = 0.5, value_parser = likes::part)]
        load: f64,
    },
    /// Notifications that are due for as many devices: pushes a second from the queue to a provider that accepts at
    /// once
    Push {
        /// The number of pushes
        #[arg(long, default_value_t = 20_000, value_parser = number_between(1_000, 1_000_000))]
        pushes: usize,
    },
    /// Serves the floor until its standard input ends
    #[command(hide = true)]
    Floor {
        /// The address to listen on
        #[arg(long)]
        listen: SocketAddr,
    },
}

fn main() -> Result<()> {
    run(&BenchArgs::parse())
}

/// Runs a scenario and prints the report. A figure below its goal is not an error.
fn run(args: &BenchArgs) -> Result<()> {
    if let Scenario::Floor { listen } = args.scenario {
        return floor_runtime()?.block_on(floor::run(listen));
    }
    let options = args.options.clone();
    ensure!(
        options.server.is_none()
            || matches!(&args.scenario, Scenario::Broadcast(load) if load.publishers == PublisherKind::Socket),
        "--server goes with broadcast from a socket only: the other scenarios must start the server they measure"
    );
    // Without connected clients Redis carries the load, so it gets the clients' core for itself.
    let alone = matches!(args.scenario, Scenario::Fanout);
    let pinning = pin::pin(options.pin, |cores| if alone { cores.server } else { cores.clients })?;
    let style = ProgressStyle::with_template("{spinner} {msg} {wide_bar} {pos}/{len}")?;
    let bar = ProgressBar::new(1).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    let bench = BenchContext { options, pinning, bar };
    let mut report = runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        tokio::select! {
            report = measure(&bench, &args.scenario) => report,
            name = interrupted() => bail!("{}", name?),
        }
    })?;
    bench.bar.finish_and_clear();
    report.notes.push(bench.pinning.note());
    if cfg!(debug_assertions) {
        report.notes.push("a debug build: these figures are meaningless".to_owned());
    }
    let text = if bench.options.json { format!("{}\n", report.json()) } else { report.table() };
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

async fn measure(bench: &BenchContext, scenario: &Scenario) -> Result<Report> {
    match scenario {
        Scenario::Broadcast(load) => broadcast::run(bench, load).await,
        Scenario::Feed(load) => feed::run(bench, load).await,
        Scenario::Fanout => fanout::run(bench).await,
        Scenario::Idle { transport } => idle::run(bench, *transport).await,
        Scenario::Reconnect => reconnect::run(bench).await,
        Scenario::Timeline => timeline::run(bench).await,
        Scenario::Likes { broker, load } => likes::run(bench, *broker, *load).await,
        Scenario::Push { pushes } => push::run(bench, *pushes).await,
        Scenario::Floor { listen } => floor::run(*listen).await.map(|()| Report::new("floor")),
    }
}

/// Waits for a signal that ends the benchmark. The servers that it started are then stopped.
async fn interrupted() -> Result<&'static str> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => Ok("interrupted"),
        _ = terminate.recv() => Ok("terminated"),
    }
}

/// One thread for each core; on a single core the single-threaded runtime, which is faster there.
fn floor_runtime() -> Result<runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut builder =
        if cores == 1 { runtime::Builder::new_current_thread() } else { runtime::Builder::new_multi_thread() };
    Ok(builder.enable_all().build()?)
}

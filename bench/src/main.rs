//! `feedline-bench`: measures the capacity of a machine.
//!
//! Each scenario starts the servers that it measures (`feedline`, this executable as the [`floor`], and a Redis where
//! needed), loads them from this process, and stops them. Figures that are compared are measured alternately, run
//! by run, so that a busy neighbour affects both. BENCHMARKS.md describes the method for each figure.
//!
//! | file | contents |
//! |---|---|
//! | `broadcast`, `feed`, `fanout`, `likes`, `timeline`, `composed`, `reconnect`, `idle`, `push` | one scenario each |
//! | `broadcast_room`, `publishers`, `feed_system`, `feed_readers`, `likers` | their loads |
//! | `options`, `context`, `report` | the command-line options; the frame that repeats and compares; the table, JSON |
//! | `stores`, `process` | the measured server with its stores; child processes, their cores and CPU time |
//! | `floor` | the server that only delivers messages |
//! | `client`, `frames`, `http_load` | load: clients of sockets and streams, HTTP clients with their pace |
//! | `seed` | users, tokens and posts that are created before the load |

mod broadcast;
mod broadcast_room;
mod client;
mod composed;
mod context;
mod fanout;
mod feed;
mod feed_readers;
mod feed_system;
mod floor;
mod frames;
mod http_load;
mod idle;
mod likers;
mod likes;
mod options;
mod process;
mod publishers;
mod push;
mod reconnect;
mod report;
mod seed;
mod stores;
mod timeline;

use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;

use anyhow::{Result, bail, ensure};
use clap::{Parser, Subcommand};
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

use context::BenchContext;
use options::{BenchOptions, number};
use publishers::PublisherKind;
use report::Report;

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
    Broadcast(broadcast::BroadcastOptions),
    /// 1,000 connected users who follow 10 of 100 authors, posts by 1, 8 and 32 HTTP writers: posts and deliveries a
    /// second, CPU time, latency, compared with the floor
    Feed(feed::FeedOptions),
    /// A post to 10,000 active followers on Redis: followers a second, compared with Redis alone
    Fanout,
    /// 10,000 signed-in connections with two channels each: bytes a connection
    Idle,
    /// 10,000 clients reconnect at once and recover 5 entries each: reconnects a second a core
    Reconnect,
    /// The first page of 30 of users who follow 300, warm and after 14 days away: pages a second, and latency
    Timeline,
    /// Reposts, muted words, followed topics and lists, beside timelines without them
    Composed,
    /// 1,000 users like 10,000 posts, or one: likes acknowledged a second, and latency until they are settled
    Likes(likes::LikesOptions),
    /// Notifications that are due for as many devices: pushes a second from the queue to a provider that accepts at
    /// once
    Push {
        /// The number of pushes
        #[arg(long, default_value_t = 20_000, value_parser = number(1_000..=1_000_000))]
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

/// Runs a scenario and prints the report. A figure below its goal is not an error.
fn main() -> Result<()> {
    let BenchArgs { scenario, options } = BenchArgs::parse();
    if let Scenario::Floor { listen } = scenario {
        return floor::run(listen);
    }
    ensure!(
        options.server.is_none()
            || matches!(&scenario, Scenario::Broadcast(load) if load.publishers == PublisherKind::Socket),
        "--server goes with broadcast from a socket only: the other scenarios must start the server they measure"
    );
    let bench = BenchContext::new(options)?;
    let mut report = runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let measured = tokio::select! {
            report = measure(&bench, &scenario) => report,
            name = interrupted() => name.and_then(|name| bail!("{name}")),
        };
        bench.say("");
        if let Some(url) = &bench.options.redis {
            seed::remove_keys(url, &bench.prefix()).await?;
        }
        measured
    })?;
    report.notes.push(bench.pin_note());
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
        Scenario::Broadcast(options) => broadcast::run(bench, options).await,
        Scenario::Feed(options) => feed::run(bench, options).await,
        Scenario::Fanout => fanout::run(bench).await,
        Scenario::Idle => idle::run(bench).await,
        Scenario::Reconnect => reconnect::run(bench).await,
        Scenario::Timeline => timeline::run(bench).await,
        Scenario::Composed => composed::run(bench).await,
        Scenario::Likes(options) => likes::run(bench, options).await,
        Scenario::Push { pushes } => push::run(bench, *pushes).await,
        Scenario::Floor { .. } => bail!("the floor measures nothing"),
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

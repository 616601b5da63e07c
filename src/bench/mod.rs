//! `feedline bench`: what a machine can carry.
//!
//! Each scenario starts what it measures (this executable as a server, this executable as a [`floor`], a Redis where
//! one is needed), loads it from this process, and stops it. Where a figure is compared with another, the two are
//! measured in turn, run by run, so that a busy neighbour hits both. BENCHMARKS.md says how each is taken.
//!
//! | file | what is in it |
//! |---|---|
//! | `broadcast`, `fanout`, `live`, `celebrity`, `idle`, `reconnect`, `timeline`, `page_cost`, `edges`, `likes` | one scenario each |
//! | `floor` | the server that does nothing but deliver |
//! | `client`, `frames`, `arrivals` | the load: light sockets, and what is counted at them |
//! | `likers` | the load: people who like |
//! | `web` | the load: requests over HTTP |
//! | `server`, `pin` | the processes that are measured, and their cores |
//! | `seed`, `stage`, `crowd` | the people, and what must be there before they come |
//! | `report` | medians, the table, JSON |

mod arrivals;
mod broadcast;
mod celebrity;
mod client;
mod crowd;
mod edges;
mod fanout;
mod floor;
mod frames;
mod idle;
mod ledger;
mod likers;
mod likes;
mod live;
mod page_cost;
mod pin;
mod postgres;
mod reconnect;
mod report;
mod seed;
mod server;
mod stage;
mod timeline;
mod web;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

use pin::{Cores, Pinning};
use report::Report;
use server::{Listening, Setup};

/// `feedline bench <scenario>`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    scenario: Scenario,
    #[command(flatten)]
    options: Options,
}

/// What is measured.
#[derive(Clone, Debug, Subcommand)]
enum Scenario {
    /// 1,000 sockets on one channel, 1, 8 and 32 publications in flight: deliveries a second, beside the floor's
    Broadcast,
    /// A post to 10,000 active followers on Redis: followers a second, beside Redis's own
    Fanout {
        /// 1,000 of the followers are connected: from the post's acceptance to the last socket
        #[arg(long)]
        live: bool,
    },
    /// A post of somebody whom 1,000,000 follow: from its acceptance to the last of 1,000 connected, beside few followers
    Celebrity {
        /// How many follow
        #[arg(long, default_value_t = 1_000_000, value_parser = many(2, 10_000_000))]
        followers: usize,
        /// How many of them are connected; half of the followers at most
        #[arg(long, default_value_t = 1_000, value_parser = many(1, client::MOST_SOCKETS))]
        connected: usize,
        /// Posts in a run
        #[arg(long, default_value_t = 100, value_parser = many(1, 100_000))]
        posts: usize,
    },
    /// 10,000 connections signed in, two channels each: bytes a connection
    Idle,
    /// 10,000 reconnect at once, each recovering 5 entries: reconnects a second a core
    Reconnect,
    /// The first page of 30 for people who follow 300, warm and after 14 days away: pages a second, and latency
    Timeline,
    /// Pages 1, 30 and 200 of a timeline: what each costs
    PageCost,
    /// Follow, unfollow and block with full inboxes: what each takes, and whether live delivery stalls
    Edges,
    /// 1,000 people like 10,000 posts, or one: likes acknowledged a second, how long that takes, and until they are settled
    Likes {
        /// What keeps what is acknowledged: by default Redis if one is given, else embedded; without --redis one is started
        #[arg(long, value_enum)]
        broker: Option<likes::Kept>,
        /// At which part of the top rate it is taken how long likes take
        #[arg(long, value_name = "PART", default_value_t = 0.5, value_parser = likes::part)]
        load: f64,
    },
    /// Serves the floor until its standard input ends
    #[command(hide = true)]
    Floor {
        /// Where
        #[arg(long)]
        listen: SocketAddr,
    },
}

/// How it is measured.
#[derive(Clone, Debug, Args)]
struct Options {
    /// Runs of each figure; medians are shown
    #[arg(long, global = true, default_value_t = 5, value_parser = runs)]
    runs: usize,
    /// Seconds of load in a run, where a run has no end of its own
    #[arg(long, global = true, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Puts the server on one core and the clients on another, 0 and 1 unless told which
    #[arg(long, global = true, value_name = "SERVER,CLIENTS", num_args = 0..=1, require_equals = true, default_missing_value = "0,1")]
    pin: Option<Cores>,
    /// Prints JSON, with every run
    #[arg(long, global = true)]
    json: bool,
    /// A Redis on this machine to use, as redis://127.0.0.1:6379; without it, scenarios that need one start their own
    #[arg(long, global = true, value_name = "URL", value_parser = loopback_redis)]
    redis: Option<String>,
    /// What keeps the ledger of the server
    #[arg(long, global = true, value_enum, default_value_t)]
    ledger: ledger::Kind,
    /// A server on this machine that runs already (broadcast only), as http://127.0.0.1:8000
    #[arg(long, global = true, value_name = "URL", value_parser = loopback_server)]
    server: Option<SocketAddr>,
}

/// What every scenario is given.
struct Bench {
    options: Options,
    pinning: Pinning,
    bar: ProgressBar,
}

impl Bench {
    /// Shows that so many steps are ahead.
    fn begin(&self, steps: usize) {
        self.bar.set_length(steps as u64);
        self.bar.set_position(0);
    }

    /// How a server is set up that has the ledger asked for.
    async fn setup(&self) -> Result<Setup> {
        let mut setup = Setup::new(&seed::secret())?;
        if self.options.ledger == ledger::Kind::Postgres {
            self.bar.set_message("starting PostgreSQL");
            let (server, data, url) = postgres::start(self.pinning.cores().map(|cores| cores.clients)).await?;
            (setup.ledger, setup.postgres) = (url, Some((server, data)));
        }
        Ok(setup)
    }

    /// Takes down what was set up, but for the server.
    async fn strike(&self, setup: Setup) -> Result<()> {
        self.forget(&setup).await?;
        match setup.postgres {
            // Its data go once it has ended.
            Some((server, _data)) => server.stop().await,
            None => Ok(()),
        }
    }

    /// Starts a server.
    async fn serve(&self, setup: &Setup) -> Result<Listening> {
        server::feedline(setup, self.pinning.cores().map(|cores| cores.server)).await
    }

    /// Starts the floor.
    async fn floor(&self) -> Result<Listening> {
        server::floor(self.pinning.cores().map(|cores| cores.server)).await
    }

    /// The Redis given, or one of our own on the clients' core, and its address.
    async fn redis(&self) -> Result<(Option<Listening>, String)> {
        if let Some(url) = &self.options.redis {
            return Ok((None, url.clone()));
        }
        let redis = server::redis(self.pinning.cores().map(|cores| cores.clients)).await?;
        self.bar.println(format!("started a redis-server of its own at {}", redis.addr));
        let url = format!("redis://{}", redis.addr);
        Ok((Some(redis), url))
    }

    /// The same, with the Redis given as its broker, for scenarios that do without one. Says so in the report.
    async fn setup_as_asked(&self, report: &mut Report) -> Result<Setup> {
        let mut setup = self.setup().await?;
        if let Some(redis) = &self.options.redis {
            redis.clone_into(&mut setup.broker);
        }
        // Where each run has a setup of its own, it is the same.
        let note = setup.note();
        if !report.notes.contains(&note) {
            report.notes.push(note);
        }
        Ok(setup)
    }

    /// Removes what was written to a Redis that somebody else keeps.
    async fn forget(&self, setup: &Setup) -> Result<()> {
        match &self.options.redis {
            Some(url) => seed::remove_keys(url, &setup.prefix).await,
            None => Ok(()),
        }
    }
}

/// Runs `feedline bench` and prints what came of it. An error if a scenario could not be run; a figure that misses its
/// goal is none.
pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    if let Scenario::Floor { listen } = args.scenario {
        return floor_runtime()?.block_on(floor::run(listen));
    }
    let options = args.options.clone();
    let only_broadcast = options.server.is_none() || matches!(args.scenario, Scenario::Broadcast);
    ensure!(
        only_broadcast,
        "--server goes with broadcast only: the other scenarios must start the server they measure"
    );
    // With nobody connected the load is Redis's: it has a core for itself.
    let alone = matches!(args.scenario, Scenario::Fanout { live: false });
    let pinning = pin::pin(options.pin, |cores| if alone { cores.server } else { cores.clients })?;
    let style = ProgressStyle::with_template("{spinner} {msg} {wide_bar} {pos}/{len}")?;
    let bar = ProgressBar::new(1).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    let bench = Bench { options, pinning, bar };
    let mut report = runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        tokio::select! {
            report = measure(&bench, &args.scenario) => report,
            name = interrupted() => bail!("{}", name?),
        }
    })?;
    bench.bar.finish_and_clear();
    report.notes.push(bench.pinning.note());
    if cfg!(debug_assertions) {
        report.notes.push("a debug build: these figures mean nothing".to_owned());
    }
    if bench.options.json {
        println!("{}", report.json());
    } else {
        print!("{}", report.table());
    }
    Ok(())
}

async fn measure(bench: &Bench, scenario: &Scenario) -> Result<Report> {
    match scenario {
        Scenario::Broadcast => broadcast::run(bench).await,
        Scenario::Fanout { live: false } => fanout::run(bench).await,
        Scenario::Fanout { live: true } => live::run(bench).await,
        Scenario::Celebrity { followers, connected, posts } => {
            celebrity::run(bench, celebrity::Size { followers: *followers, connected: *connected, posts: *posts }).await
        }
        Scenario::Idle => idle::run(bench).await,
        Scenario::Reconnect => reconnect::run(bench).await,
        Scenario::Timeline => timeline::run(bench).await,
        Scenario::PageCost => page_cost::run(bench).await,
        Scenario::Edges => edges::run(bench).await,
        Scenario::Likes { broker, load } => likes::run(bench, *broker, *load).await,
        Scenario::Floor { listen } => floor::run(*listen).await.map(|()| Report::new("floor")),
    }
}

/// Waits for a signal that ends the bench, so that what it started is stopped too.
async fn interrupted() -> Result<&'static str> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => Ok("interrupted"),
        _ = terminate.recv() => Ok("terminated"),
    }
}

/// As many threads as there are cores; where there is one, the runtime that is fastest on it.
fn floor_runtime() -> Result<runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut builder =
        if cores == 1 { runtime::Builder::new_current_thread() } else { runtime::Builder::new_multi_thread() };
    Ok(builder.enable_all().build()?)
}

fn runs(text: &str) -> Result<usize, String> {
    number(text, 1, 50)
}

fn many(least: usize, most: usize) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| number(text, least, most)
}

fn number(text: &str, least: usize, most: usize) -> Result<usize, String> {
    text.parse().ok().filter(|number| (least..=most).contains(number)).ok_or_else(|| format!("{least} to {most}"))
}

/// The bench loads what it is pointed at, so it is pointed at this machine only.
fn loopback_server(url: &str) -> Result<SocketAddr> {
    let rest = url.strip_prefix("http://").context("http://ADDRESS:PORT")?;
    loopback(rest.trim_end_matches('/'))
}

fn loopback_redis(url: &str) -> Result<String> {
    let rest = url.strip_prefix("redis://").context("redis://ADDRESS:PORT")?;
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    loopback(rest.split('/').next().unwrap_or_default())?;
    Ok(url.to_owned())
}

/// Names are not looked up: what a name means can change between the check and the load.
fn loopback(authority: &str) -> Result<SocketAddr> {
    let addr: SocketAddr = match authority.strip_prefix("localhost:") {
        Some(port) => (Ipv4Addr::LOCALHOST, port.parse::<u16>().context("not a port")?).into(),
        None => authority.parse().context("not an IP address with a port")?,
    };
    ensure!(addr.is_ipv4() && addr.ip().is_loopback(), "only an IPv4 loopback address is loaded");
    Ok(addr)
}

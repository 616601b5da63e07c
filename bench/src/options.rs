//! The options of all scenarios.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, Result, ensure};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use hyper::Uri;

/// The options of all scenarios.
#[derive(Clone, Debug, Args)]
pub(super) struct BenchOptions {
    /// Runs of each figure; the table shows medians
    #[arg(long, global = true, default_value_t = 5, value_parser = number(1..=50))]
    pub(super) runs: usize,
    /// Seconds of load in a run without a natural end
    #[arg(long, global = true, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(super) seconds: u64,
    /// Pins the server to one core and the clients to another; without a value to 0 and 1
    #[arg(
        long,
        global = true,
        value_name = "SERVER,CLIENTS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "0,1"
    )]
    pub(super) pin: Option<Cores>,
    /// Prints JSON with every run
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// A running Redis on this machine, as redis://127.0.0.1:6379; by default scenarios that need one start it
    #[arg(long, global = true, value_name = "URL", value_parser = loopback_redis)]
    pub(super) redis: Option<String>,
    /// The store of the server's ledger
    #[arg(long, global = true, value_enum, default_value_t)]
    pub(super) ledger: LedgerKind,
    /// The executable of the measured server, to compare two builds [default: `feedline` beside this program]
    #[arg(long, global = true, value_name = "PATH")]
    pub(super) executable: Option<PathBuf>,
    /// A running server on this machine (broadcast only), as http://127.0.0.1:8000
    #[arg(long, global = true, value_name = "URL", value_parser = loopback_server)]
    pub(super) server: Option<SocketAddr>,
}

/// The store of the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LedgerKind {
    /// SQLite
    #[default]
    Sqlite,
    /// A PostgreSQL server that the bench starts
    Postgres,
}

/// The store of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum BrokerKind {
    /// The server's memory
    #[value(alias = "embedded")]
    Memory,
    /// Redis
    Redis,
}

/// A core for the measured server and one for the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cores {
    /// The core of the server or the floor.
    pub server: usize,
    /// The core of the clients.
    pub clients: usize,
}

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (server, clients) = text.split_once(',').ok_or("two cores, the server's and the clients', as in 0,1")?;
        let core = |text: &str| text.trim().parse().map_err(|_| format!("{text:?} is not the number of a core"));
        Ok(Self { server: core(server)?, clients: core(clients)? })
    }
}

/// A parser of arguments: a number in this range.
pub(super) fn number(range: RangeInclusive<u64>) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(range)
}

/// A parser of arguments: a part of the maximum rate, or 0.
pub(super) fn part(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| *part == 0.0 || (0.01..=1.0).contains(part));
    part.ok_or_else(|| "a part of the top rate is 0, or a number from 0.01 to 1".to_owned())
}

fn loopback_server(url: &str) -> Result<SocketAddr> {
    loopback(url, "http")
}

fn loopback_redis(url: &str) -> Result<String> {
    loopback(url, "redis").map(|_| url.to_owned())
}

/// Only servers on this machine may be loaded. Names are not resolved: the result could change between this check and
/// the load.
fn loopback(url: &str, scheme: &str) -> Result<SocketAddr> {
    let uri: Uri = url.parse()?;
    ensure!(uri.scheme_str() == Some(scheme), "expected {scheme}://ADDRESS:PORT");
    let ip: Ipv4Addr = match uri.host().unwrap_or_default() {
        "localhost" => Ipv4Addr::LOCALHOST,
        host => host.parse().context("not an IP address")?,
    };
    ensure!(ip.is_loopback(), "only IPv4 loopback addresses are allowed");
    Ok((ip, uri.port_u16().context("no port")?).into())
}

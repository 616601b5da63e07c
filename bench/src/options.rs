//! The options of all scenarios.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use super::ledger::LedgerKind;
use super::pin::Cores;

/// The options of all scenarios.
#[derive(Clone, Debug, Args)]
pub(super) struct BenchOptions {
    /// Runs of each figure; the table shows medians
    #[arg(long, global = true, default_value_t = 5, value_parser = runs)]
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

fn runs(text: &str) -> Result<usize, String> {
    number(text, 1, 50)
}

/// A parser of arguments: a number from `min` to `max`.
pub(super) fn number_between(min: usize, max: usize) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| number(text, min, max)
}

fn number(text: &str, min: usize, max: usize) -> Result<usize, String> {
    text.parse().ok().filter(|number| (min..=max).contains(number)).ok_or_else(|| format!("expected {min} to {max}"))
}

/// Only servers on this machine may be loaded.
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

/// Names are not resolved: the result could change between this check and the load.
fn loopback(authority: &str) -> Result<SocketAddr> {
    let addr: SocketAddr = match authority.strip_prefix("localhost:") {
        Some(port) => (Ipv4Addr::LOCALHOST, port.parse::<u16>().context("not a port")?).into(),
        None => authority.parse().context("not an IP address with a port")?,
    };
    ensure!(addr.is_ipv4() && addr.ip().is_loopback(), "only IPv4 loopback addresses are allowed");
    Ok(addr)
}

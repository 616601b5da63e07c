//! Pins processes to cores.
//!
//! Pinning a thread takes a system call, which needs unsafe code; `taskset` can start a process on a core. So the bench
//! starts itself again.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context as _, Result};

/// Set in the process that runs on its core.
const PINNED: &str = "FEEDLINE_BENCH_PINNED";

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

/// The state of the pinning.
#[derive(Clone, Debug)]
pub(super) enum Pinning {
    /// Not requested.
    Free,
    /// Pinned to these cores.
    Pinned(Cores),
    /// Requested but impossible, with the reason.
    Impossible(String),
}

impl Pinning {
    /// The cores, if pinned.
    pub(super) fn cores(&self) -> Option<Cores> {
        match self {
            Self::Pinned(cores) => Some(*cores),
            Self::Free | Self::Impossible(_) => None,
        }
    }

    /// The state as a note of the report.
    pub(super) fn note(&self) -> String {
        match self {
            Self::Free => "not pinned: server and clients share the cores as the system likes".to_owned(),
            Self::Pinned(Cores { server, clients }) => format!("server on core {server}, clients on core {clients}"),
            Self::Impossible(why) => format!("not pinned: {why}"),
        }
    }
}

/// Starts this process again on core `own`, with the same arguments. Returns in the process that runs there, or if
/// pinning is impossible.
pub(super) fn pin(asked: Option<Cores>, own: impl Fn(Cores) -> usize) -> Result<Pinning> {
    let Some(cores) = asked else { return Ok(Pinning::Free) };
    if std::env::var_os(PINNED).is_some() {
        return Ok(Pinning::Pinned(cores));
    }
    let there = std::thread::available_parallelism().map_or(1, usize::from);
    if there < 2 {
        return Ok(Pinning::Impossible("there is one core".to_owned()));
    }
    for core in [cores.server, cores.clients] {
        let works = Command::new("taskset").args(["-c", &core.to_string(), "true"]).output();
        match works {
            Ok(output) if output.status.success() => {}
            Ok(_) => return Ok(Pinning::Impossible(format!("taskset cannot use core {core}"))),
            Err(_) => return Ok(Pinning::Impossible("there is no taskset command".to_owned())),
        }
    }
    let exe = std::env::current_exe()?;
    let mut command = Command::new("taskset");
    command.arg("-c").arg(own(cores).to_string()).arg(exe).args(std::env::args_os().skip(1)).env(PINNED, "1");
    Err(command.exec()).context("cannot start the bench again on its core")
}

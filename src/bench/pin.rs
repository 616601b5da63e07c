//! Which process runs on which core.
//!
//! A thread can only be put on a core by a system call, which needs unsafe code; a process can be started there by
//! `taskset`. So the bench starts itself again.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context as _, Result};

/// Set once the bench runs where it was told to.
const PINNED: &str = "FEEDLINE_BENCH_PINNED";

/// A core for what is measured and one for what measures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cores {
    /// The server's, and the floor's.
    pub server: usize,
    /// The clients'.
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

/// Whether what was asked for is so.
#[derive(Clone, Debug)]
pub(super) enum Pinning {
    /// Nobody asked.
    Free,
    /// It is.
    Pinned(Cores),
    /// It cannot be, for this reason.
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

    /// What is to be said of it.
    pub(super) fn note(&self) -> String {
        match self {
            Self::Free => "not pinned: server and clients share the cores as the system likes".to_owned(),
            Self::Pinned(Cores { server, clients }) => format!("server on core {server}, clients on core {clients}"),
            Self::Impossible(why) => format!("not pinned: {why}"),
        }
    }
}

/// Puts this process on core `own` by starting it again there, with the same arguments. Returns in the process that is
/// where it should be, or where that is impossible.
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

//! The context of all scenarios: the options, the progress bar, and the servers to start.

use anyhow::Result;
use indicatif::ProgressBar;

use super::ledger::LedgerKind;
use super::options::BenchOptions;
use super::pin::Pinning;
use super::process::ServerProcess;
use super::report::Report;
use super::server::{self, ServerSetup};
use super::{postgres, seed};

/// The context of a scenario. Created once for each run of `feedline-bench`.
pub(super) struct BenchContext {
    /// The options of the command line.
    pub(super) options: BenchOptions,
    /// The cores of the server and of the clients.
    pub(super) pinning: Pinning,
    /// The progress bar. Scenarios set its message and advance it.
    pub(super) bar: ProgressBar,
}

impl BenchContext {
    /// Resets the progress bar to 0 of `steps`.
    pub(super) fn start_progress(&self, steps: usize) {
        self.bar.set_length(steps as u64);
        self.bar.set_position(0);
    }

    /// The setup of a server with the ledger of the options. Starts a PostgreSQL if needed.
    pub(super) async fn server_setup(&self) -> Result<ServerSetup> {
        let mut setup = ServerSetup::new(&seed::secret())?;
        if self.options.ledger == LedgerKind::Postgres {
            self.bar.set_message("starting PostgreSQL");
            let (server, data, url) = postgres::start(self.pinning.cores().map(|cores| cores.clients)).await?;
            (setup.ledger, setup.postgres) = (url, Some((server, data)));
        }
        Ok(setup)
    }

    /// The same with the broker of `--redis`, for scenarios that use the memory broker without it. Adds the stores to
    /// the notes of the report.
    pub(super) async fn server_setup_noted(&self, report: &mut Report) -> Result<ServerSetup> {
        let mut setup = self.server_setup().await?;
        if let Some(redis) = &self.options.redis {
            redis.clone_into(&mut setup.broker);
        }
        // Each run may create a setup; the note is the same.
        let note = setup.note();
        if !report.notes.contains(&note) {
            report.notes.push(note);
        }
        Ok(setup)
    }

    /// Stops and removes everything of a setup except the Feedline server, which the scenario has stopped.
    pub(super) async fn tear_down(&self, setup: ServerSetup) -> Result<()> {
        self.remove_keys(&setup).await?;
        match setup.postgres {
            // Its data is removed once it has stopped.
            Some((server, _data)) => server.stop().await,
            None => Ok(()),
        }
    }

    /// Starts a Feedline server on the server's core.
    pub(super) async fn start_server(&self, setup: &ServerSetup) -> Result<ServerProcess> {
        server::start_feedline(
            setup,
            self.options.executable.as_deref(),
            self.pinning.cores().map(|cores| cores.server),
        )
        .await
    }

    /// Starts the floor on the server's core.
    pub(super) async fn start_floor(&self) -> Result<ServerProcess> {
        server::start_floor(self.pinning.cores().map(|cores| cores.server)).await
    }

    /// The URL of the Redis of `--redis`; without the option, starts one on the clients' core.
    pub(super) async fn start_redis(&self) -> Result<(Option<ServerProcess>, String)> {
        if let Some(url) = &self.options.redis {
            return Ok((None, url.clone()));
        }
        let redis = server::start_redis(self.pinning.cores().map(|cores| cores.clients)).await?;
        self.bar.println(format!("started a redis-server at {}", redis.addr));
        let url = format!("redis://{}", redis.addr);
        Ok((Some(redis), url))
    }

    /// Removes the keys of the bench from the Redis of `--redis`.
    pub(super) async fn remove_keys(&self, setup: &ServerSetup) -> Result<()> {
        match &self.options.redis {
            Some(url) => seed::remove_keys(url, &setup.prefix).await,
            None => Ok(()),
        }
    }
}

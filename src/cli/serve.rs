//! `feedline serve`: runs the server. It is the default command.

use anyhow::Context as _;
use clap::ValueEnum;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use super::config_source::ConfigSource;
use super::notify::ServiceManager;
use super::output::write_in_time;
use super::process::{Logging, init_logs, raise_open_files};
use crate::app::{App, Role, ServerAddresses};
use crate::config::{Config, Secrets};
use crate::net::ListenAddress;

/// The arguments of `feedline serve`.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct ServeArgs {
    /// Do only this part of the work
    #[arg(long, value_name = "PART", value_enum)]
    pub(crate) only: Option<Part>,
}

/// A part of the work of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Send pushes to devices and events of the outlet; server.listen has probes and metrics only
    Push,
}

/// Serves until SIGTERM or SIGINT. A second signal ends the process at once.
///
/// # Errors
/// If the server cannot start. The message names the configuration key at fault.
pub(crate) fn serve(source: &ConfigSource, config: &Config, serve: ServeArgs) -> anyhow::Result<()> {
    let role = match serve.only {
        Some(Part::Push) => Role::Push,
        None => Role::Everything,
    };
    let logs = init_logs(&config.server)?;
    let served = serve_until_stopped(source, config, role, &logs);
    logs.flush();
    served
}

fn serve_until_stopped(source: &ConfigSource, config: &Config, role: Role, logs: &Logging) -> anyhow::Result<()> {
    let files = raise_open_files().context("the limit of open files cannot be read")?;
    tracing::debug!(files, "raised the limit of open files");
    let secrets = Secrets::load(config)?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        ignore_other_signals()?;
        let app = App::start(config, &secrets, role).await?;
        greet(&app, config, &secrets);
        let manager = ServiceManager::from_env();
        manager.ready();
        let mut in_use = config.clone();
        loop {
            tokio::select! {
                // At once, as after a crash: what it serves meanwhile belongs to other stores.
                refusal = app.refused() => return Err(refusal.into()),
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => {
                    manager.reloading();
                    in_use = reload(source, in_use, logs, &app);
                    manager.ready();
                }
                () = manager.keep_alive() => {}
            }
        }
        tracing::info!("stopping");
        manager.stopping();
        tokio::select! {
            () = app.stop() => tracing::info!("stopped"),
            () = manager.keep_alive() => {}
            _ = terminate.recv() => tracing::warn!("stopped at once"),
            _ = interrupt.recv() => tracing::warn!("stopped at once"),
        }
        anyhow::Ok(())
    })
}

/// Reads the configuration and the files that it names again, takes what a running server can take, and says what needs
/// a restart. A configuration with an error changes nothing. Returns the configuration in use.
fn reload(source: &ConfigSource, config: Config, logs: &Logging, app: &App) -> Config {
    let reloaded = source.load().map_err(anyhow::Error::from).and_then(|new| {
        let (reloaded, changed) = config.reloaded(&new);
        app.reload(&reloaded, &Secrets::load(&reloaded)?)?;
        logs.set_level(&reloaded.server)?;
        Ok((reloaded, changed))
    });
    match reloaded {
        Ok((reloaded, changed)) => {
            let log_level = reloaded.server.log_level;
            tracing::info!(changed = changed.taken.join(","), %log_level, "reloaded the configuration");
            if !changed.need_restart.is_empty() {
                let keys = changed.need_restart.join(",");
                tracing::warn!(keys, "other changes of the configuration need a restart");
            }
            reloaded
        }
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the configuration was not reloaded");
            config
        }
    }
}

/// Keeps signals that mean other things to other servers from ending this one.
fn ignore_other_signals() -> std::io::Result<()> {
    for kind in [SignalKind::user_defined1(), SignalKind::user_defined2(), SignalKind::quit()] {
        let mut received = signal(kind)?;
        tokio::spawn(async move {
            while received.recv().await.is_some() {
                tracing::info!(signal = kind.as_raw_value(), "ignored a signal");
            }
        });
    }
    Ok(())
}

/// One thread per core. On a single core, the single-threaded runtime is cheaper, because it passes no work between
/// threads.
pub(super) fn runtime() -> std::io::Result<Runtime> {
    let cores = std::thread::available_parallelism()?.get();
    let mut builder = if cores == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build()
}

/// Prints the addresses of the page, that of the probes, the stores and the path of the secrets file.
fn greet(app: &App, config: &Config, secrets: &Secrets) {
    let (broker, ledger) = app.stores();
    let base = config.server.base_path.as_str();
    let scheme = if config.server.tls.is_some() { "https" } else { "http" };
    let url = |address: &ListenAddress| match address {
        ListenAddress::Port { .. } => format!("{scheme}://{address}{base}"),
        ListenAddress::Socket(_) => address.to_string(),
    };
    let ServerAddresses { public, admin } = app.addresses();
    let urls: Vec<String> = public.iter().map(url).collect();
    let mut lines = format!("Feedline {} is at {}\n", env!("CARGO_PKG_VERSION"), urls.join("\n           and "));
    if let Some(admin) = admin {
        lines += &format!("  admin    http://{admin}\n");
    }
    lines += &format!("  broker   {broker}\n  ledger   {ledger}\n");
    if let Some(file) = &secrets.file {
        let made = if secrets.created { "created in" } else { "in" };
        lines += &format!("  secrets  {made} {}\n", file.display());
    }
    write_in_time(std::io::stdout(), lines);
    let addresses: Vec<String> = public.iter().map(ListenAddress::to_string).collect();
    tracing::info!(address = %addresses.join(","), broker, ledger, "serving");
}

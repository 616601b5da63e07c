//! `feedline demo`: a server with a demonstration in which people post, like and comment, until it is interrupted.

use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::output::write_in_time;
use super::process::{init_logs, raise_open_files};
use super::seed_demo::{FIRST_USER, random_password};
use super::serve::runtime;
use crate::app::{App, Role, open_ledger};
use crate::auth::Passwords;
use crate::config::{Config, LogFormat, Secrets};
use crate::demo::{Crowd, seed};
use crate::feed::now;
use crate::net::ListenAddress;

/// The arguments of `feedline demo`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DemoArgs {
    /// The port on 127.0.0.1; 0 is a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
}

/// Serves a demonstration from a folder of its own, which is removed at the end. Neither a configuration file nor the
/// environment changes it: it cannot touch another instance.
///
/// # Errors
/// If the folder cannot be created, or the port is in use.
pub(crate) fn demo(args: DemoArgs, log_format: Option<LogFormat>) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("feedline-demo-").tempdir().context("a folder cannot be created")?;
    let mut config = configuration(folder.path(), args.port)?;
    config.server.log_format = log_format.unwrap_or(config.server.log_format);
    let logs = init_logs(&config.server)?;
    let served = serve(&config);
    logs.flush();
    served
}

/// The configuration: the defaults, but for the address, the folder, and a quiet log.
fn configuration(folder: &Path, port: u16) -> anyhow::Result<Config> {
    let mut server = toml::Table::new();
    server.insert("listen".into(), format!("127.0.0.1:{port}").into());
    server.insert("data_dir".into(), folder.to_str().context("the folder's name is not UTF-8")?.into());
    server.insert("drain".into(), "0s".into());
    server.insert("log_level".into(), "warn".into());
    let text = toml::Table::from_iter([("server".to_owned(), server.into())]).to_string();
    Ok(Config::parse(&text, std::iter::empty())?)
}

fn serve(config: &Config) -> anyhow::Result<()> {
    raise_open_files().context("the limit of open files cannot be read")?;
    let secrets = Secrets::load(config)?;
    runtime()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let password = random_password();
        let hash = Passwords::new().hash(password.clone()).await.context("cannot hash the password")?;
        let ledger = open_ledger(config).await?;
        let seeded = seed(&*ledger, &hash, now()).await;
        ledger.close().await;
        seeded.context("the demonstration was not written")?;
        let app = App::start(config, &secrets, Role::Everything).await?;
        let key = secrets.api_keys.first().context("there is no API key")?;
        let address = app.addresses().public.first().context("the demonstration has no address")?;
        let crowd = Crowd::new(address, key.reveal(), FIRST_USER)?;
        greet(address, &password);
        tokio::select! {
            () = crowd.run() => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tokio::select! {
            () = app.stop() => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        anyhow::Ok(())
    })
}

/// Prints where to look, and what to press. The page signs in with what stands after `#`, which browsers do not send.
fn greet(address: &ListenAddress, password: &str) {
    let text = format!(
        "The demonstration is at http://{address}/#demo={FIRST_USER}:{password}\n\
         Press \"Drop my line\" beside the timeline, and see what you missed when it is back. Ctrl-C ends it.\n"
    );
    write_in_time(std::io::stdout(), text);
}

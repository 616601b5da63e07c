//! `feedline push`: checks the delivery to a device.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use tokio::runtime::Builder;

use super::output::stdout;
use crate::app::{open_ledger, push_providers};
use crate::config::Config;
use crate::feed::now;
use crate::ledger::Ledger;
use crate::model::UserId;
use crate::push::providers::Outcome;
use crate::push::test_message;

/// How long the provider keeps a test for a device that is offline.
const TEST_TTL: Duration = Duration::from_secs(300);

/// The arguments of `feedline push`.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// The command
    #[command(subcommand)]
    pub(crate) command: PushCommand,
}

/// The subcommands of `feedline push`.
#[derive(Debug, Subcommand)]
pub(crate) enum PushCommand {
    /// Send a test to a device, and print the answer of its provider
    Test {
        /// The user
        #[arg(long)]
        user: String,
        /// The id of the device
        #[arg(long)]
        device: String,
    },
}

/// Runs a subcommand.
///
/// # Errors
///
/// If the ledger or a provider cannot be used, the device does not exist, or the provider refuses the test.
pub(crate) fn push(config: &Config, args: &PushArgs) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let ledger = open_ledger(config).await?;
        let done = match &args.command {
            PushCommand::Test { user, device } => test(config, &*ledger, user, device).await,
        };
        ledger.close().await;
        done
    })
}

async fn test(config: &Config, ledger: &dyn Ledger, user: &str, device: &str) -> anyhow::Result<()> {
    let user = UserId::parse(user).context("this is no user id")?;
    let devices = ledger.devices(&user).await?;
    let found = devices.iter().find(|found| found.id.as_str() == device);
    let found = found.with_context(|| format!("{user} has no device {device:?}"))?;
    let (providers, texts) = push_providers(&config.push)?;
    let expires_at = now() + u64::try_from(TEST_TTL.as_millis())?;
    let message = test_message(&texts, found, expires_at).map_err(anyhow::Error::msg)?;
    let platform = message.target.platform().as_str();
    match providers.send(&message).await {
        Outcome::Accepted { id } => {
            let id = id.map(|id| format!(" as {id}")).unwrap_or_default();
            writeln!(stdout(), "{platform} accepted the test{id}")?;
            Ok(())
        }
        outcome => {
            let reason = outcome.reason().map(ToString::to_string).unwrap_or_default();
            bail!("{platform} did not accept the test ({}): {reason}", outcome.name())
        }
    }
}

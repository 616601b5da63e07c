//! `feedline push`: checks the delivery to a device, and lists the pushes that were given up.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use feedline::app::{open_ledger, push_providers};
use feedline::config::Config;
use feedline::feed::now;
use feedline::ledger::{FailedPush, Ledger, MAX_FAILED_PUSHES};
use feedline::model::UserId;
use feedline::push::providers::Outcome;
use feedline::push::test_message;
use tokio::runtime::Builder;

use super::output::stdout;

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
    /// List the pushes that were given up, with the reasons
    Failed,
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
            PushCommand::Failed => failed(&*ledger).await,
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
    let platform = message.target.platform();
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

async fn failed(ledger: &dyn Ledger) -> anyhow::Result<()> {
    let mut out = stdout();
    let all = ledger.failed_pushes(usize::try_from(MAX_FAILED_PUSHES)?).await?;
    for FailedPush { key, kind, reason, at } in &all {
        writeln!(out, "{kind} {} of {} to {} at {at}: {reason}", key.item, key.user, key.device)?;
    }
    if all.is_empty() {
        writeln!(out, "no push was given up")?;
    }
    Ok(())
}

//! `feedline seed-demo`: fills an empty instance with a demonstration.

use std::io::Write as _;

use anyhow::Context as _;
use rand::RngExt as _;
use rand::distr::Alphanumeric;
use tokio::runtime::Builder;

use super::output::stdout;
use crate::app::open_ledger;
use crate::auth::Passwords;
use crate::broker::{Flush, Journal};
use crate::config::{BrokerUrl, Config};
use crate::demo::seed;
use crate::feed::now;

/// Characters of a generated password.
const PASSWORD_LENGTH: usize = 12;
/// The account that the summary proposes.
pub(super) const FIRST_USER: &str = "mara";

/// The arguments of `feedline seed-demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct SeedDemoArgs {
    /// The password of all accounts [default: a random one, which is printed]
    #[arg(long, value_name = "PASSWORD")]
    pub(crate) password: Option<String>,
}

/// Writes people, follows, posts, comments and likes to an empty ledger, and prints how to sign in.
///
/// # Errors
///
/// If the ledger is not empty or cannot be opened, or a server of the embedded broker is running.
pub(crate) fn seed_demo(config: &Config, args: &SeedDemoArgs) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        // A running server holds the queue of likes, and its caches would not know the new users.
        let _stopped = match config.broker.url {
            BrokerUrl::Memory => {
                let queue = Journal::open(config.server.data_dir.join("likes"), Flush::Never).await;
                Some(queue.context("stop the server first")?)
            }
            BrokerUrl::Redis(_) => None,
        };
        let password = args.password.clone().unwrap_or_else(random_password);
        let hash = Passwords::new().hash(password.clone()).await.context("cannot hash the password")?;
        let ledger = open_ledger(config).await?;
        let seeded = seed(&*ledger, &hash, now()).await;
        ledger.close().await;
        let seeded = seeded.context("the demonstration was not written")?;
        let mut out = stdout();
        writeln!(
            out,
            "{} people, {} follows, {} posts, {} comments, {} likes",
            seeded.people, seeded.follows, seeded.posts, seeded.comments, seeded.likes
        )?;
        writeln!(out, "Start the server and sign in as {FIRST_USER} (or any of them) with the password {password}")?;
        Ok(())
    })
}

pub(super) fn random_password() -> String {
    rand::rng().sample_iter(Alphanumeric).take(PASSWORD_LENGTH).map(char::from).collect()
}

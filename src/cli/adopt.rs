//! `feedline adopt`: records the configured stores as belonging together.

use std::io::Write as _;

use tokio::runtime::Builder;

use super::output::stdout;
use crate::app::adopt_stores;
use crate::config::Config;

/// Records that the broker and the ledger of the configuration belong together. No node may run.
///
/// # Errors
///
/// If a node runs, or a store cannot be used.
pub(crate) fn adopt(config: &Config) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let [ledger, broker] = runtime.block_on(adopt_stores(config))?;
    writeln!(stdout(), "{ledger} and {broker} belong together now")?;
    Ok(())
}

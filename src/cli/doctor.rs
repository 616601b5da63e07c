//! `feedline doctor`: looks at what the configuration names.

use std::io::Write as _;

use anyhow::bail;

use super::output::stdout;
use super::serve::runtime;
use crate::app::examine;
use crate::config::Config;

/// Prints one line for each thing that was looked at.
///
/// # Errors
///
/// If something is missing; advice is no error.
pub(crate) fn doctor(config: &Config) -> anyhow::Result<()> {
    let findings = runtime()?.block_on(examine(config));
    let mut out = stdout();
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    match findings.iter().filter(|finding| finding.is_missing()).count() {
        0 => Ok(()),
        1 => bail!("1 thing is missing"),
        missing => bail!("{missing} things are missing"),
    }
}

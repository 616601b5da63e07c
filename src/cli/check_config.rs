//! `feedline check-config`.

use std::io::{self, Write};
use std::path::Path;

/// Says on standard output that the configuration is valid, which it was found to be when it was loaded. Creates
/// nothing.
///
/// # Errors
///
/// When standard output is closed.
pub(crate) fn check_config(path: Option<&Path>) -> io::Result<()> {
    let usual = Path::new("config.toml");
    let mut out = io::stdout().lock();
    match path {
        None if !usual.exists() => writeln!(out, "there is no config.toml; the defaults and the environment are valid"),
        _ => writeln!(out, "{} is valid", path.unwrap_or(usual).display()),
    }
}

//! `feedline check-config`.

use std::io::{self, Write};
use std::path::Path;

use super::output::stdout;

/// Prints that the configuration is valid; loading it has validated it. Creates no files.
///
/// # Errors
///
/// If standard output cannot be written.
pub(crate) fn check_config(path: Option<&Path>) -> io::Result<()> {
    let usual = Path::new("config.toml");
    let mut out = stdout();
    match path {
        None if !usual.exists() => writeln!(out, "there is no config.toml; the defaults and the environment are valid"),
        _ => writeln!(out, "{} is valid", path.unwrap_or(usual).display()),
    }
}

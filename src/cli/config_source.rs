//! The options of all commands: where the configuration comes from.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Config, ConfigError, LogFormat};

/// The options of all commands.
#[derive(Debug, Args)]
pub(crate) struct ConfigSource {
    /// The configuration file [default: config.toml, if it exists]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) config: Option<PathBuf>,
    /// The log format; overrides server.log_format
    #[arg(long, global = true, value_name = "FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,
}

impl ConfigSource {
    /// Loads the configuration. Command-line options override it.
    ///
    /// # Errors
    ///
    /// Every problem of the file and the environment.
    pub(crate) fn load(&self) -> Result<Config, ConfigError> {
        let mut config = Config::load(self.config.as_deref())?;
        if let Some(format) = self.log_format {
            config.server.log_format = format;
        }
        Ok(config)
    }
}

//! The errors of a configuration.

use std::fmt;

/// All errors of a configuration. Displayed as one line per problem: `place: message`.
#[derive(Debug)]
pub struct ConfigError {
    pub(crate) problems: Vec<ConfigProblem>,
}

impl ConfigError {
    /// An error with a single problem.
    pub(crate) fn one(place: String, message: String) -> Self {
        Self { problems: vec![ConfigProblem { place, message }] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, ConfigProblem { place, message }) in self.problems.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{place}: {message}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// One invalid value, unknown key or unreadable file.
#[derive(Debug)]
pub(crate) struct ConfigProblem {
    /// The place of the value: `config.toml:12:3: server.listen`, or the name of an environment variable.
    pub(crate) place: String,
    /// The expected value. Never contains a secret.
    pub(crate) message: String,
}

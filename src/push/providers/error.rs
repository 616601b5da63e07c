//! Errors in the settings of a transport.

use std::fmt::Display;

/// A transport cannot be used as configured. The text never contains a key.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ProviderError {
    place: &'static str,
    problem: String,
}

impl ProviderError {
    /// `place` names the setting, for example `push.fcm.service_account`.
    pub(crate) fn new(place: &'static str, problem: impl Display) -> Self {
        Self { place, problem: problem.to_string() }
    }

    /// The setting with the error.
    pub fn place(&self) -> &'static str {
        self.place
    }
}

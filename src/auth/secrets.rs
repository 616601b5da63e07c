//! The secrets in use.

use std::path::PathBuf;

use crate::settings::Secret;

/// The secrets in use. Secrets that are not configured are generated at the first start and kept in a file.
#[derive(Clone, Debug)]
pub struct Secrets {
    /// The key of HMAC tokens. `None`: only public keys are configured.
    pub hmac_secret: Option<Secret>,
    /// The key of Feedline's own sessions. `None`: built-in accounts are disabled.
    pub session_key: Option<Secret>,
    /// The API keys of backends; at least one.
    pub api_keys: Vec<Secret>,
    /// The file with generated secrets; `None`: all secrets in use are configured.
    pub file: Option<PathBuf>,
    /// Whether this start created the file.
    pub created: bool,
}

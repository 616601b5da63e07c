//! A text that is never logged.

use std::fmt;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::TryRng as _;
use rand::rngs::SysRng;
use serde::Deserialize;

/// The number of random bytes in a generated secret; also the minimum length of a configured secret, in characters.
const RANDOM_BYTES: usize = 32;

/// A text that `Debug` does not print.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, for keys and comparisons. It must not be written to a log or a reply.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether the secret is shorter than 32 characters, the minimum length.
    pub fn is_short(&self) -> bool {
        self.0.chars().count() < RANDOM_BYTES
    }

    /// A new random secret.
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0; RANDOM_BYTES];
        SysRng.try_fill_bytes(&mut bytes).map_err(io::Error::other)?;
        Ok(Self(URL_SAFE_NO_PAD.encode(bytes)))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

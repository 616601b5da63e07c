//! What nobody may see: the secrets that are configured, and those that a first start makes.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::TryRng as _;
use rand::rngs::SysRng;
use serde::Deserialize;

use super::Config;

/// The file in `server.data_dir`.
const FILE: &str = "secrets.toml";

/// How many random bytes a secret is made of.
const RANDOM_BYTES: usize = 32;

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Shows it. For keys and comparisons, never for a log or an answer.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether it is shorter than a secret ought to be: 32 characters.
    pub fn is_short(&self) -> bool {
        self.0.chars().count() < RANDOM_BYTES
    }

    fn random() -> Result<Self, io::Error> {
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

/// The secrets in force: the configured ones, and for those that are not, the ones made at the first start.
#[derive(Clone, Debug)]
pub struct Secrets {
    /// What HS256 tokens are signed with. `None`: there are none, only public keys.
    pub hmac_secret: Option<Secret>,
    /// What Feedline signs its own sessions with. `None`: there are none, accounts are off.
    pub session_key: Option<Secret>,
    /// What backends may present; at least one.
    pub api_keys: Vec<Secret>,
    /// The file that something of this came from, if anything did.
    pub file: Option<PathBuf>,
    /// Whether the file was made just now.
    pub created: bool,
}

/// Why the secrets are not to be had.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// A file or directory could not be read or made.
    #[error("{}: cannot be {what}: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// `read` or `created`.
        what: &'static str,
        /// Why.
        error: io::Error,
    },
    /// Others than the owner may read or write the file.
    #[error("{}: others may read or write it (mode {mode:04o}): run `chmod 600`, or delete it to have new ones", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is not what Feedline wrote.
    #[error("{}: is not a file of secrets: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, without any of what is in it.
        reason: &'static str,
    },
}

/// What the file holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    hmac_secret: Secret,
    api_key: Secret,
    /// Missing in files that versions without it made.
    session_key: Option<Secret>,
}

impl Secrets {
    /// Takes what is configured. For what is missing, reads `<data_dir>/secrets.toml`, and makes it if there is none.
    /// Processes that start at the same moment agree on one.
    ///
    /// A secret for tokens is needed unless a public key is configured, a key for sessions where accounts are on. A key for
    /// backends is always needed.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or made, is open to others, or is something else.
    pub fn load(config: &Config) -> Result<Self, SecretsError> {
        let auth = &config.auth;
        let public_key = auth.rsa_public_key.is_some() || auth.ecdsa_public_key.is_some();
        let wants_secret = auth.hmac_secret.is_none() && !public_key;
        let session_key = auth.session_key.clone().filter(|_| config.accounts_enabled());
        let wants_session_key = config.accounts_enabled() && session_key.is_none();
        let (hmac_secret, api_keys) = (auth.hmac_secret.clone(), auth.api_keys.clone());
        let mut secrets = Self { hmac_secret, session_key, api_keys, file: None, created: false };
        if !wants_secret && !wants_session_key && !secrets.api_keys.is_empty() {
            return Ok(secrets);
        }
        let path = config.server.data_dir.join(FILE);
        let stored = match read(&path)? {
            Some(stored) => stored,
            None => {
                secrets.created = create(&config.server.data_dir, &path)?;
                read(&path)?.ok_or_else(|| io_error(&path, "read", io::ErrorKind::NotFound.into()))?
            }
        };
        if wants_session_key {
            secrets.session_key = Some(match stored.session_key {
                Some(key) => key,
                None => add_session_key(&path)?,
            });
        }
        if wants_secret {
            secrets.hmac_secret = Some(stored.hmac_secret);
        }
        if secrets.api_keys.is_empty() {
            secrets.api_keys.push(stored.api_key);
        }
        secrets.file = Some(path);
        Ok(secrets)
    }
}

fn io_error(path: &Path, what: &'static str, error: io::Error) -> SecretsError {
    SecretsError::Io { path: path.to_owned(), what, error }
}

/// What is in the file, if there is one.
fn read(path: &Path) -> Result<Option<Stored>, SecretsError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(path, "read", error)),
    };
    let mode = file.metadata().map_err(|error| io_error(path, "read", error))?.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(SecretsError::Open { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| io_error(path, "read", error))?;
    let malformed = |reason| SecretsError::Malformed { path: path.to_owned(), reason };
    // The parser's own words would quote the line, and with it the secret.
    let stored: Stored =
        toml::from_str(&text).map_err(|_| malformed("expected hmac_secret and api_key, each a text"))?;
    let secrets = [Some(&stored.hmac_secret), Some(&stored.api_key), stored.session_key.as_ref()];
    if secrets.into_iter().flatten().any(Secret::is_short) {
        return Err(malformed("a secret in it is too short"));
    }
    Ok(Some(stored))
}

/// Makes the file, unless another process was faster. Whether it was us.
fn create(dir: &Path, path: &Path) -> Result<bool, SecretsError> {
    let failed = |error| io_error(path, "created", error);
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| io_error(dir, "created", error))?;
    let text = format!(
        "# Made by Feedline at its first start. Whoever has these can be any user: keep them to yourself.\n\
         # To have new ones, delete this file and start again; all tokens end with it.\n\
         hmac_secret = \"{}\"\n\
         api_key = \"{}\"\n\
         # Feedline signs the sessions of accounts with this one. No application needs it.\n\
         session_key = \"{}\"\n",
        Secret::random().map_err(failed)?.0,
        Secret::random().map_err(failed)?.0,
        Secret::random().map_err(failed)?.0,
    );
    // Complete under a name of its own first: a link appears at once, whole, and only if there is none yet.
    let draft = dir.join(format!("{FILE}.{}", uuid::Uuid::new_v4()));
    let linked = write_draft(&draft, &text).and_then(|()| fs::hard_link(&draft, path));
    let created = match linked {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => {
            // The draft may not even exist; the error that counts is the first.
            let _ = fs::remove_file(&draft);
            return Err(failed(error));
        }
    };
    fs::remove_file(&draft).map_err(failed)?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
    Ok(created)
}

/// Adds a key for sessions to a file without one. Of processes that start at once one does it, holding the lock of the file
/// that it replaces; the others find it done.
fn add_session_key(path: &Path) -> Result<Secret, SecretsError> {
    let failed = |error| io_error(path, "given a session_key", error);
    let old = File::open(path).map_err(|error| io_error(path, "read", error))?;
    old.lock().map_err(failed)?;
    let stored = read(path)?.ok_or_else(|| io_error(path, "read", io::ErrorKind::NotFound.into()))?;
    if let Some(key) = stored.session_key {
        return Ok(key);
    }
    let key = Secret::random().map_err(failed)?;
    let text = fs::read_to_string(path).map_err(failed)?;
    let text = format!(
        "{}\n# Feedline signs the sessions of accounts with this one. No application needs it.\nsession_key = \"{}\"\n",
        text.trim_end(),
        key.0
    );
    let draft = path.with_file_name(format!("{FILE}.{}", uuid::Uuid::new_v4()));
    if let Err(error) = write_draft(&draft, &text).and_then(|()| fs::rename(&draft, path)) {
        // The draft may not even exist; the error that counts is the first.
        let _ = fs::remove_file(&draft);
        return Err(failed(error));
    }
    if let Some(dir) = path.parent() {
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
    }
    Ok(key)
}

fn write_draft(draft: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

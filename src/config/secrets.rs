//! The secrets in use: configured ones, and those that the first start generates.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::Config;
use crate::auth::Secrets;
use crate::settings::Secret;
use crate::settings::parse;

/// The name of the file in `server.data_dir`.
const FILE: &str = "secrets.toml";

/// How long an empty file may be one that another process is writing. It can be seen only where the file system has no
/// links.
const MAX_WRITE: Duration = Duration::from_secs(1);

/// The reason why the secrets cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// A file or folder could not be read or created.
    #[error("{}: cannot be {what}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operation: `read` or `created`.
        what: &'static str,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The permissions of the file allow access to every user of the machine.
    #[error("{}: others may read or write it (mode {mode:04o}): run `chmod o-rwx`", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is not a file of secrets.
    #[error("{}: is not a file of secrets: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The reason, without any content of the file.
        reason: &'static str,
    },
}

/// The content of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretsFile {
    hmac_secret: Secret,
    api_key: Secret,
    session_key: Secret,
}

impl Secrets {
    /// Loads the secrets. Those that are not configured are read from `<data_dir>/secrets.toml`, which is created if it
    /// does not exist. Processes that start at the same time use the same file.
    ///
    /// A token secret is required unless a public key is configured. A session key is required if built-in accounts are
    /// enabled. An API key is always required.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or created, is accessible to every user, or is malformed.
    pub fn load(config: &Config) -> Result<Self, SecretsError> {
        let auth = &config.auth;
        let wants_secret = auth.hmac_secret.is_none() && !auth.has_public_key();
        let session_key = auth.session_key.clone().filter(|_| config.accounts_enabled());
        let wants_session_key = config.accounts_enabled() && session_key.is_none();
        let hmac_secret = auth.hmac_secret.clone();
        let api_keys = auth.api_keys.clone();
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
            secrets.session_key = Some(stored.session_key);
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

/// Reads the file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<SecretsFile>, SecretsError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(path, "read", error)),
    };
    let mode = file.metadata().map_err(|error| io_error(path, "read", error))?.permissions().mode() & 0o7777;
    // Rights of the group may be intended: Kubernetes gives files of volumes to `fsGroup`.
    if mode & 0o007 != 0 && keeps_rights(path) {
        return Err(SecretsError::Open { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    let until = Instant::now() + MAX_WRITE;
    loop {
        file.read_to_string(&mut text).map_err(|error| io_error(path, "read", error))?;
        if !text.is_empty() || Instant::now() >= until {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let malformed = |reason| SecretsError::Malformed { path: path.to_owned(), reason };
    // The error of the parser would quote the line, including the secret.
    let mut stored: SecretsFile =
        toml::from_str(&text).map_err(|_| malformed("expected hmac_secret, api_key and session_key, each a text"))?;
    for secret in [&mut stored.hmac_secret, &mut stored.api_key, &mut stored.session_key] {
        let written = parse::secret(secret.reveal());
        *secret = written.map_err(|_| malformed("a secret in it begins or ends with a quotation mark"))?;
        if secret.is_short() {
            return Err(malformed("a secret in it is too short"));
        }
    }
    Ok(Some(stored))
}

/// Whether the file system of a file keeps rights: FAT and some network file systems show the same for every file, and
/// no `chmod` changes them.
fn keeps_rights(path: &Path) -> bool {
    let probe = path.with_file_name(format!("{FILE}.{}", uuid::Uuid::new_v4()));
    let Ok(file) = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&probe) else { return true };
    let mode = file.metadata().map(|metadata| metadata.permissions().mode());
    // Nothing is in it.
    let _ = fs::remove_file(&probe);
    mode.is_ok_and(|mode| mode & 0o077 == 0)
}

/// Creates the file; `false` if another process created it first.
fn create(dir: &Path, path: &Path) -> Result<bool, SecretsError> {
    let failed = |error| io_error(path, "created", error);
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| io_error(dir, "created", error))?;
    let text = format!(
        "# Created by Feedline at its first start. Anyone with these keys can act as any user: keep them secret.\n\
         # Every node and every restart needs them: back them up. To replace one, configure auth.hmac_secret,\n\
         # auth.api_keys or auth.session_key.\n\
         hmac_secret = \"{}\"\n\
         api_key = \"{}\"\n\
         # Feedline signs the sessions of accounts with this one. No application needs it.\n\
         session_key = \"{}\"\n",
        Secret::random().map_err(failed)?.reveal(),
        Secret::random().map_err(failed)?.reveal(),
        Secret::random().map_err(failed)?.reveal(),
    );
    let created = publish(path, &text, |draft, path| fs::hard_link(draft, path)).map_err(failed)?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
    Ok(created)
}

/// Writes the file, unless it exists. The text is written to a draft first; the link then appears with its full
/// content. On a file system without links, the file itself is written.
fn publish(path: &Path, text: &str, link: impl Fn(&Path, &Path) -> io::Result<()>) -> io::Result<bool> {
    let draft = path.with_file_name(format!("{FILE}.{}", uuid::Uuid::new_v4()));
    let linked = write_new(&draft, text).and_then(|()| match link(&draft, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => write_new(path, text),
        linked => linked,
    });
    // The draft may not exist. The first error is reported.
    let removed = fs::remove_file(&draft);
    match linked {
        Ok(()) => removed.map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => removed.map(|()| false),
        Err(error) => Err(error),
    }
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_links_holds_the_same_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let no_links = |_: &Path, _: &Path| Err(io::ErrorKind::Unsupported.into());
        assert!(publish(&path, "first", no_links).unwrap());
        assert!(!publish(&path, "second", no_links).unwrap(), "another process was first");
        assert!(!publish(&path, "third", |draft, path| fs::hard_link(draft, path)).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no draft is left");
        assert!(keeps_rights(&path));
    }
}

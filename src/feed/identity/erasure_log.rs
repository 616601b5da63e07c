//! The erasure log: a file beside the backups that lists all erased users, one line of JSON each.
//!
//! A ledger restored from an older backup again contains users that were erased since. Each node appends erasures to
//! its own file before they are answered, or within a second. At startup, and whenever the ledger proves to be an older
//! state of itself or a different ledger, users that are in the file but not in the ledger's log are erased again. The
//! file only grows; unreadable lines are skipped and counted.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::model::{Millis, UserId};

/// One erasure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureLogEntry {
    /// The erased user.
    pub user: UserId,
    /// The time of the erasure, in Unix milliseconds.
    pub at: Millis,
}

/// The file of this node.
pub(crate) struct ErasureLog {
    /// `None`: no log is written.
    path: Option<PathBuf>,
    /// Opened at the first write.
    file: Arc<Mutex<Option<File>>>,
}

impl ErasureLog {
    /// The log in this file, which may not exist yet.
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self { path, file: Arc::default() }
    }

    /// All entries of the file.
    pub(super) async fn read(&self) -> io::Result<Vec<ErasureLogEntry>> {
        let Some(path) = self.path.clone() else { return Ok(Vec::new()) };
        let read = move || read_erasure_log(&path).map(|log| log.entries).map_err(|error| naming(&path, &error));
        let read = tokio::task::spawn_blocking(read);
        read.await.map_err(io::Error::other)?
    }

    /// Appends entries; they are on disk when this returns.
    pub(super) async fn append(&self, entries: &[(UserId, Millis)]) -> io::Result<()> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        let mut lines = Vec::new();
        for (user, at) in entries {
            serde_json::to_writer(&mut lines, &ErasureLogEntry { user: user.clone(), at: *at })?;
            lines.push(b'\n');
        }
        let file = Arc::clone(&self.file);
        let write = move |path: &Path| {
            let mut file = file.lock();
            let file = match &mut *file {
                Some(file) => file,
                empty => empty.insert(open(path)?),
            };
            file.write_all(&lines)?;
            file.sync_data()
        };
        let write = move || write(&path).map_err(|error| naming(&path, &error));
        let written = tokio::task::spawn_blocking(write);
        written.await.map_err(io::Error::other)?
    }
}

/// The error with the path of its file.
fn naming(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Opens the file for appending. Ends a line that a crash cut off, so that the next line is intact.
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let is_new = !path.exists();
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    if is_new && let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    if std::fs::read(path)?.last().is_some_and(|last| *last != b'\n') {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

/// The contents of an erasure log.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ErasureLogContents {
    /// Its entries, in the order of the erasures.
    pub entries: Vec<ErasureLogEntry>,
    /// The line numbers, from 1, of lines that cannot be read because a crash cut them off or they were damaged.
    pub unreadable: Vec<usize>,
}

/// Reads an erasure log; a missing file counts as empty.
///
/// # Errors
/// If the file exists and cannot be read.
pub fn read_erasure_log(path: &Path) -> io::Result<ErasureLogContents> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ErasureLogContents::default()),
        Err(error) => return Err(error),
    };
    let mut contents = ErasureLogContents::default();
    for (line, number) in BufReader::new(file).split(b'\n').zip(1..) {
        let line = line?;
        match serde_json::from_slice(&line) {
            Ok(entry) => contents.entries.push(entry),
            Err(_) if line.is_empty() => {}
            Err(_) => contents.unreadable.push(number),
        }
    }
    if !contents.unreadable.is_empty() {
        let lines = contents.unreadable.len();
        tracing::warn!(path = %path.display(), lines, "lines of the erasure log cannot be read");
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(user: &str, at: Millis) -> (UserId, Millis) {
        (UserId::parse(user).expect("a user id"), at)
    }

    #[tokio::test]
    async fn appended_entries_are_read_and_a_torn_line_is_skipped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data").join("erasures.log");
        assert_eq!(read_erasure_log(&path).expect("no file"), ErasureLogContents::default());
        ErasureLog::new(Some(path.clone())).append(&[entry("ann", 1), entry("b.o", 2)]).await.expect("written");
        // A crash cut a line off.
        OpenOptions::new().append(true).open(&path).and_then(|mut it| it.write_all(b"{\"user\":\"c")).expect("written");
        let log = ErasureLog::new(Some(path.clone()));
        log.append(&[entry("dee", 3)]).await.expect("written");
        log.append(&[entry("eve", 4)]).await.expect("written");
        assert_eq!(read_erasure_log(&path).expect("read").unreadable, [3]);
        let read = log.read().await.expect("read");
        let read: Vec<_> = read.iter().map(|it| (it.user.as_str(), it.at)).collect();
        assert_eq!(read, [("ann", 1), ("b.o", 2), ("dee", 3), ("eve", 4)]);
    }
}

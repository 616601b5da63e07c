//! The erasure log: a file beside the backups with everyone who was erased, a line of JSON each.
//!
//! A ledger that is restored from a backup has users again that were erased since. Each node appends what it learns to its
//! own file before an erasure is answered, or within a second. At the start, and whenever the ledger turns out to be an
//! older state of itself or another one, it erases again whom the file has and the ledger has not. The file only grows;
//! lines that cannot be read are skipped and counted.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::feed::{Feed, FeedError, Result};
use crate::model::{Millis, UserId};

/// One erasure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureLogEntry {
    /// Who was erased.
    pub user: UserId,
    /// When, in Unix milliseconds.
    pub at: Millis,
}

/// The file of this node.
pub(in crate::feed) struct ErasureLog {
    /// `None`: none is kept.
    path: Option<PathBuf>,
    /// Held while it is looked at who is missing, and they are appended.
    turn: tokio::sync::Mutex<()>,
    /// Open once something was written.
    file: Arc<Mutex<Option<File>>>,
}

impl ErasureLog {
    /// The log in this file, which need not exist.
    pub(in crate::feed) fn new(path: Option<PathBuf>) -> Self {
        Self { path, turn: tokio::sync::Mutex::default(), file: Arc::default() }
    }

    /// Everyone in the file.
    async fn read(&self) -> io::Result<Vec<ErasureLogEntry>> {
        let Some(path) = self.path.clone() else { return Ok(Vec::new()) };
        let read = tokio::task::spawn_blocking(move || Ok(read_erasure_log(&path)?.entries));
        read.await.map_err(io::Error::other)?
    }

    /// Appends entries; they are on the disk when it returns.
    async fn append(&self, entries: &[(UserId, Millis)]) -> io::Result<()> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        let mut lines = Vec::new();
        for (user, at) in entries {
            serde_json::to_writer(&mut lines, &ErasureLogEntry { user: user.clone(), at: *at })?;
            lines.push(b'\n');
        }
        let file = Arc::clone(&self.file);
        let written = tokio::task::spawn_blocking(move || {
            let mut file = file.lock();
            let file = match &mut *file {
                Some(file) => file,
                empty => empty.insert(open(&path)?),
            };
            file.write_all(&lines)?;
            file.sync_data()
        });
        written.await.map_err(io::Error::other)?
    }
}

/// Opens the file for appending. A line that a crash cut off is ended, so that the next one is whole.
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

/// What an erasure log holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ErasureLogContents {
    /// Everyone in it, in the order in which they were erased.
    pub entries: Vec<ErasureLogEntry>,
    /// The numbers, from 1 on, of lines that cannot be read: a crash cut them off, or they were damaged.
    pub unreadable: Vec<usize>,
}

/// Reads an erasure log; a file that is not there is an empty one.
///
/// # Errors
/// If the file is there and cannot be read.
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

impl Feed {
    /// Appends an erasure to this node's log, unless it is there.
    pub(super) async fn log_erasure(&self, user: &UserId, at: Millis) -> Result<()> {
        let mut entry = vec![(user.clone(), at)];
        self.log_erasures(&mut entry).await;
        if entry.is_empty() { Ok(()) } else { Err(FeedError::Unavailable) }
    }

    /// Appends to this node's log what the ledger's log was found to have.
    pub(in crate::feed) async fn log_found_erasures(&self) {
        let mut found = std::mem::take(&mut *self.erasures.unlogged.lock());
        self.log_erasures(&mut found).await;
        self.erasures.unlogged.lock().append(&mut found);
    }

    /// Appends erasures to this node's log, but for those that are there. What could not be written stays in the list.
    pub(super) async fn log_erasures(&self, entries: &mut Vec<(UserId, Millis)>) {
        let erasures = &self.erasures;
        let _turn = erasures.log.turn.lock().await;
        entries.retain(|(user, _)| !erasures.users.is_logged(user));
        if entries.is_empty() {
            return;
        }
        match erasures.log.append(entries).await {
            Ok(()) => entries.drain(..).for_each(|(user, _)| erasures.users.set_logged(&user)),
            Err(error) => tracing::error!(%error, "the erasure log cannot be written: a restored backup would lack it"),
        }
    }

    /// Erases again whom this node's log has and the ledger has not, and logs whom the ledger has and the log has not.
    /// `known` are all whom the ledger has.
    ///
    /// # Errors
    /// If the log cannot be read, or the ledger cannot be reached.
    pub(in crate::feed) async fn reapply_erasures(&self, known: Vec<(UserId, Millis)>) -> Result<()> {
        let logged = self.erasures.log.read().await.map_err(|error| {
            tracing::error!(%error, "the erasure log cannot be read");
            FeedError::Unavailable
        })?;
        let in_ledger: HashSet<&UserId> = known.iter().map(|(user, _)| user).collect();
        let mut again = 0_usize;
        for ErasureLogEntry { user, at } in logged {
            // This node may know of an erasure that the ledger has lost.
            if !in_ledger.contains(&user) && self.ledger.begin_erasure(&user, at).await? {
                again += 1;
            }
            self.erasures.hide(&user);
            self.erasures.users.set_logged(&user);
        }
        if again > 0 {
            tracing::warn!(users = again, "the ledger is older than the erasure log: these users are erased again");
            self.erasures.wake.notify_one();
        }
        let mut known = known;
        self.log_erasures(&mut known).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(user: &str, at: Millis) -> (UserId, Millis) {
        (UserId::parse(user).expect("a user id"), at)
    }

    #[tokio::test]
    async fn what_was_appended_is_read_and_a_torn_line_is_skipped() {
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

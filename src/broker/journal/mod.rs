//! The durable queue of a single process, in files that survive a crash.
//!
//! Waiting entries are kept in memory; the files are read only at the start. A batch of entries is appended with one
//! write and, if it must survive a power failure, one flush. The queue has its own folder, so that likes can be
//! acknowledged while the ledger cannot be written.
//!
//! A file (`segment`) is named by the number of its first entry. A new file is created at each start and whenever the
//! current one has become large. Files without waiting entries are removed.
//!
//! Entry numbers are never reused, even if copies of these files and of the ledger from different times are combined:
//! each start continues at the clock (in microseconds), or after the last entry in the files, and skips numbers that
//! the ledger has recorded.

mod segment;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

pub use self::segment::Flush;
use self::segment::{Segment, SegmentContent, SegmentRecord};
use super::{BrokerError, DurableQueue, QueueItem, QueueOffset, QueuePage, QueuedEntry, Result};
use crate::broker::epoch::new_epoch;
use crate::model::Epoch;

/// A new file is created once the current one exceeds this many bytes.
const SEGMENT_BYTES: u64 = 4 << 20;

/// The time for which the start waits for another process to release the folder.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// A durable queue of one partition, for a single process.
pub struct Journal {
    shared: Arc<JournalState>,
    life: Epoch,
    /// Held for the lifetime of the queue: a second process must not write to the folder.
    _lock: File,
}

struct JournalState {
    folder: PathBuf,
    flush: Flush,
    /// Waiting entries, and the number of the next one. Locked briefly.
    waiting: Mutex<PendingEntries>,
    /// Locked during writes to the disk, on a thread that may block.
    files: Mutex<SegmentFiles>,
}

struct PendingEntries {
    entries: VecDeque<(u64, Bytes)>,
    next: u64,
}

struct SegmentFiles {
    /// The file that entries are appended to.
    current: Segment,
    /// The first entries of all files, `current` last.
    firsts: VecDeque<u64>,
    /// The number after the last entry that was written.
    next: u64,
}

impl Journal {
    /// Opens the folder, creates it if missing, and reads the waiting entries.
    ///
    /// # Errors
    /// The error names the folder and the reason: it cannot be read or written, or another process uses it. Damaged
    /// entries are skipped and logged.
    pub async fn open(folder: impl Into<PathBuf>, flush: Flush) -> Result<Self> {
        let folder = folder.into();
        blocking(move || {
            let name = folder.display().to_string();
            Self::open_folder(folder, flush).map_err(|error| BrokerError::Failed(format!("{name}: {error}")))
        })
        .await
    }

    /// The epoch of the queue, which the folder keeps.
    pub fn life(&self) -> &Epoch {
        &self.life
    }

    fn open_folder(folder: PathBuf, flush: Flush) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&folder)?;
        let lock = segment::open_own(&folder.join("lock"))?;
        take(&lock)?;
        let life = life(&folder)?;
        let mut firsts = segment::list(&folder)?;
        let (entries, read) = read_all(&folder, &firsts)?;
        let next = read.max(clock());
        // The last file may end in a partial entry: a new file is created. If the last file has no entries, the new
        // file has the same name.
        firsts.retain(|first| *first != next);
        let mut current = Segment::create(&folder, next)?;
        current.note_skipped(read)?;
        firsts.push_back(next);
        let mut files = SegmentFiles { current, firsts, next };
        files.trim(&folder, entries.front().map_or(next, |(number, _)| *number))?;
        let shared = Arc::new(JournalState {
            folder,
            flush,
            waiting: Mutex::new(PendingEntries { entries, next }),
            files: Mutex::new(files),
        });
        Ok(Self { shared, life, _lock: lock })
    }
}

/// Takes the lock. A process that is about to end may hold it for a moment.
fn take(lock: &File) -> io::Result<()> {
    let until = Instant::now() + LOCK_WAIT;
    while lock.try_lock().is_err() {
        if Instant::now() > until {
            return Err(io::Error::other("another process uses it"));
        }
        std::thread::sleep(LOCK_WAIT / 50);
    }
    Ok(())
}

/// The epoch of the queue; created if there is none. A damaged one is replaced: waiting entries are then settled under
/// the new epoch. Some of them may be settled twice, which has no effect.
fn life(folder: &Path) -> io::Result<Epoch> {
    let path = folder.join("life");
    match fs::read(&path).map(String::from_utf8) {
        Ok(Ok(life)) if is_life(&life) => return Ok(life.into()),
        Ok(Ok(life)) if life.is_empty() => {}
        Ok(_) => {
            tracing::error!(path = %path.display(), "the name of the queue of likes is damaged: it gets a new one");
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    let life = new_epoch();
    let new = folder.join("life.new");
    let mut file = segment::open_own(&new)?;
    file.set_len(0)?;
    file.write_all(life.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)?;
    segment::sync_folder(folder)?;
    Ok(life)
}

/// Whether a text is a valid epoch of the queue.
fn is_life(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Now, in microseconds.
fn clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or_default()
}

/// The waiting entries in the files, and the number of the next entry. Damaged entries are skipped and logged.
fn read_all(folder: &Path, firsts: &VecDeque<u64>) -> io::Result<(VecDeque<(u64, Bytes)>, u64)> {
    let mut entries = VecDeque::new();
    let mut next = firsts.front().copied().unwrap_or(1);
    for (at, first) in firsts.iter().enumerate() {
        let content = read_file(folder, *first)?;
        let mut missing = content.records.first() != Some(&SegmentRecord::Skipped(next));
        // Entries from the next file's first entry on were never acknowledged.
        let end = firsts.get(at + 1).copied().unwrap_or(u64::MAX);
        for record in content.records {
            match record {
                SegmentRecord::Entry(number, body) if number >= next && number < end => {
                    if missing && number > next {
                        tracing::error!(
                            from = next,
                            to = number - 1,
                            "likes are missing in the queue: files are damaged"
                        );
                    }
                    missing = true;
                    entries.push_back((number, body));
                    next = number + 1;
                }
                SegmentRecord::Entry(..) => break,
                SegmentRecord::Trimmed(before) => drop_below(&mut entries, before),
                SegmentRecord::Skipped(_) => {}
            }
        }
        next = next.max(*first);
    }
    Ok((entries, next))
}

/// Reads a file as far as it can be read.
fn read_file(folder: &Path, first: u64) -> io::Result<SegmentContent> {
    let content = match segment::read(folder, first) {
        // The operator can fix permissions.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
        Err(error) => {
            tracing::error!(%error, first, "a file of the queue of likes cannot be read, it is left out");
            return Ok(SegmentContent::default());
        }
        Ok(content) => content,
    };
    if content.torn > 0 {
        let bytes = content.torn;
        tracing::warn!(bytes, first, "the end of a queue file is no whole entry, and was never acknowledged");
    }
    if content.damaged > 0 {
        let kept = segment::keep_damaged(folder, first).map(|path| path.display().to_string());
        let kept = kept.unwrap_or_else(|error| format!("not kept: {error}"));
        let bytes = content.damaged;
        tracing::error!(bytes, first, kept, "a file of the queue of likes is damaged: what can be read of it is used");
    }
    Ok(content)
}

fn drop_below(entries: &mut VecDeque<(u64, Bytes)>, before: u64) {
    let many = entries.partition_point(|(number, _)| *number < before);
    entries.drain(..many);
}

impl JournalState {
    /// Writes entries and makes them readable. Blocks.
    fn append(&self, bodies: &[Bytes], most: u64) -> io::Result<Vec<Option<u64>>> {
        let mut files = self.files.lock();
        // Only the holder of `files` adds entries, so these values do not change.
        let (first, room) = {
            let waiting = self.waiting.lock();
            (waiting.next, most.saturating_sub(waiting.entries.len() as u64))
        };
        let fitting = usize::try_from(room).unwrap_or(usize::MAX).min(bodies.len());
        let mut places: Vec<Option<u64>> = (first..).take(fitting).map(Some).collect();
        if fitting > 0 {
            let records = (first..).zip(&bodies[..fitting]);
            files.write(&self.folder, records, self.flush)?;
            let mut waiting = self.waiting.lock();
            waiting.entries.extend((first..).zip(bodies[..fitting].iter().cloned()));
            waiting.next = first + fitting as u64;
        }
        places.resize(bodies.len(), None);
        Ok(places)
    }

    /// Removes the entries below a number. Blocks.
    fn trim(&self, before: u64) -> io::Result<()> {
        let mut files = self.files.lock();
        let before = {
            let mut waiting = self.waiting.lock();
            let before = before.min(waiting.next);
            drop_below(&mut waiting.entries, before);
            before
        };
        files.trim(&self.folder, before)
    }
}

impl SegmentFiles {
    fn write<'a>(
        &mut self,
        folder: &Path,
        records: impl Iterator<Item = (u64, &'a Bytes)> + Clone,
        flush: Flush,
    ) -> io::Result<()> {
        let first = records.clone().next().map_or(0, |(number, _)| number);
        let skipped = first != self.next;
        if self.current.broken() || self.current.bytes() > SEGMENT_BYTES || skipped {
            self.current = Segment::create(folder, first)?;
            if skipped {
                self.current.note_skipped(self.next)?;
            }
            self.firsts.retain(|other| *other != first);
            self.firsts.push_back(first);
        }
        let many = records.clone().count() as u64;
        self.current.append(records, flush)?;
        self.next = first + many;
        Ok(())
    }

    /// Records that entries below this number are no longer waiting, and removes files without waiting entries.
    fn trim(&mut self, folder: &Path, before: u64) -> io::Result<()> {
        self.current.note_trimmed(before)?;
        while self.firsts.get(1).is_some_and(|second| *second <= before) {
            if let Some(first) = self.firsts.pop_front() {
                segment::remove(folder, first)?;
            }
        }
        Ok(())
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(BrokerError::Failed(format!("the queue's files: {error}"))))
}

/// The disk is full or failing: a retry may succeed.
fn failed(error: &io::Error) -> BrokerError {
    BrokerError::Unreachable(format!("the queue's files: {error}"))
}

fn place(number: u64) -> QueueOffset {
    QueueOffset { major: number, minor: 0 }
}

#[async_trait]
impl DurableQueue for Journal {
    fn partitions(&self) -> u16 {
        1
    }

    async fn enqueue(&self, items: &[QueueItem], most: u64) -> Result<Vec<Option<QueueOffset>>> {
        let (shared, bodies) =
            (Arc::clone(&self.shared), items.iter().map(|item| item.body.clone()).collect::<Vec<_>>());
        let written = blocking(move || shared.append(&bodies, most).map_err(|error| failed(&error))).await?;
        Ok(written.into_iter().map(|number| number.map(place)).collect())
    }

    async fn read(&self, _: u16, after: QueueOffset, limit: usize) -> Result<QueuePage> {
        let mut waiting = self.shared.waiting.lock();
        // Files that were restored or truncated must not assign numbers again that the ledger has recorded as settled.
        waiting.next = waiting.next.max(after.major.saturating_add(1));
        let from = waiting.entries.partition_point(|(number, _)| place(*number) <= after);
        let entries = waiting.entries.range(from..).take(limit);
        let items = entries.map(|(number, body)| QueuedEntry { place: place(*number), body: body.clone() }).collect();
        Ok(QueuePage { life: Arc::clone(&self.life), items })
    }

    /// Only the process that locks the folder can trim, so generations do not matter.
    async fn trim(&self, _: u16, _: u64, life: &Epoch, before: QueueOffset) -> Result<bool> {
        if *life != self.life {
            return Ok(false);
        }
        let shared = Arc::clone(&self.shared);
        // The number of the first entry to keep.
        let first = before.major + u64::from(before.minor > 0);
        blocking(move || shared.trim(first).map_err(|error| failed(&error))).await.map(|()| true)
    }

    async fn length(&self) -> Result<u64> {
        Ok(self.shared.waiting.lock().entries.len() as u64)
    }
}

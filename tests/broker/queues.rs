//! Queues of either kind that are lost and recovered, and tests specific to one kind.

use std::fs;
use std::sync::Arc;

use bytes::Bytes;
use feedline::broker::{BrokerError, DurableQueue, Flush, Journal, LedgerRecord, QueueItem, QueueOffset, RedisBroker};
use tempfile::TempDir;

use crate::engine::redis_options;
use crate::redis_server::RedisServer;

/// The storage of a queue.
pub(crate) enum Kind {
    Files(TempDir),
    Redis(RedisServer),
}

impl Kind {
    pub(crate) fn files() -> Self {
        Self::Files(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn redis() -> Self {
        Self::Redis(RedisServer::start_appending())
    }

    pub(crate) async fn open(&mut self) -> Arc<dyn DurableQueue> {
        match self {
            Self::Files(folder) => {
                Arc::new(Journal::open(folder.path(), Flush::Always).await.expect("the journal opens"))
            }
            Self::Redis(server) => Arc::new(RedisBroker::connect(redis_options(server)).await.expect("to connect")),
        }
    }

    /// Restarts the storage and keeps its data.
    pub(crate) fn restart(&mut self) {
        if let Self::Redis(server) = self {
            server.kill();
            server.start_again();
        }
    }

    /// Restarts the storage without its data.
    pub(crate) fn lose(&mut self) {
        match self {
            Self::Files(folder) => *folder = tempfile::tempdir().expect("a folder"),
            Self::Redis(server) => {
                server.kill();
                server.forget();
                server.start_again();
            }
        }
    }
}

fn items(bodies: &[&'static str]) -> Vec<QueueItem> {
    bodies.iter().map(|body| QueueItem { partition: 0, body: Bytes::from_static(body.as_bytes()) }).collect()
}

async fn all(queue: &dyn DurableQueue) -> Vec<Bytes> {
    let page = queue.read(0, QueueOffset::ZERO, 100).await.expect("to read");
    page.items.into_iter().map(|item| item.body).collect()
}

#[tokio::test]
async fn former_owners_trim_nothing() {
    let server = RedisServer::start_appending();
    let broker = RedisBroker::connect(redis_options(&server)).await.expect("to connect");
    broker.use_incarnation("one");
    let mut place = QueueOffset::ZERO;
    for partition in [0, 1] {
        let items = items(&["a", "b"]).into_iter().map(|item| QueueItem { partition, ..item }).collect::<Vec<_>>();
        place = broker.enqueue(&items, 9).await.expect("to enqueue")[0].expect("room");
    }
    let life = broker.read(0, QueueOffset::ZERO, 9).await.expect("to read").life;
    let trim = async |generation| broker.trim(0, generation, &life, place.next()).await.expect("an answer");
    assert!(broker.trim(0, 7, &life, QueueOffset::ZERO).await.expect("an answer"), "another process owns it");
    assert!(!trim(6).await);
    assert_eq!(broker.read(0, QueueOffset::ZERO, 9).await.expect("to read").items.len(), 2);
    let life_1 = broker.read(1, QueueOffset::ZERO, 9).await.expect("to read").life;
    assert!(broker.trim(1, 6, &life_1, QueueOffset::ZERO).await.expect("an answer"), "partitions are independent");
    assert!(trim(7).await && trim(8).await);
    assert!(broker.read(0, QueueOffset::ZERO, 9).await.expect("to read").items.len() < 2);
    assert!(!trim(7).await);
    // A restored ledger counts from a lower generation, and nobody is refused for good.
    broker.use_incarnation("two");
    assert!(trim(3).await && !trim(2).await);
    let kept: i64 = server.ask("PTTL feedline:{likes}:f:0").trim_start_matches(':').parse().expect("a number");
    assert!(kept > 0, "{kept}");
}

#[tokio::test]
async fn truncated_streams_reuse_no_offset() {
    let mut kind = Kind::redis();
    let queue = kind.open().await;
    queue.enqueue(&items(&["a"]), 9).await.expect("to enqueue");
    // The offset read so far is ahead of the Stream, as after a crash with the clock set back.
    let read = QueueOffset { major: u64::from(u32::MAX) * 1_000, minor: 7 };
    assert!(queue.read(0, read, 9).await.expect("to read").items.is_empty());
    let place = queue.enqueue(&items(&["b"]), 9).await.expect("to enqueue")[0];
    assert!(place > Some(read), "{place:?}");
}

/// The files of a journal, oldest first.
fn segments(folder: &TempDir) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(folder.path()).expect("the folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "log")).collect();
    files.sort();
    files
}

#[tokio::test]
async fn truncated_files_are_read_to_the_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = async || Journal::open(folder.path(), Flush::Always).await;
    let queue = open().await.expect("the journal opens");
    queue.enqueue(&items(&["a", "b"]), 9).await.expect("to enqueue");
    drop(queue);
    let file = segments(&folder).pop().expect("a file");
    let mut content = fs::read(&file).expect("the file");
    content.extend_from_slice(&content.clone()[..15]);
    fs::write(&file, content).expect("to write");
    for _ in 0..2 {
        let queue = open().await.expect("the journal opens");
        assert_eq!(all(&queue).await, ["a", "b"]);
    }
    let queue = open().await.expect("the journal opens");
    queue.enqueue(&items(&["c"]), 9).await.expect("to enqueue");
    assert!(matches!(open().await, Err(BrokerError::Failed(why)) if why.contains("another process")));
    drop(queue);
    assert_eq!(all(&open().await.expect("the journal opens")).await, ["a", "b", "c"]);
}

#[tokio::test]
async fn records_around_damage_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = async || Journal::open(folder.path(), Flush::Always).await.expect("the journal opens");
    for bodies in [["aaaaaaaa", "bbbbbbbb", "cccccccc"], ["dddddddd", "eeeeeeee", "ffffffff"], ["x", "y", "z"]] {
        open().await.enqueue(&items(&bodies), 99).await.expect("to enqueue");
    }
    let files = segments(&folder);
    let mut content = fs::read(&files[0]).expect("the file");
    let at = content.windows(8).position(|bytes| bytes == b"bbbbbbbb").expect("it is there");
    content[at..at + 8].fill(0xFF);
    fs::write(&files[0], content).expect("to write");
    let of_dee = files.iter().find(|path| fs::read(path).expect("a file").windows(8).any(|bytes| bytes == b"dddddddd"));
    fs::remove_file(of_dee.expect("a file")).expect("to remove");
    let queue = open().await;
    assert_eq!(all(&queue).await, ["aaaaaaaa", "cccccccc", "x", "y", "z"]);
    let kept = fs::read_dir(folder.path()).expect("the folder").flatten();
    assert_eq!(kept.filter(|entry| entry.path().extension().is_some_and(|end| end == "damaged")).count(), 1);
    // New items continue in order, and the rest is read again unchanged.
    queue.enqueue(&items(&["new"]), 99).await.expect("to enqueue");
    drop(queue);
    assert_eq!(all(&open().await).await, ["aaaaaaaa", "cccccccc", "x", "y", "z", "new"]);
}

#[tokio::test]
async fn damaged_queue_names_are_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = async || Journal::open(folder.path(), Flush::Always).await.expect("the journal opens");
    open().await.enqueue(&items(&["a", "b"]), 9).await.expect("to enqueue");
    for damage in [&b"\xff\xfe"[..], b"", b"\0\0\0\0\0\0\0\0", &[b'x'; 300], b"two words"] {
        fs::write(folder.path().join("life"), damage).expect("to write");
        assert_eq!(all(&open().await).await, ["a", "b"], "{damage:?}");
        let life = fs::read_to_string(folder.path().join("life")).expect("the name");
        assert!(!life.is_empty() && life.len() <= 64 && life.bytes().all(|byte| byte.is_ascii_graphic()), "{life:?}");
    }
}

#[tokio::test]
async fn files_older_than_the_ledger_reuse_no_offset() {
    let (folder, copy) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let copy_to = |from: &TempDir, to: &TempDir| {
        for entry in fs::read_dir(from.path()).expect("the folder").flatten() {
            fs::copy(entry.path(), to.path().join(entry.file_name())).expect("to copy");
        }
    };
    let open = async |folder: &TempDir| Journal::open(folder.path(), Flush::Always).await.expect("the journal opens");
    open(&folder).await.enqueue(&items(&["a"]), 9).await.expect("to enqueue");
    copy_to(&folder, &copy);
    let settled = open(&folder).await.enqueue(&items(&["b"]), 9).await.expect("to enqueue")[0].expect("room");
    // A restart does not reuse offsets of the lost tail.
    let queue = open(&copy).await;
    let place = queue.enqueue(&items(&["c"]), 9).await.expect("to enqueue")[0].expect("room");
    assert!(place > settled, "{place} after {settled}");
    // Offsets also stay unique if the clock is set back, once the ledger's offset is known.
    let ahead = QueueOffset { major: place.major + 1_000_000_000, minor: 0 };
    assert!(queue.read(0, ahead, 9).await.expect("to read").items.is_empty());
    let place = queue.enqueue(&items(&["d"]), 9).await.expect("to enqueue")[0].expect("room");
    assert!(place > ahead, "{place} after {ahead}");
    drop(queue);
    assert_eq!(all(&open(&copy).await).await, ["a", "c", "d"]);
}

#[tokio::test]
async fn settled_files_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let queue = Journal::open(folder.path(), Flush::Never).await.expect("the journal opens");
    let files = || fs::read_dir(folder.path()).expect("the folder").count();
    let large = vec![QueueItem { partition: 0, body: Bytes::from(vec![b'x'; 1 << 20]) }; 6];
    let few = files();
    let mut last = QueueOffset::ZERO;
    for _ in 0..4 {
        last = queue.enqueue(&large, 100).await.expect("to enqueue").pop().flatten().expect("room");
    }
    assert!(files() > few + 2, "{}", files());
    let life = queue.read(0, QueueOffset::ZERO, 1).await.expect("to read").life;
    assert!(queue.trim(0, 1, &life, last.next()).await.expect("to trim"));
    assert_eq!(files(), few);
}

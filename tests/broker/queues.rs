//! Queues of either kind that are lost and recovered, and tests specific to one kind.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use feedline::broker::{BrokerError, DurableQueue, Flush, Journal, QueueItem, QueueOffset, RedisBroker};
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
    let claim = queue.claim(0, "me", QueueOffset::ZERO, 100).await.expect("to claim").expect("the partition is free");
    claim.items.into_iter().map(|item| item.body).collect()
}

#[tokio::test]
async fn redis_partitions_have_one_reader_until_release() {
    let mut kind = Kind::redis();
    let queue = kind.open().await;
    for _ in 0..2 {
        assert!(queue.claim(0, "one", QueueOffset::ZERO, 1).await.expect("to claim").is_some());
        assert!(queue.claim(0, "other", QueueOffset::ZERO, 1).await.expect("to claim").is_none());
    }
    assert!(queue.claim(1, "other", QueueOffset::ZERO, 1).await.expect("to claim").is_some());
    queue.release(0, "other").await.expect("release succeeds");
    assert!(queue.claim(0, "other", QueueOffset::ZERO, 1).await.expect("to claim").is_none());
    queue.release(0, "one").await.expect("release succeeds");
    assert!(queue.claim(0, "other", QueueOffset::ZERO, 1).await.expect("to claim").is_some());
}

#[tokio::test]
async fn readers_without_a_lease_trim_and_release_nothing() {
    let mut kind = Kind::redis();
    let queue = kind.open().await;
    let place = queue.enqueue(&items(&["a", "b"]), 9).await.expect("to enqueue")[1].expect("room");
    let life =
        queue.claim(0, "paused", QueueOffset::ZERO, 9).await.expect("to claim").expect("the partition is free").life;
    // The process pauses for longer than its lease, which expires by Redis's clock.
    let Kind::Redis(server) = &kind else { panic!("Redis") };
    assert_eq!(server.ask("PEXPIRE feedline:{likes}:h:0 1"), ":1");
    tokio::time::sleep(Duration::from_millis(20)).await;
    let claimed = queue.claim(0, "next", QueueOffset::ZERO, 9).await.expect("to claim").expect("the lease has expired");
    assert_eq!((claimed.items.len(), &claimed.life), (2, &life));
    queue.trim(0, "paused", &life, place.next()).await.expect("an answer");
    queue.release(0, "paused").await.expect("an answer");
    assert_eq!(queue.length().await.expect("a length"), 2);
    assert!(queue.claim(0, "paused", QueueOffset::ZERO, 9).await.expect("to claim").is_none());
    queue.trim(0, "next", &life, place.next()).await.expect("to trim");
    assert_eq!(queue.length().await.expect("a length"), 0);
}

#[tokio::test]
async fn truncated_streams_reuse_no_offset() {
    let mut kind = Kind::redis();
    let queue = kind.open().await;
    queue.enqueue(&items(&["a"]), 9).await.expect("to enqueue");
    // The offset read so far is ahead of the Stream, as after a crash with the clock set back.
    let read = QueueOffset { major: u64::from(u32::MAX) * 1_000, minor: 7 };
    assert!(queue.claim(0, "me", read, 9).await.expect("to claim").expect("the partition is free").items.is_empty());
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
    assert!(queue.claim(0, "me", ahead, 9).await.expect("to claim").expect("the partition is free").items.is_empty());
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
    let life = queue.claim(0, "me", QueueOffset::ZERO, 1).await.unwrap().unwrap().life;
    queue.trim(0, "me", &life, last.next()).await.expect("to trim");
    assert_eq!(files(), few);
}

//! A queue of either kind that can be lost and come back; and what is the own of each.

use std::fs;
use std::sync::Arc;

use bytes::Bytes;
use feedline::broker::{BrokerError, Flush, Item, Journal, Place, Queue, RedisBroker};
use tempfile::TempDir;

use crate::engine::redis_options;
use crate::redis_server::RedisServer;

/// Where a queue is kept.
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

    pub(crate) async fn open(&mut self) -> Arc<dyn Queue> {
        match self {
            Self::Files(folder) => Arc::new(Journal::open(folder.path(), Flush::Always).await.expect("it opens")),
            Self::Redis(server) => Arc::new(RedisBroker::connect(redis_options(server)).await.expect("to connect")),
        }
    }

    /// Ends what keeps it and starts it again.
    pub(crate) fn restart(&mut self) {
        if let Self::Redis(server) = self {
            server.kill();
            server.start_again();
        }
    }

    /// The same, without what was kept.
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

fn items(bodies: &[&'static str]) -> Vec<Item> {
    bodies.iter().map(|body| Item { partition: 0, body: Bytes::from_static(body.as_bytes()) }).collect()
}

async fn all(queue: &dyn Queue) -> Vec<Bytes> {
    let claim = queue.claim(0, "me", Place::ZERO, 100).await.expect("to claim").expect("it is mine");
    claim.items.into_iter().map(|item| item.body).collect()
}

#[tokio::test]
async fn a_partition_of_redis_has_one_reader_until_it_is_let_go() {
    let mut kind = Kind::redis();
    let queue = kind.open().await;
    for _ in 0..2 {
        assert!(queue.claim(0, "one", Place::ZERO, 1).await.expect("to claim").is_some());
        assert!(queue.claim(0, "other", Place::ZERO, 1).await.expect("to claim").is_none());
    }
    assert!(queue.claim(1, "other", Place::ZERO, 1).await.expect("to claim").is_some());
    queue.release(0, "other").await.expect("to let go");
    assert!(queue.claim(0, "other", Place::ZERO, 1).await.expect("to claim").is_none());
    queue.release(0, "one").await.expect("to let go");
    assert!(queue.claim(0, "other", Place::ZERO, 1).await.expect("to claim").is_some());
}

#[tokio::test]
async fn a_stream_that_lost_its_end_gives_no_place_out_again() {
    let mut kind = Kind::redis();
    let queue = kind.open().await;
    queue.enqueue(&items(&["a"]), 9).await.expect("to enqueue");
    // What was read lies in the future of the Stream: as after a crash, with the clock set back.
    let read = Place { major: u64::from(u32::MAX) * 1_000, minor: 7 };
    assert!(queue.claim(0, "me", read, 9).await.expect("to claim").expect("mine").items.is_empty());
    let place = queue.enqueue(&items(&["b"]), 9).await.expect("to enqueue")[0];
    assert!(place > Some(read), "{place:?}");
}

#[tokio::test]
async fn a_file_that_a_crash_cut_off_is_read_up_to_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = async || Journal::open(folder.path(), Flush::Always).await;
    let queue = open().await.expect("it opens");
    queue.enqueue(&items(&["a", "b"]), 9).await.expect("to enqueue");
    drop(queue);
    let file = folder.path().join(format!("{:020}.log", 1));
    let mut content = fs::read(&file).expect("the file");
    content.extend_from_slice(&content.clone()[..20]);
    fs::write(&file, content).expect("to write");
    for _ in 0..2 {
        let queue = open().await.expect("it opens");
        assert_eq!(all(&queue).await, ["a", "b"]);
    }
    let queue = open().await.expect("it opens");
    queue.enqueue(&items(&["c"]), 9).await.expect("to enqueue");
    assert!(matches!(open().await, Err(BrokerError::Refused(why)) if why.contains("another process")));
    drop(queue);
    assert_eq!(all(&open().await.expect("it opens")).await, ["a", "b", "c"]);
    // A whole file that is missing in between is not passed over.
    fs::remove_file(folder.path().join(format!("{:020}.log", 3))).expect("to remove");
    assert!(matches!(open().await, Err(BrokerError::Refused(why)) if why.contains("entries 3 to 3 are missing")));
}

#[tokio::test]
async fn files_of_which_nothing_waits_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let queue = Journal::open(folder.path(), Flush::Never).await.expect("it opens");
    let files = || fs::read_dir(folder.path()).expect("the folder").count();
    let large = vec![Item { partition: 0, body: Bytes::from(vec![b'x'; 1 << 20]) }; 6];
    let few = files();
    let mut last = Place::ZERO;
    for _ in 0..4 {
        last = queue.enqueue(&large, 100).await.expect("to enqueue").pop().flatten().expect("room");
    }
    assert!(files() > few + 2, "{}", files());
    let life = queue.claim(0, "me", Place::ZERO, 1).await.unwrap().unwrap().life;
    queue.trim(0, &life, last.next()).await.expect("to trim");
    assert_eq!(files(), few);
}

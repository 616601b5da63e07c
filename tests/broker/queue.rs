//! The queue: acknowledged items stay readable, in order, until they are trimmed.

use bytes::Bytes;
use feedline::broker::{DurableQueue, QueueItem, QueueOffset, QueuePage, QueuedEntry};

use crate::queues::Kind;

fn item(partition: u16, body: &str) -> QueueItem {
    QueueItem { partition, body: Bytes::copy_from_slice(body.as_bytes()) }
}

async fn enqueue(queue: &dyn DurableQueue, bodies: &[&str]) -> Vec<Option<QueueOffset>> {
    let items: Vec<QueueItem> = bodies.iter().map(|body| item(0, body)).collect();
    queue.enqueue(&items, 1_000).await.expect("to enqueue")
}

async fn read(queue: &dyn DurableQueue, after: QueueOffset) -> QueuePage {
    queue.read(0, after, 100).await.expect("to read")
}

fn bodies(items: &[QueuedEntry]) -> Vec<&str> {
    items.iter().map(|item| std::str::from_utf8(&item.body).expect("text")).collect()
}

pub(crate) async fn entries_wait_in_order_until_trimmed(mut kind: Kind) {
    let queue = kind.open().await;
    assert_eq!(read(&*queue, QueueOffset::ZERO).await.items, []);
    let places: Vec<QueueOffset> = enqueue(&*queue, &["a", "b", "c"]).await.into_iter().flatten().collect();
    let more: Vec<QueueOffset> = enqueue(&*queue, &["d"]).await.into_iter().flatten().collect();
    assert!(places.is_sorted() && places.len() == 3 && more[0] > places[2]);
    let first = read(&*queue, QueueOffset::ZERO).await;
    assert_eq!(bodies(&first.items), ["a", "b", "c", "d"]);
    assert_eq!(first.items.iter().map(|item| item.place).collect::<Vec<_>>(), [&places[..], &more].concat());
    // Reading removes nothing.
    let rest = read(&*queue, places[1]).await;
    assert_eq!((bodies(&rest.items), &rest.life), (vec!["c", "d"], &first.life));
    assert_eq!(bodies(&queue.read(0, QueueOffset::ZERO, 2).await.expect("to read").items), ["a", "b"]);
    assert!(!queue.trim(0, 1, &"another".into(), more[0].next()).await.expect("to trim"));
    assert!(queue.trim(0, 1, &first.life, places[2]).await.expect("to trim"));
    assert_eq!(bodies(&read(&*queue, QueueOffset::ZERO).await.items), ["c", "d"]);
    assert_eq!(queue.length().await.expect("a length"), 2);
    assert!(queue.trim(0, 1, &first.life, more[0].next()).await.expect("to trim"));
    assert_eq!(queue.length().await.expect("a length"), 0);
    // Offsets continue after the last one.
    let last = enqueue(&*queue, &["e"]).await[0].expect("room");
    assert!(last > more[0]);
    assert_eq!(bodies(&read(&*queue, more[0]).await.items), ["e"]);
}

pub(crate) async fn full_queues_accept_what_fits(mut kind: Kind) {
    let queue = kind.open().await;
    let last = queue.partitions() - 1;
    // The limit applies to all partitions together.
    let items = [item(0, "a"), item(last, "b"), item(0, "c")];
    let places = queue.enqueue(&items, 2).await.expect("to enqueue");
    assert_eq!(places.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(queue.enqueue(&items[..1], 2).await.expect("to enqueue"), [None]);
    assert_eq!(queue.length().await.expect("a length"), 2);
    let read = read(&*queue, QueueOffset::ZERO).await;
    assert!(queue.trim(0, 1, &read.life, places[0].expect("room").next()).await.expect("to trim"));
    assert!(queue.enqueue(&items[..1], 2).await.expect("to enqueue")[0].is_some());
}

pub(crate) async fn waiting_entries_survive_a_restart(mut kind: Kind) {
    let queue = kind.open().await;
    let places = enqueue(&*queue, &["a", "b", "c"]).await;
    let before = read(&*queue, QueueOffset::ZERO).await;
    assert!(queue.trim(0, 1, &before.life, places[1].expect("room")).await.expect("to trim"));
    drop(queue);
    kind.restart();
    let queue = kind.open().await;
    let after = read(&*queue, QueueOffset::ZERO).await;
    assert_eq!((bodies(&after.items), &after.life), (vec!["b", "c"], &before.life));
    let new = enqueue(&*queue, &["d"]).await[0].expect("room");
    assert!(Some(new) > places[2]);
    // Offsets continue even after the queue was emptied and restarted.
    assert!(queue.trim(0, 1, &before.life, new.next()).await.expect("to trim"));
    drop(queue);
    kind.restart();
    let queue = kind.open().await;
    assert!(enqueue(&*queue, &["e"]).await[0].expect("room") > new);
    assert_eq!(bodies(&read(&*queue, QueueOffset::ZERO).await.items), ["e"]);
}

pub(crate) async fn lost_queues_start_a_new_epoch(mut kind: Kind) {
    let queue = kind.open().await;
    enqueue(&*queue, &["a"]).await;
    let before = read(&*queue, QueueOffset::ZERO).await;
    drop(queue);
    kind.lose();
    let queue = kind.open().await;
    let after = read(&*queue, QueueOffset::ZERO).await;
    assert!(after.items.is_empty() && after.life != before.life);
}

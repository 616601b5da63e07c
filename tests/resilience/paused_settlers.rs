//! Nodes that are paused for longer than every lease, under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;

use crate::chaos;
use crate::cluster::{pause_without_lock, post, resume};
use crate::likers::{Book, Field};
use crate::likes::{load, more};
use crate::random::SeededRandom;

/// Longer than all leases. The longest is that of a process in the ledger, five seconds.
const PAUSE: Duration = Duration::from_millis(6_500);

const POSTS: usize = 100;

/// Each node owns partitions. They are paused in turn, with or without likes that they have read. After a pause, a node
/// does not settle likes again that the other node has settled.
async fn paused_settlers_settle_every_like_once(field: Field) {
    let seed = SeededRandom::seed();
    let mut random = SeededRandom::new(seed);
    let mut posts = Vec::new();
    for n in 0..POSTS {
        posts.push(post(&field.nodes[0], "ann", &format!("post {n}")).await);
    }
    let file = field.postgres.is_none().then(|| field.connection());
    if let Some(file) = &file {
        file.busy_timeout(Duration::from_millis(300)).expect("a timeout");
    }
    let (book, over) = (Book::default(), Arc::new(AtomicBool::new(false)));
    let (people, acknowledged) = load(&field, &posts, &book, &over, seed);
    for round in 0..chaos::rounds(2, 16) {
        more(&acknowledged, 50).await;
        tokio::time::sleep(Duration::from_micros(random.below(150_000) as u64)).await;
        let node = &field.nodes[round % 2];
        pause_without_lock(node, file.as_ref()).await;
        eprintln!("seed {seed}: node {} is paused after {} likes", round % 2, acknowledged.load(Ordering::Relaxed));
        tokio::time::sleep(PAUSE).await;
        resume(node);
    }
    more(&acknowledged, 50).await;
    over.store(true, Ordering::Relaxed);
    join_all(people).await;
    field.settled_as(&book).await;
}

#[tokio::test]
async fn paused_settlers_settle_every_like_once_on_sqlite() {
    paused_settlers_settle_every_like_once(Field::redis(2, &[]).await).await;
}

#[tokio::test]
async fn paused_settlers_settle_every_like_once_on_postgres() {
    paused_settlers_settle_every_like_once(Field::postgres(2, &[]).await).await;
}

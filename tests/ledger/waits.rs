//! What a write at PostgreSQL sees that waited for another's lock: what was committed meanwhile, not what was there when it
//! began.

use std::sync::Arc;
use std::time::{Duration, Instant};

use feedline::ledger::{Begun, Edges, Happening, Idempotency, Keyed, Mark, Marked, Notifications, Posts, Turn, Work};
use feedline::model::{NotificationId, PostId, What};

use crate::postgres_server::PostgresServer;
use crate::support::{NOW, PATIENCE, database, delete, follow, id, open_at, post, store, users};

/// Has another transaction lock a user's row and do something, and commit while the call waits for that lock.
async fn meanwhile<T: Send + 'static>(
    (server, name): (&PostgresServer, &str),
    (user, something): (&str, &str),
    call: impl Future<Output = T> + Send + 'static,
) -> T {
    let (locker, other) = (server.client(name).await, server.client(name).await);
    let lock = format!("BEGIN; SELECT FROM users WHERE id = '{user}' FOR UPDATE; {something}");
    locker.batch_execute(&lock).await.unwrap();
    let call = tokio::spawn(call);
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND application_name = 'feedline' \
         AND wait_event_type = 'Lock'"
    );
    let until = Instant::now() + PATIENCE;
    while other.query_one(&waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(Instant::now() < until && !call.is_finished(), "it does not wait for the lock");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    locker.batch_execute("COMMIT").await.unwrap();
    call.await.unwrap()
}

#[tokio::test]
async fn a_follow_that_waited_sees_the_block_that_it_waited_for() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann", "bo"]).await;
    let block =
        "INSERT INTO barriers VALUES ('ann', 'block', 'bo', 0); INSERT INTO barred VALUES ('bo', 'block', 'ann')";
    let asking = Arc::clone(&ledger);
    let call = async move { follow(&*asking, &id("bo"), &id("ann")).await };
    assert!(!meanwhile((server, &name), ("ann", block), call).await);
    assert!(ledger.followers_after(&id("ann"), "", 9).await.unwrap().is_empty());
    assert!(ledger.followees(&id("bo"), 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_deletion_that_waited_takes_the_edited_post_away() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    store(&*ledger, post(1, "ann", &["old"])).await.unwrap();
    let edit = "UPDATE posts SET topics = '{new}'; UPDATE post_topics SET topic = 'new'";
    let asking = Arc::clone(&ledger);
    let call = async move { delete(&*asking, 1, "ann").await.expect("a job") };
    let job = meanwhile((server, &name), ("ann", edit), call).await;
    assert!(matches!(&job.work, Work::Delete { topics, .. } if *topics == ["new"]), "{job:?}");
    for topic in ["old", "new"] {
        assert!(ledger.topic_posts(topic, PostId::MAX, 9).await.unwrap().is_empty(), "{topic}");
    }
}

#[tokio::test]
async fn a_key_that_is_begun_anew_while_old_ones_go_stays() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    let write = Keyed { user: id("ann"), key: "k".into(), operation: "posts.create", input: [7; 32] };
    let turn = Turn { now: NOW, until: NOW + 10, since: 0 };
    assert_eq!(ledger.begin(&write, PostId(1), turn).await.unwrap(), Begun::Fresh);
    let asking = Arc::clone(&ledger);
    let call = async move { asking.forget_begun(NOW + 1, 9).await.unwrap() };
    let anew = format!("UPDATE idempotency SET begun_at = {}", NOW + 5);
    assert_eq!(meanwhile((server, &name), ("ann", &anew), call).await, 0);
    assert_eq!(ledger.begin(&write, PostId(2), turn).await.unwrap(), Begun::Running);
}

#[tokio::test]
async fn a_mark_that_waited_for_another_changes_nothing() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    let follows = Happening { id: NotificationId(1), what: What::Follow, by: id("bo") };
    ledger.notify(&id("ann"), &[follows], NOW, 1_000).await.unwrap();
    let marked = "UPDATE notified SET seen_upto = latest, read_upto = latest";
    let asking = Arc::clone(&ledger);
    let call = async move { asking.mark_notifications(&id("ann"), None, Mark::Read).await.unwrap() };
    assert_eq!(meanwhile((server, &name), ("ann", marked), call).await, Marked::Before);
}

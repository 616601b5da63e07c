//! Writes to PostgreSQL that waited for the lock of another transaction see the data committed during the wait, not the
//! data as of their start.

use std::sync::Arc;
use std::time::{Duration, Instant};

use feedline::ledger::{
    BeginOutcome, CommentStore, ErasureStore, EventConsumer, EventStore, FilterChange, FilterStore, FollowStore,
    IdempotencyStore, IdempotentWrite, LikeBatch, LikeStore, ListOutcome, ListStore, MarkUpTo, NotificationEvent,
    NotificationMark, NotificationStore, PostStore, RevertReason, Work, WriteLease,
};
use feedline::model::{
    Comment, CommentId, ContentId, Filter, FilterAction, FilterContext, FilterId, LikeChange, NotificationKind, PostId,
};

use crate::postgres_server::PostgresServer;
use crate::support::{NOW, PATIENCE, database, delete, follow, id, open_at, post, publish, store, users};

/// Another transaction locks a user's row and executes a statement; it commits while the call waits for that lock.
/// Returns the result of the call.
async fn meanwhile<T: Send + 'static>(
    database: (&PostgresServer, &str),
    (user, something): (&str, &str),
    call: impl Future<Output = T> + Send + 'static,
) -> T {
    let lock = format!("SELECT FROM users WHERE id = '{user}' FOR UPDATE; {something}");
    held_up(database, (&lock, ""), call).await
}

/// Another transaction executes `lock`; while the call waits for that lock, it executes `go_on` and commits. Returns
/// the result of the call.
async fn held_up<T: Send + 'static>(
    (server, name): (&PostgresServer, &str),
    (lock, go_on): (&str, &str),
    call: impl Future<Output = T> + Send + 'static,
) -> T {
    let (locker, other) = (server.client(name).await, server.client(name).await);
    locker.batch_execute(&format!("BEGIN; {lock}")).await.unwrap();
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
    // If `go_on` waits for the call, the timeout of 500 ms ends it before the server detects the deadlock.
    let go_on = format!("SET LOCAL lock_timeout = 500; {go_on}; COMMIT");
    locker.batch_execute(&go_on).await.expect("what the call waits for does not wait for the call");
    call.await.unwrap()
}

#[tokio::test]
async fn waiting_follows_see_the_concurrent_block() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann", "bo"]).await;
    let block = "INSERT INTO restrictions VALUES ('ann', 'block', 'bo', 0); \
                 INSERT INTO restricted_by VALUES ('bo', 'block', 'ann')";
    let asking = Arc::clone(&ledger);
    let call = async move { follow(&*asking, &id("bo"), &id("ann")).await };
    assert!(!meanwhile((server, &name), ("ann", block), call).await);
    assert!(ledger.followers_after(&id("ann"), "", 9).await.unwrap().is_empty());
    assert!(ledger.followees(&id("bo"), 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn waiting_deletions_remove_the_edited_post() {
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
async fn idempotency_keys_renewed_during_cleanup_stay() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    let write = IdempotentWrite { user: id("ann"), key: "k".into(), operation: "posts.create", input: [7; 32] };
    let turn = WriteLease { now: NOW, until: NOW + 10, since: 0 };
    assert_eq!(ledger.begin(&write, Some(PostId(1)), turn).await.unwrap(), BeginOutcome::Fresh);
    let asking = Arc::clone(&ledger);
    let call = async move { asking.delete_old_keys(NOW + 1, 9).await.unwrap() };
    let anew = format!("UPDATE idempotency SET begun_at = {}", NOW + 5);
    assert_eq!(meanwhile((server, &name), ("ann", &anew), call).await, 0);
    assert_eq!(ledger.begin(&write, Some(PostId(2)), turn).await.unwrap(), BeginOutcome::Running);
}

#[tokio::test]
async fn waiting_read_marks_change_nothing() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    let follows =
        NotificationEvent { kind: NotificationKind::Follow, by: id("bo"), event: 0, comment: None, content: None };
    ledger.notify(&id("ann"), &[follows], NOW, 1_000).await.unwrap();
    let marked = "UPDATE notified SET seen_upto = latest, read_upto = latest";
    let asking = Arc::clone(&ledger);
    let upto = MarkUpTo::Everything;
    let call = async move { asking.mark_notifications(&id("ann"), upto, NotificationMark::Read, None).await.unwrap() };
    assert_eq!(meanwhile((server, &name), ("ann", marked), call).await, None);
}

fn like(user: &str, object: ContentId) -> LikeChange {
    LikeChange { user: id(user), object, liked: true, at: NOW }
}

/// A batch of partition 3 that begins at this position.
fn batch(from: &str, changes: Vec<LikeChange>) -> LikeBatch {
    LikeBatch {
        partition: 3,
        from: from.into(),
        to: "mine".into(),
        changes,
        noted: 500,
        now: NOW,
        ..LikeBatch::default()
    }
}

#[tokio::test]
async fn waiting_batches_of_a_partition_are_stale() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    publish(&*ledger, 1, "ann").await;
    // The first batch of the partition, and a later one.
    for (from, lock) in [
        ("", "INSERT INTO like_positions VALUES (3, '')"),
        ("theirs", "SELECT FROM like_positions WHERE partition = 3 FOR UPDATE"),
    ] {
        let to = if from.is_empty() { "theirs" } else { "theirs too" };
        let settled = format!("UPDATE like_positions SET position = '{to}' WHERE partition = 3");
        let asking = Arc::clone(&ledger);
        let mine = batch(from, vec![like("bo", ContentId::Post(PostId(1)))]);
        let call = async move { asking.settle_likes(mine).await.unwrap() };
        assert_eq!(held_up((server, &name), (lock, &settled), call).await, None, "from {from:?}");
        assert_eq!(ledger.like_position(3).await.unwrap(), to);
    }
    assert!(ledger.likers(PostId(1), None, 9).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn waiting_likes_see_the_deleted_comment() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    publish(&*ledger, 1, "ann").await;
    let said = Comment {
        id: CommentId(5),
        post: PostId(1),
        reply_to: None,
        author: Some(id("ann")),
        text: Some("so it is".into()),
        mentions: Vec::new(),
        created_at: NOW,
        likes: 0,
        replies: 0,
        edited_at: None,
        liked: None,
        filtered: Vec::new(),
        removed: None,
    };
    ledger.create_comment(&said).await.unwrap();
    // The lock that the deletion of a comment takes.
    let lock = "SELECT FROM post_counts WHERE post = 1 FOR NO KEY UPDATE";
    let asking = Arc::clone(&ledger);
    let late = batch("", vec![like("bo", ContentId::Comment(CommentId(5)))]);
    let call = async move { asking.settle_likes(late).await.unwrap().expect("it is applied") };
    let settled = held_up((server, &name), (lock, "SELECT feedline_delete_comment(5)"), call).await;
    let reverted: Vec<_> = settled.reverted.iter().map(|it| (it.object, it.reason)).collect();
    assert_eq!(reverted, [(ContentId::Comment(CommentId(5)), RevertReason::Gone)]);
    assert!(settled.added.is_empty(), "{settled:?}");
    let left = server.client(&name).await.query("SELECT FROM comment_likes", &[]).await.unwrap();
    assert!(left.is_empty());
}

#[tokio::test]
async fn waiting_likes_are_ordered_after_the_concurrent_one() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann", "cy"]).await;
    publish(&*ledger, 1, "ann").await;
    // A reader who fetches the list between the two likes continues below the part already read, so the later like must
    // not be listed there.
    let lock = "INSERT INTO post_counts (post) VALUES (1); COMMIT; \
                BEGIN; SELECT FROM post_counts WHERE post = 1 FOR NO KEY UPDATE";
    let liked = "INSERT INTO likes VALUES (1, 'cy', nextval('likes_seq'), 0); UPDATE post_counts SET likes = likes + 1";
    let asking = Arc::clone(&ledger);
    let late = batch("", vec![like("bo", ContentId::Post(PostId(1)))]);
    let call = async move { asking.settle_likes(late).await.unwrap().expect("it is applied") };
    let settled = held_up((server, &name), (lock, liked), call).await;
    assert_eq!(settled.tallies[0].1.likes, 2);
    let likers = ledger.likers(PostId(1), None, 9).await.unwrap().items;
    assert_eq!(likers.iter().map(|user| user.id.as_str()).collect::<Vec<_>>(), ["bo", "cy"]);
}

#[tokio::test]
async fn batches_lock_rows_in_one_order() {
    let (server, name) = database().await;
    // The server sorts only where a statement requires it, so rows are not in order by chance.
    server.ask("postgres", &format!("ALTER DATABASE {name} SET enable_sort = off")).await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    for number in 1..=20 {
        publish(&*ledger, number, "ann").await;
    }
    // Another transaction holds the first row and takes the others in order: new users, new counts, existing counts.
    let user = |n: u64| format!("u{n:02}");
    let make_user = |n: u64| format!("INSERT INTO users (id, name, created_at) VALUES ('{}', '', 0)", user(n));
    let make_counts = |n: u64| format!("INSERT INTO post_counts (post) VALUES ({n})");
    let lock_counts = |n: u64| format!("SELECT FROM post_counts WHERE post = {n} FOR NO KEY UPDATE");
    let takes: [(&str, &dyn Fn(u64) -> String); 3] =
        [("users", &make_user), ("new counts", &make_counts), ("counts", &lock_counts)];
    let mut from = "";
    for (what, take) in takes {
        let others: Vec<String> = (2..=20).map(take).collect();
        let changes = (1..=20).rev().map(|n| like(&user(n), ContentId::Post(PostId(n)))).collect();
        let (asking, next) = (Arc::clone(&ledger), LikeBatch { to: what.into(), ..batch(from, changes) });
        let call = async move { asking.settle_likes(next).await.unwrap().expect("it is applied") };
        let settled = held_up((server, &name), (&take(1), &others.join("; ")), call).await;
        assert_eq!(settled.tallies.len(), 20, "{what}");
        from = what;
        if what == "users" {
            server.ask(&name, "DELETE FROM post_counts").await;
        }
    }
}

/// An event that two consumers finish at the same time is removed.
#[tokio::test]
async fn consumers_that_finish_an_event_together_remove_it() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    let both = EventConsumer::Notifications.bit() | EventConsumer::Outlet.bit();
    server.ask(&name, &format!("INSERT INTO events (at, event, pending) VALUES (1, '{{}}', {both})")).await;
    let first = "SELECT feedline_finish_events(ARRAY[1::bigint], 1)";
    let second = async move { ledger.finish_events(EventConsumer::Outlet, &[1]).await };
    held_up((server, &name), (first, ""), second).await.unwrap();
    let left = server.client(&name).await.query_one("SELECT count(*) FROM events", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), 0);
}

fn filter(word: &str) -> Filter {
    Filter {
        id: FilterId(0),
        words: vec![word.to_owned()],
        action: FilterAction::Hide,
        contexts: vec![FilterContext::Home],
        whole_word: true,
        until: None,
        created_at: NOW,
    }
}

#[tokio::test]
async fn waiting_creations_count_the_concurrent_filter() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    let created = "INSERT INTO filters (owner, words, action, contexts, whole_word, created_at) \
                   VALUES ('ann', '{theirs}', 'hide', '{home}', true, 0)";
    let asking = Arc::clone(&ledger);
    let call = async move { asking.create_filter(&id("ann"), &filter("mine"), 1, None).await.unwrap() };
    assert_eq!(meanwhile((server, &name), ("ann", created), call).await, None);
    let filters = ledger.filters_of(&[id("ann")]).await.unwrap();
    assert_eq!(filters.iter().map(|(_, filter)| &*filter.words[0]).collect::<Vec<_>>(), ["theirs"]);
}

#[tokio::test]
async fn waiting_changes_keep_other_members_of_the_concurrent_one() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    let made = ledger.create_filter(&id("ann"), &filter("before"), 9, None).await.unwrap().expect("a filter");
    let lock = "UPDATE filters SET words = '{after}', until = 7";
    let asking = Arc::clone(&ledger);
    let change = FilterChange { action: Some(FilterAction::Warn), ..FilterChange::default() };
    let call = async move { asking.update_filter(&id("ann"), made.id, &change).await.unwrap() };
    let expected = Filter { id: made.id, action: FilterAction::Warn, until: Some(7), ..filter("after") };
    assert_eq!(held_up((server, &name), (lock, ""), call).await, Some(expected.clone()));
    assert_eq!(ledger.filters_of(&[id("ann")]).await.unwrap(), [(id("ann"), expected)]);
}

#[tokio::test]
async fn waiting_changes_of_lists_see_the_concurrent_one() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann", "bo", "cy"]).await;
    let list = ledger.create_list(&id("ann"), "list", true, NOW, 1, None).await.unwrap().expect("a list").id;
    let bo = format!("INSERT INTO list_users VALUES ({}, 'bo', 0)", list.0);
    let asking = Arc::clone(&ledger);
    let call = async move { asking.sync_exclusion(&id("ann"), &id("bo"), NOW).await.unwrap() };
    let synced = meanwhile((server, &name), ("ann", &bo), call).await;
    assert!(synced.is_some_and(|(is_listed, jobs)| is_listed && jobs.len() == 1), "bo is in the list now");
    let asking = Arc::clone(&ledger);
    let call = async move { asking.sync_exclusion(&id("ann"), &id("bo"), NOW).await.unwrap() };
    let synced = meanwhile((server, &name), ("ann", "DELETE FROM list_users"), call).await;
    assert_eq!(synced, Some((false, vec![])));
    let asking = Arc::clone(&ledger);
    let call = async move { asking.add_to_list(&id("ann"), list, &crate::lists::user("cy"), NOW, 1).await.unwrap() };
    assert_eq!(meanwhile((server, &name), ("ann", &bo), call).await, ListOutcome::Full);
    // A member that joins during the erasure of the owner does not stay behind.
    let asking = Arc::clone(&ledger);
    let call = async move { asking.erase_rest(&id("ann"), 99).await.unwrap() };
    let cy = format!("INSERT INTO list_users VALUES ({}, 'cy', 0)", list.0);
    assert_eq!(meanwhile((server, &name), ("ann", &cy), call).await, 3, "the list and its members");
    let left = server.client(&name).await.query_one("SELECT count(*) FROM list_users", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), 0);
}

//! Tests specific to SQLite: group commit, isolation of failures, several processes on one file, opening.

use std::sync::Arc;

use feedline::ledger::{
    BulkLoad, FavouriteStore, FollowStore, Ledger, LedgerError, PeopleStore, PostStore, PullLogStore, RestrictionStore,
    SqliteLedger, SqliteOptions, WorkStore,
};
use feedline::model::{Entry, ObjectId, ObjectType, PostId, UserId};
use futures::future::join_all;
use rusqlite::Connection;

use crate::support::{NOW, backlog, id, open_in, own_all, post, publish, sqlite, store, users, work_lease};

/// Users choose the types and ids of their favourites.
#[tokio::test]
async fn removed_favourites_leave_no_rows() {
    let (ledger, folder) = sqlite().await;
    users(&*ledger, &["ann", "bo"]).await;
    let kind = ObjectType::parse("song").expect("a type");
    let object = ObjectId::parse("a").expect("an id");
    let db = Connection::open(folder.path().join("ledger.db")).unwrap();
    let rows = || {
        let sql = "SELECT (SELECT count(*) FROM favourites_of_users), (SELECT count(*) FROM favourites_of_objects)";
        db.query_row(sql, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))).unwrap()
    };
    for user in ["ann", "bo"] {
        ledger.add_favourite(&id(user), &kind, &object, NOW, 9, false).await.unwrap();
    }
    assert_eq!(rows(), (2, 1));
    ledger.remove_favourite(&id("ann"), &kind, &object).await.unwrap();
    assert_eq!(rows(), (1, 1));
    ledger.remove_favourite(&id("bo"), &kind, &object).await.unwrap();
    assert_eq!(rows(), (0, 0));
    ledger.add_favourite(&id("ann"), &kind, &object, NOW, 9, false).await.unwrap();
    assert_eq!(ledger.favourites_count(&id("ann"), &kind).await.unwrap(), 1);
}

#[tokio::test]
async fn many_writes_share_few_transactions() {
    let (ledger, _folder) = sqlite().await;
    users(&*ledger, &["ann"]).await;
    let before = ledger.commits();
    let jobs = join_all((0..1_000).map(|number| store(&*ledger, post(number, "ann", &[])))).await;
    assert!(jobs.iter().all(Result::is_ok));
    let transactions = ledger.commits() - before;
    assert!(transactions < 100, "1,000 posts took {transactions} transactions");
    assert_eq!(ledger.author_posts(&id("ann"), PostId::MAX, 2_000).await.unwrap().len(), 1_000);
}

#[tokio::test]
async fn failed_calls_do_not_affect_others_in_the_transaction() {
    let (ledger, folder) = sqlite().await;
    users(&*ledger, &["ann"]).await;
    let before = ledger.commits();
    // While another process holds the lock, calls queue up, so that they share a transaction.
    let other = Connection::open(folder.path().join("ledger.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let author = |number| if number % 10 == 5 { "nobody" } else { "ann" };
    let mut calls = join_all((0..100).map(|number| store(&*ledger, post(number, author(number), &["t"]))));
    assert!(futures::poll!(&mut calls).is_pending());
    other.execute_batch("ROLLBACK").unwrap();

    for (number, answer) in (0..).zip(calls.await) {
        assert_eq!(answer.is_ok(), author(number) == "ann", "post {number}: {answer:?}");
    }
    assert!(ledger.commits() - before <= 2, "they did not share a transaction");
    assert_eq!(backlog(&*ledger).await.jobs, 90);
    assert_eq!(ledger.topic_posts("t", PostId::MAX, 200).await.unwrap().len(), 90);
}

#[tokio::test]
async fn leases_expire_when_the_clock_is_set_back() {
    let (ledger, folder) = sqlite().await;
    own_all(&*ledger, "w1").await;
    let other = Connection::open(folder.path().join("ledger.db")).unwrap();
    let set_back =
        |millis| other.execute(&format!("UPDATE work_nodes SET lease_until = lease_until + {millis}"), []).unwrap();
    let owner = async || {
        let view = ledger.renew_work_lease(&work_lease("w2", 1)).await.unwrap();
        view.partitions.into_iter().find_map(|row| row.owner)
    };
    set_back(540_000);
    assert_eq!(owner().await.as_deref(), Some("w1"), "it may be the longest there is");
    set_back(3_000_000);
    assert_eq!(owner().await, None);
    own_all(&*ledger, "w2").await;
}

#[tokio::test]
async fn lock_timeouts_are_transient_errors() {
    let folder = tempfile::tempdir().unwrap();
    let timeout = std::time::Duration::from_millis(200);
    let options = SqliteOptions { timeout, ..SqliteOptions::new(folder.path().join("ledger.db")) };
    let ledger = SqliteLedger::open(options).await.unwrap();
    let other = Connection::open(folder.path().join("ledger.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(matches!(ledger.ensure_user(&id("ann"), NOW).await, Err(LedgerError::Busy)));
    assert!(matches!(ledger.ping().await, Err(LedgerError::Busy)));
    assert!(ledger.users(&[id("ann")]).await.unwrap().is_empty(), "reading goes on");
    other.execute_batch("ROLLBACK").unwrap();
    ledger.ensure_user(&id("ann"), NOW).await.unwrap();
    ledger.ping().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_ledgers_on_one_file_lose_nothing() {
    let (one, folder) = sqlite().await;
    let two = open_in(&folder).await;
    users(&*one, &["ann", "bo"]).await;
    let writes = |ledger: Arc<SqliteLedger>, author: &'static str, first: u64| async move {
        for number in (first..first + 400).step_by(8) {
            let posts = (number..number + 8).map(|number| store(&*ledger, post(number, author, &["t"])));
            for answer in join_all(posts).await {
                answer.expect("a post");
            }
        }
    };
    let (first, second) = (tokio::spawn(writes(one.clone(), "ann", 0)), tokio::spawn(writes(two.clone(), "bo", 1_000)));
    first.await.unwrap();
    second.await.unwrap();
    for ledger in [&one, &two] {
        assert_eq!(ledger.topic_posts("t", PostId::MAX, 2_000).await.unwrap().len(), 800);
        assert_eq!(ledger.profile(&id("ann"), None, 0).await.unwrap().unwrap().posts, 400);
        assert_eq!(ledger.profile(&id("bo"), None, 0).await.unwrap().unwrap().posts, 400);
        assert_eq!(backlog(&**ledger).await.jobs, 800);
    }
}

#[tokio::test]
async fn writes_survive_close_and_open() {
    let (ledger, folder) = sqlite().await;
    users(&*ledger, &["ann"]).await;
    publish(&*ledger, 1, "ann").await;
    ledger.close().await;
    assert!(!folder.path().join("ledger.db-wal").exists(), "the log was copied into the file");
    let again = open_in(&folder).await;
    assert_eq!(again.posts(&[PostId(1)]).await.unwrap(), [post(1, "ann", &[])]);
}

#[tokio::test]
async fn the_bulk_loaders_keep_the_counts_and_may_be_repeated() {
    let (ledger, _folder) = sqlite().await;
    let fans: Vec<UserId> = (0..5_000).map(|n| id(&format!("fan-{n}"))).collect();
    let edges: Vec<_> = fans.iter().map(|fan| (fan.clone(), id("star"))).collect();
    users(&*ledger, &["star"]).await;
    for _ in 0..2 {
        ledger.load_users(&fans, NOW).await.unwrap();
        ledger.load_follows(&edges, NOW).await.unwrap();
    }
    assert_eq!(ledger.profile(&id("star"), None, 0).await.unwrap().unwrap().followers, 5_000);
    assert_eq!(ledger.followers_after(&id("star"), "", 9_999).await.unwrap().len(), 5_000);
    assert!(ledger.commits() < 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_opens_of_a_new_file_succeed() {
    for _ in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let opened =
            join_all((0..8).map(|_| {
                tokio::spawn(SqliteLedger::open(SqliteOptions::new(folder.path().join("deep/er/ledger.db"))))
            }));
        for ledger in opened.await {
            ledger.unwrap().unwrap().ping().await.unwrap();
        }
    }
}

#[tokio::test]
async fn unusable_files_are_reported_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.db");
    let refusal = async || match SqliteLedger::open(SqliteOptions::new(&path)).await {
        Ok(_) => panic!("it opened"),
        Err(error) => error.to_string().replace(&folder.path().display().to_string(), ""),
    };
    std::fs::write(&path, "This is not a database, though long enough to have the header of one.".repeat(20)).unwrap();
    assert_eq!(refusal().await, "the ledger refuses to work (schema damaged): /wrong.db: file is not a database");
    std::fs::remove_file(&path).unwrap();

    std::fs::create_dir(&path).unwrap();
    assert_eq!(refusal().await, "the ledger failed: /wrong.db: Is a directory (os error 21)");
    std::fs::remove_dir(&path).unwrap();

    let newer = Connection::open(&path).unwrap();
    newer.execute_batch("CREATE TABLE schema_migrations (version INTEGER, applied_at INTEGER)").unwrap();
    newer.execute_batch("INSERT INTO schema_migrations VALUES (999, 0)").unwrap();
    drop(newer);
    let said = refusal().await;
    let says_which =
        said.starts_with("the ledger failed: /wrong.db: its schema is version 999, and this program knows ");
    assert!(says_which && said.ends_with(" only: a newer one made it"), "{said}");
}

/// Files of the first schema keep their rows, and the numbers that they have used.
#[tokio::test]
async fn files_of_the_first_schema_are_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let first = Connection::open(&path).unwrap();
    first.execute_batch(include_str!("../../src/ledger/migrations/sqlite/0001_initial.sql")).unwrap();
    first
        .execute_batch(
            "CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL);
             INSERT INTO schema_migrations VALUES (1, 0);
             INSERT INTO users (id, name, created_at) VALUES ('ann', 'Ann', 1), ('bo', '', 1);
             INSERT INTO restrictions (maker, target, kind, at) VALUES ('ann', 'bo', 'mute', 5);
             INSERT INTO pulled (mark, job, author, kind, post, repeated, at)
             VALUES (7, 7, 'ann', 'p', 7, 0, 7), (8, 8, 'ann', 'p', 8, 0, 8);
             DELETE FROM pulled WHERE mark = 8",
        )
        .unwrap();
    drop(first);
    let ledger = SqliteLedger::open(SqliteOptions::new(&path)).await.unwrap();
    assert!(ledger.relations(&[(id("ann"), id("bo"))]).await.unwrap()[0].muted);
    assert_eq!(ledger.users(&[id("ann")]).await.unwrap()[0].name, "Ann");
    let kept = ledger.pulled_after(0, 9).await.unwrap();
    assert_eq!(kept.iter().map(|entry| entry.mark).collect::<Vec<_>>(), [7]);
    let next = ledger.pull_by_topics(&id("ann"), &Entry::Post(PostId(9)), &["rust".to_owned()], NOW).await.unwrap();
    assert!(next > 8, "the mark {next} was used before");
    ledger.close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn database_files_are_readable_by_the_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let (ledger, folder) = sqlite().await;
    users(&*ledger, &["ann"]).await;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.path());
    }
}

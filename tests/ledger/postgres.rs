//! Tests specific to PostgreSQL: held locks, outages, partitions, encryption.

use std::sync::Arc;
use std::time::{Duration, Instant};

use feedline::ledger::{
    BulkLoad, CommentStore, Durability, FavouriteStore, FollowStore, JobId, JobRequest, JobStore, Ledger, LedgerError,
    LikeBatch, LikeStore, LineageStore, NotificationEvent, NotificationStore, PeopleStore, PostStore, PostgresLedger,
    PostgresOptions, PostgresUrl, RestrictionStore, WorkStore, fanout_partition,
};
use feedline::model::{
    Comment, CommentId, ContentId, LikeChange, NotificationKind, ObjectId, ObjectType, PostId, Restriction, UserId,
};

use crate::postgres_server::{PostgresServer, shared};
use crate::support::{
    NOW, PATIENCE, backlog, database, follow, id, ids, load_all, open_at, own_all, post, postgres, postgres_options,
    publish, store, users, work_lease,
};

/// Waits until the ledger answers.
async fn answers(ledger: &dyn Ledger) {
    let until = Instant::now() + PATIENCE;
    while let Err(error) = ledger.ping().await {
        assert!(Instant::now() < until, "it does not come back: {error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn leases_expire_when_the_clock_is_set_back() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    own_all(&*ledger, "w1").await;
    let set_back = async |millis: u64| {
        server.ask(&name, &format!("UPDATE work_nodes SET lease_until = lease_until + {millis}")).await;
    };
    let owner = async || {
        let view = ledger.renew_work_lease(&work_lease("w2", 1)).await.unwrap();
        view.partitions.into_iter().find_map(|row| row.owner)
    };
    set_back(540_000).await;
    assert_eq!(owner().await.as_deref(), Some("w1"), "it may be the longest there is");
    set_back(3_000_000).await;
    assert_eq!(owner().await, None);
    own_all(&*ledger, "w2").await;
}

/// Users choose the types and ids of their favourites.
#[tokio::test]
async fn removed_favourites_leave_no_rows() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann", "bo"]).await;
    let kind = ObjectType::parse("song").expect("a type");
    let object = ObjectId::parse("a").expect("an id");
    for _ in 0..2 {
        for user in ["ann", "bo"] {
            ledger.add_favourite(&id(user), &kind, &object, NOW, 9, false).await.unwrap();
            assert_eq!(ledger.favourites_count(&id(user), &kind).await.unwrap(), 1);
        }
        for user in ["ann", "bo"] {
            assert!(ledger.remove_favourite(&id(user), &kind, &object).await.unwrap());
        }
        let check = "DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM favourites_of_users) \
                     AND NOT EXISTS (SELECT FROM favourites_of_objects); END $$";
        server.ask(&name, check).await;
    }
}

/// The pages of the table of jobs, and of its indexes, that one load of a partition and one count read.
async fn pages_of_jobs(database: &str, watcher: &tokio_postgres::Client, request: &JobRequest) -> i64 {
    let pages = async || {
        // A connection publishes its statistics before it ends. That of the dump stays.
        let others =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let until = Instant::now() + PATIENCE;
        while watcher.query_one(others, &[]).await.unwrap().get::<_, i64>(0) > 1 {
            assert!(Instant::now() < until, "connections stay open");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let sql = "SELECT (heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::bigint \
                   FROM pg_statio_user_tables WHERE relname = 'jobs'";
        watcher.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
    };
    let before = pages().await;
    let ledger = open_at(shared(), database).await;
    let jobs = ledger.load_jobs(std::slice::from_ref(request), &[]).await.unwrap();
    let backlog = ledger.backlog(&[request.partition]).await.unwrap();
    assert_eq!((jobs.len(), backlog.jobs), (1, 1));
    ledger.close().await;
    pages().await - before
}

/// Finished jobs that cannot be vacuumed, because of an old snapshot, cost neither a load nor a count anything.
#[tokio::test]
async fn jobs_behind_the_floor_are_not_read() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    let owned = own_all(&*ledger, "w1").await;
    let partition = fanout_partition(&id("ann"));
    // Its snapshot is older than the jobs.
    let (dump, watcher) = (server.client(&name).await, server.client(&name).await);
    dump.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jobs").await.unwrap();
    let fill = format!(
        "INSERT INTO jobs (partition, author, work, created_at)
         SELECT {partition}, 'ann', '', 0 FROM generate_series(1, 20000); DELETE FROM jobs"
    );
    server.ask(&name, &fill).await;
    let job = publish(&*ledger, 1, "ann").await;
    let fence = owned[usize::from(partition)].clone();
    let request = JobRequest { partition, fence: fence.clone(), limit: 9 };
    ledger.close().await;
    let before = pages_of_jobs(&name, &watcher, &request).await;
    let ledger = open_at(server, &name).await;
    ledger.raise_floors(&[(partition, fence)], JobId(job.id.0 + 5)).await.unwrap();
    ledger.close().await;
    let after = pages_of_jobs(&name, &watcher, &request).await;
    assert!(before > 200 && after < 20, "{before} and {after} pages");
    let ledger = open_at(server, &name).await;
    let left = load_all(&*ledger, &owned).await;
    assert_eq!(left.iter().map(|job| job.id).collect::<Vec<_>>(), [job.id], "the floor does not pass it");
    assert_eq!(backlog(&*ledger).await.jobs, 1);
    dump.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test]
async fn lock_timeouts_are_transient_errors() {
    let (server, name) = database().await;
    let timeout = Duration::from_secs(1);
    let ledger = PostgresLedger::open(PostgresOptions { timeout, ..postgres_options(server, &name) }).await.unwrap();
    users(&ledger, &["ann", "bo"]).await;
    let other = server.client(&name).await;
    other.batch_execute("BEGIN; SELECT FROM users WHERE id = 'ann' FOR UPDATE").await.unwrap();
    let refused = store(&ledger, post(1, "ann", &[])).await;
    assert!(matches!(refused, Err(LedgerError::Busy)), "{refused:?}");
    publish(&ledger, 2, "bo").await;
    other.batch_execute("ROLLBACK").await.unwrap();
    publish(&ledger, 1, "ann").await;
    // The server cancels a statement that exceeds the timeout and returns an error.
    other.batch_execute("BEGIN; LOCK TABLE users").await.unwrap();
    assert!(ledger.users(&[id("ann")]).await.is_err());
    let left = "SELECT count(*) FROM pg_stat_activity \
                WHERE datname = current_database() AND application_name = 'feedline' AND state = 'active'";
    // A transaction sees the statistics as they were at its first look, so that `other` cannot wait for a change.
    let watcher = server.client(&name).await;
    let until = Instant::now() + PATIENCE;
    while watcher.query_one(left, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        assert!(Instant::now() < until, "the statement is still under way");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    other.batch_execute("ROLLBACK").await.unwrap();
    ledger.close().await;
}

#[tokio::test]
async fn returning_servers_are_used_after_their_comparison() {
    let mut server = PostgresServer::start();
    let ledger = PostgresLedger::open(postgres_options(&server, "postgres")).await.unwrap();
    assert!(ledger.admit(ledger.begin_comparison()));
    users(&ledger, &["ann"]).await;
    let before = ledger.begin_comparison();
    server.kill();
    server.start_again();
    tokio::time::timeout(PATIENCE, ledger.replaced()).await.expect("it is noticed");
    // A comparison that began with the previous server does not admit this one.
    assert!(!ledger.admit(before));
    // It can be compared, once a connection is there again.
    let since = Instant::now();
    while let Err(error) = ledger.lineage().await {
        assert!(since.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let refused = |answer| assert!(matches!(answer, Err(LedgerError::Unreachable(_))), "{answer:?}");
    refused(ledger.ping().await);
    // Once a call has waited for the comparison in vain, later calls fail at once.
    let asked = Instant::now();
    for _ in 0..10 {
        refused(ledger.ping().await);
        refused(ledger.ensure_user(&id("bo"), NOW).await.map(drop));
    }
    assert!(asked.elapsed() < Duration::from_millis(500), "took {:?}", asked.elapsed());
    assert!(ledger.admit(ledger.begin_comparison()));
    users(&ledger, &["bo"]).await;
    ledger.close().await;
}

#[tokio::test]
async fn server_changes_are_detected_beside_open_connections() {
    let (one, other) = (PostgresServer::start(), PostgresServer::start());
    PostgresLedger::open(postgres_options(&other, "postgres")).await.unwrap().close().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let port = Arc::new(std::sync::atomic::AtomicU16::new(one.port()));
    let target = Arc::clone(&port);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let port = target.load(std::sync::atomic::Ordering::SeqCst);
            let mut server = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    let direct = one.url("postgres");
    let url = direct.replace(&format!("127.0.0.1:{}", one.port()), &address.to_string());
    assert_ne!(url, direct);
    let url = PostgresUrl::parse(&url).unwrap();
    let options = PostgresOptions { url, connections: 3, ..postgres_options(&one, "postgres") };
    let ledger = PostgresLedger::open(options).await.unwrap();
    assert!(ledger.admit(ledger.begin_comparison()));
    let own = one.client("postgres").await;
    // Those that have asked for the time of the server's start: one that is still connecting would take part later, as
    // a connection to a third server.
    let connections = "SELECT count(*) FROM pg_stat_activity \
                       WHERE application_name = 'feedline' AND state = 'idle' \
                       AND query LIKE '%pg_postmaster_start_time%'";
    let until = Instant::now() + PATIENCE;
    while own.query_one(connections, &[]).await.unwrap().get::<_, i64>(0) < 3 {
        assert!(Instant::now() < until, "it connects");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The address now leads to another server, and one connection breaks.
    port.store(other.port(), std::sync::atomic::Ordering::SeqCst);
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'feedline' LIMIT 1";
    own.query_one(end, &[]).await.unwrap();
    tokio::time::timeout(PATIENCE, ledger.replaced()).await.expect("it is noticed");
    assert!(ledger.admit(ledger.begin_comparison()));
    users(&ledger, &["ann"]).await;
    let there = other.client("postgres").await.query_one("SELECT count(*) FROM users", &[]).await.unwrap();
    assert_eq!(there.get::<_, i64>(0), 1, "nothing goes to the server before");
    ledger.close().await;
}

#[tokio::test]
async fn the_bulk_loaders_keep_the_counts_and_may_be_repeated() {
    let ledger = postgres().await;
    let fans: Vec<UserId> = (0..5_000).map(|n| id(&format!("fan-{n}"))).collect();
    let edges: Vec<_> = fans.iter().map(|fan| (fan.clone(), id("star"))).collect();
    for _ in 0..2 {
        ledger.load_users(&ids(&["star"]), NOW).await.unwrap();
        ledger.load_users(&fans, NOW).await.unwrap();
        ledger.load_follows(&edges, NOW).await.unwrap();
    }
    assert_eq!(ledger.profile(&id("star"), None, 0).await.unwrap().unwrap().followers, 5_000);
    assert_eq!(ledger.profile(&fans[7], None, 0).await.unwrap().unwrap().following, 1);
    assert_eq!(ledger.followers_after(&id("star"), "", 9_999).await.unwrap().len(), 5_000);
    assert_eq!(ledger.followers(&id("star"), None, 9_999).await.unwrap().items.len(), 5_000);
}

/// Writes rows of each user that refer to a few other users and their posts. If a table were partitioned by another
/// column, these rows would be in several partitions.
async fn write_rows_of_all_tables(ledger: &PostgresLedger, people: &[UserId]) {
    let mut likes = Vec::new();
    let kind = ObjectType::parse("post").unwrap();
    for (number, one) in (1_u64..).zip(people) {
        publish(ledger, number, one.as_str()).await;
        publish(ledger, number + 100, one.as_str()).await;
        let said = Comment {
            id: CommentId(number),
            post: PostId(number),
            reply_to: None,
            author: Some(one.clone()),
            text: Some(String::new()),
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
        ledger.create_comment(&Comment { id: CommentId(number + 100), ..said }).await.unwrap();
    }
    for (number, one) in people.iter().enumerate() {
        for step in 1..4 {
            let (other, at) = (&people[(number + step) % people.len()], 1 + (number + step) as u64 % 24);
            follow(ledger, one, other).await;
            ledger.restrict(Restriction::Mute, one, other, NOW).await.unwrap();
            ledger.add_favourite(one, &kind, &ObjectId::from(PostId(at)), NOW, 99, false).await.unwrap();
            let what = NotificationKind::Like(ContentId::Post(PostId(at)));
            let happening = NotificationEvent { kind: what, by: other.clone(), event: 0, comment: None, content: None };
            ledger.notify(one, &[happening], NOW, 60_000).await.unwrap();
            for object in [ContentId::Post(PostId(at)), ContentId::Comment(CommentId(at))] {
                likes.push(LikeChange { user: one.clone(), object, liked: true, at: NOW });
            }
        }
    }
    let batch = LikeBatch {
        partition: 0,
        from: String::new(),
        to: "1".into(),
        changes: likes,
        noted: 500,
        now: NOW,
        ..LikeBatch::default()
    };
    ledger.settle_likes(batch).await.unwrap().expect("it stands there");
}

#[tokio::test]
async fn rows_are_partitioned_by_author_post_and_user() {
    /// Tables and the columns that their rows are partitioned by.
    const SHARDED: [(&str, &str); 13] = [
        ("author_posts", "author"),
        ("posts", "id"),
        ("post_counts", "post"),
        ("comments", "post"),
        ("likes", "post"),
        ("comment_likes", "comment"),
        ("follows", "follower"),
        ("followers", "followee"),
        ("restrictions", "maker"),
        ("restricted_by", "target"),
        ("favourites", "owner"),
        ("favourite_holders", "type, object"),
        ("notifications", "owner"),
    ];
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    let people: Vec<UserId> = (0..24).map(|n| id(&format!("u{n}"))).collect();
    ledger.load_users(&people, NOW).await.unwrap();
    write_rows_of_all_tables(&ledger, &people).await;
    let client = server.client(&name).await;
    for (table, columns) in SHARDED {
        let rows = format!(
            "SELECT (SELECT count(*) FROM pg_inherits WHERE inhparent = '{table}'::regclass), \
                    (SELECT count(DISTINCT tableoid) FROM {table}), \
                    (SELECT count(*) > count(DISTINCT ({columns})) FROM {table}), \
                    (SELECT count(*) FROM (SELECT FROM {table} GROUP BY {columns} \
                        HAVING count(DISTINCT tableoid) > 1) t)"
        );
        let row = client.query_one(&rows, &[]).await.unwrap();
        let [parts, used, torn] = [0, 1, 3].map(|column| row.get::<_, i64>(column));
        assert_eq!((parts, torn), (16, 0), "{table}: its parts, and how many of its {columns} are in several");
        assert!(used > 4, "{table}: rows in {used} parts only");
        let several = row.get::<_, bool>(2) || ["posts", "post_counts"].contains(&table);
        assert!(several, "{table}: no {columns} has several rows, which proves nothing");
    }
    ledger.close().await;
}

#[tokio::test]
async fn texts_may_hold_any_character() {
    let ledger = postgres().await;
    let mut account = crate::support::account("ann");
    account.name = "a\0b".into();
    assert!(ledger.create_account(account).await.unwrap());
    assert_eq!(ledger.users(&[id("ann")]).await.unwrap()[0].name, "a\u{FFFD}b");
    let mut strange = post(1, "ann", &[]);
    strange.text = "\0 \\u0000 \u{10FFFF}".into();
    store(&*ledger, strange.clone()).await.unwrap();
    assert_eq!(ledger.posts(&[PostId(1)]).await.unwrap(), [strange]);
    assert!(ledger.topic_posts("a\0b", PostId::MAX, 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn lost_servers_are_reported_at_once_and_reconnected() {
    let mut server = PostgresServer::start();
    // Acknowledged writes survive the crash.
    let durability = Durability::Full;
    let timeout = Duration::from_secs(10);
    let options = PostgresOptions { durability, timeout, ..postgres_options(&server, "postgres") };
    let ledger = PostgresLedger::open(options).await.unwrap();
    users(&ledger, &["ann"]).await;
    server.kill();
    for number in 0..50 {
        let asked = Instant::now();
        let refused = store(&ledger, post(number, "ann", &[])).await;
        assert!(matches!(refused, Err(LedgerError::Unreachable(_))), "{refused:?}");
        assert!(asked.elapsed() < Duration::from_secs(5), "took {:?}", asked.elapsed());
    }
    server.start_again();
    answers(&ledger).await;
    publish(&ledger, 100, "ann").await;
    ledger.close().await;
}

#[tokio::test]
async fn reads_are_retried_on_broken_connections_and_writes_are_not() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    let (locker, other) = (server.client(&name).await, server.client(&name).await);
    let waiting = format!(
        "SELECT pid FROM pg_stat_activity WHERE datname = '{name}' AND application_name = 'feedline' \
         AND wait_event_type = 'Lock'"
    );
    for writes in [false, true] {
        locker.batch_execute("BEGIN; LOCK TABLE users").await.unwrap();
        let asking = Arc::clone(&ledger);
        let asked = tokio::spawn(async move {
            if writes {
                asking.ensure_user(&id("bo"), NOW).await.map(drop)
            } else {
                asking.users(&ids(&["ann"])).await.map(drop)
            }
        });
        let until = Instant::now() + PATIENCE;
        let pid: i32 = loop {
            assert!(Instant::now() < until, "nobody waits for the lock");
            match other.query_opt(&waiting, &[]).await.unwrap() {
                Some(row) => break row.get(0),
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        other.execute("SELECT pg_terminate_backend($1)", &[&pid]).await.unwrap();
        locker.batch_execute("ROLLBACK").await.unwrap();
        let answer = asked.await.unwrap();
        assert_eq!(answer.is_err(), writes, "{answer:?}");
        answers(&*ledger).await;
    }
    ledger.close().await;
}

#[tokio::test]
async fn hanging_servers_time_out_and_recover() {
    let server = PostgresServer::start();
    let timeout = Duration::from_secs(1);
    let options = PostgresOptions { timeout, connections: 4, ..postgres_options(&server, "postgres") };
    let ledger = PostgresLedger::open(options).await.unwrap();
    users(&ledger, &["ann"]).await;
    // Waits until all connections are open: a hang of a connection that is still being opened is detected later.
    let client = server.client("postgres").await;
    let there = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'feedline' AND state = 'idle' \
                 AND query LIKE '%pg_postmaster_start_time%'";
    let until = Instant::now() + PATIENCE;
    while client.query_one(there, &[]).await.unwrap().get::<_, i64>(0) < 3 {
        assert!(Instant::now() < until, "the other connections are not made");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.pause();
    let refused = store(&ledger, post(1, "ann", &[])).await;
    assert!(matches!(refused, Err(LedgerError::Unreachable(_))), "{refused:?}");
    // Later calls do not wait for a timeout of their own.
    let asked = Instant::now();
    for _ in 0..20 {
        assert!(matches!(ledger.users(&[id("ann")]).await, Err(LedgerError::Unreachable(_))));
    }
    // All 20 calls together take less than two timeouts.
    assert!(asked.elapsed() < 2 * timeout, "took {:?}", asked.elapsed());
    server.resume();
    answers(&ledger).await;
    publish(&ledger, 2, "ann").await;
    ledger.close().await;
}

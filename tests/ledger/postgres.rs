//! PostgreSQL's own: several nodes on one database, locks, outages, opening, encryption.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use feedline::ledger::{
    Comments, Counts, Durability, Edges, Happening, Jobs, Ledger, LedgerError, Notifications, People, PostgresLedger,
    PostgresOptions, PostgresUrl, Posts, Work,
};
use feedline::model::{Comment, CommentId, NotificationId, PostId, UserId, What};
use futures::future::join_all;

use crate::postgres_server::PostgresServer;
use crate::support::{
    LEASE, NOW, database, follow, id, ids, lease, names, open_at, post, postgres, postgres_options, publish, store,
    unfollow, users,
};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until the ledger answers.
async fn answers(ledger: &dyn Ledger) {
    let until = Instant::now() + PATIENCE;
    while let Err(error) = ledger.ping().await {
        assert!(Instant::now() < until, "it does not come back: {error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn many_may_open_a_new_database_at_once() {
    let (server, _) = database().await;
    let name = server.database("template1").await;
    for ledger in join_all((0..8).map(|_| open_at(server, &name))).await {
        ledger.ping().await.unwrap();
        ledger.close().await;
    }
    let steps = server.client(&name).await.query("SELECT version FROM migrations", &[]).await.unwrap();
    assert_eq!(steps.len(), std::fs::read_dir("src/ledger/migrations/postgres").unwrap().count());
}

#[tokio::test]
async fn a_newer_schema_is_used_if_its_maker_said_so() {
    let (server, name) = database().await;
    let known = std::fs::read_dir("src/ledger/migrations/postgres").unwrap().count();
    server.ask(&name, &format!("INSERT INTO migrations VALUES (998, {known}, 0)")).await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    ledger.close().await;
    server.ask(&name, "INSERT INTO migrations VALUES (999, 998, 0)").await;
    let Err(refused) = PostgresLedger::open(postgres_options(server, &name)).await else { panic!("it opened") };
    let said = refused.to_string();
    let place = format!("postgres at 127.0.0.1:{}/{name}", server.port());
    let why =
        format!("its schema is version 999, made for programs that know version 998 or later; this one knows {known}");
    assert_eq!(said, format!("the ledger failed: {place}: {why}"));
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_named_with_the_reason() {
    let (server, _) = database().await;
    let refusal =
        async |url: &str| match PostgresLedger::open(PostgresOptions::new(PostgresUrl::parse(url).unwrap())).await {
            Ok(_) => panic!("it opened"),
            Err(error) => error,
        };
    let nowhere = refusal(&server.url("nowhere")).await;
    assert!(nowhere.to_string().contains("database \"nowhere\" does not exist"), "{nowhere}");
    let nobody = refusal(&format!("postgres://nobody:hunter2@127.0.0.1:{}/fresh", server.port())).await;
    assert!(matches!(&nobody, LedgerError::Failed(why) if why.contains("\"nobody\"")), "{nobody}");
    let unencrypted = refusal(&format!("{}?sslmode=require", server.url("fresh"))).await;
    assert!(unencrypted.to_string().contains("TLS"), "{unencrypted}");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let closed = refusal(&format!("postgres://ann:hunter2@{closed}/feed")).await;
    assert!(matches!(&closed, LedgerError::Unreachable(why) if why.contains("refused")), "{closed}");
    server.ask("postgres", "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'").await;
    let latin = refusal(&server.url("latin")).await;
    assert!(latin.to_string().contains("must be in UTF8"), "{latin}");
    for said in [nobody, closed] {
        assert!(!said.to_string().contains("hunter2"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_follow_each_other_at_two_nodes_are_all_counted() {
    let (server, name) = database().await;
    let nodes = [open_at(server, &name).await, open_at(server, &name).await];
    let people: Vec<UserId> = (0..6).map(|n| id(&format!("u{n}"))).collect();
    users(&*nodes[0], &names(&people)).await;
    // Everybody follows everybody, unfollows some, from both ends at once: opposite orders of the same two rows.
    for round in 0..6 {
        let mut tasks = Vec::new();
        for (at, one) in people.iter().enumerate() {
            for (to, other) in people.iter().enumerate() {
                let (ledger, one, other) = (Arc::clone(&nodes[(at + to + round) % 2]), one.clone(), other.clone());
                tasks.push(tokio::spawn(async move {
                    if (at * 7 + to * 3 + round) % 4 == 0 {
                        unfollow(&*ledger, &one, &other).await;
                    } else {
                        follow(&*ledger, &one, &other).await;
                    }
                    publish(&*ledger, (round * 100 + at * 10 + to) as u64, one.as_str()).await;
                }));
            }
        }
        for task in tasks {
            task.await.unwrap();
        }
    }
    let ledger = &nodes[0];
    for one in &people {
        let profile = ledger.profile(one, None).await.unwrap().unwrap();
        assert_eq!(profile.posts, 36);
        assert_eq!(ledger.author_posts(one, PostId::MAX, 99).await.unwrap().len(), 36);
        let mut walked = ledger.followers_after(one, "", 99).await.unwrap();
        let mut listed: Vec<_> =
            ledger.followers(one, None, 99).await.unwrap().items.into_iter().map(|user| user.id).collect();
        listed.sort();
        walked.sort();
        assert_eq!(walked, listed);
        assert_eq!(profile.followers, walked.len() as u64);
        let following = ledger.following(one, None, 99).await.unwrap().items;
        assert_eq!(profile.following, following.len() as u64);
        for other in following {
            assert!(ledger.followers_after(&other.id, "", 99).await.unwrap().contains(one), "both tables agree");
        }
    }
    // Those who ended up in each other's way would have tried again, and nobody would have noticed.
    for ledger in nodes {
        ledger.close().await;
    }
    let client = server.client("postgres").await;
    let there = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'");
    let until = Instant::now() + PATIENCE;
    while client.query_one(&there, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        assert!(Instant::now() < until, "connections stay open");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let deadlocks = format!("SELECT deadlocks FROM pg_stat_database WHERE datname = '{name}'");
    assert_eq!(client.query_one(&deadlocks, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_many_write_in_and_delete_from_stays_whole() {
    let (server, name) = database().await;
    let nodes = [open_at(server, &name).await, open_at(server, &name).await];
    users(&*nodes[0], &["ann"]).await;
    publish(&*nodes[0], 1, "ann").await;
    let comment = |number: u64, parent: u64| Comment {
        id: CommentId(number),
        post: PostId(1),
        parent: (parent > 0).then_some(CommentId(parent)),
        author: Some(id("ann")),
        text: Some(String::new()),
        mentions: Vec::new(),
        created_at: CommentId(number).time(),
        likes: 0,
        replies: 0,
    };
    for number in 1..=5 {
        nodes[0].create_comment(&comment(number, number - 1)).await.unwrap();
    }
    // Everywhere in a line of replies: more replies, and deletions of what is replied to.
    let mut tasks = Vec::new();
    for round in 0..12_u64 {
        for number in 1..=5_u64 {
            let (writer, eraser) =
                (Arc::clone(&nodes[(round % 2) as usize]), Arc::clone(&nodes[(number % 2) as usize]));
            let reply = comment(round * 10 + number + 10, number);
            tasks.push(tokio::spawn(async move {
                writer.create_comment(&reply).await.unwrap();
                eraser.delete_comment(reply.id).await.unwrap();
            }));
            let eraser = Arc::clone(&nodes[((round + number) % 2) as usize]);
            tasks.push(tokio::spawn(async move {
                if round % 4 == 3 {
                    eraser.delete_comment(CommentId(number)).await.unwrap();
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    let client = server.client(&name).await;
    let wrong = "SELECT (SELECT comments FROM post_counts WHERE post = 1) <> (SELECT count(*) FROM comments WHERE author IS NOT NULL) \
                     OR EXISTS (SELECT FROM comments c WHERE replies <> (SELECT count(*) FROM comments r WHERE r.parent = c.id)) \
                     OR EXISTS (SELECT FROM comments c WHERE parent > 0 AND NOT EXISTS (SELECT FROM comments p WHERE p.id = c.parent)) \
                     OR EXISTS (SELECT FROM comments c WHERE author IS NULL AND replies = 0) \
                     OR (SELECT count(*) FROM comments) <> (SELECT count(*) FROM comment_posts)";
    assert!(!client.query_one(wrong, &[]).await.unwrap().get::<_, bool>(0));
    assert_eq!(nodes[0].counts(&[PostId(1)]).await.unwrap()[0].1.comments, 0, "all were deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_at_two_nodes_at_once_is_one_group() {
    let (server, name) = database().await;
    let nodes = [open_at(server, &name).await, open_at(server, &name).await];
    users(&*nodes[0], &["ann"]).await;
    let notes = (1..=40_u64).map(|n| {
        let (node, by) = (Arc::clone(&nodes[(n % 2) as usize]), id(&format!("fan{}", n % 30)));
        tokio::spawn(async move {
            let happening = Happening { id: NotificationId(n), what: What::Follow, by };
            node.notify(&id("ann"), &[happening], NOW, 60_000).await.unwrap()
        })
    });
    let told = join_all(notes).await.into_iter().filter(|groups| !groups.as_ref().unwrap().is_empty()).count();
    assert_eq!(told, 30, "somebody who is in it is not told again");
    let groups = nodes[0].notifications(&id("ann"), None, 99).await.unwrap();
    assert_eq!((groups.len(), groups[0].count, groups[0].seq), (1, 30, 30));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_ended_at_many_places_ends_once() {
    let (server, name) = database().await;
    let nodes = [open_at(server, &name).await, open_at(server, &name).await];
    users(&*nodes[0], &["ann", "bo"]).await;
    let (ann, bo) = (id("ann"), id("bo"));
    for _ in 0..20 {
        let made = join_all((0..8).map(|n| follow(&*nodes[n % 2], &ann, &bo))).await;
        assert_eq!(made.iter().filter(|made| **made).count(), 1);
        let ended = join_all((0..8).map(|n| unfollow(&*nodes[n % 2], &ann, &bo))).await;
        assert_eq!(ended.iter().filter(|ended| **ended).count(), 1);
    }
    let posted = join_all((0..8).map(|n| store(&*nodes[n % 2], post(7, "ann", &["t"])))).await;
    assert_eq!(posted.iter().filter(|posted| posted.is_ok()).count(), 1);
    let nothing = lease("w1", LEASE);
    let deleted = join_all((0..8).map(|n| nodes[n % 2].delete_post(PostId(7), &ann, NOW, &nothing))).await;
    assert_eq!(deleted.iter().filter(|deleted| matches!(deleted, Ok(Some(_)))).count(), 1);
    let ann = nodes[0].profile(&ann, None).await.unwrap().unwrap();
    assert_eq!((ann.following, ann.posts), (0, 0));
    assert_eq!(nodes[0].backlog().await.unwrap().jobs, 20 * 2 + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_sees_a_number_sees_every_lower_one_of_the_same_user() {
    let (server, name) = database().await;
    let nodes = [open_at(server, &name).await, open_at(server, &name).await];
    users(&*nodes[0], &["star"]).await;
    let fans: Vec<String> = (0..60).map(|n| format!("fan{n}")).collect();
    users(&*nodes[0], &fans.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let over = Arc::new(AtomicBool::new(false));
    let looks = ["SELECT id FROM jobs WHERE author = 'star'", "SELECT seq FROM followers WHERE followee = 'star'"];
    let mut watchers = Vec::new();
    for sql in looks {
        let (client, over) = (server.client(&name).await, Arc::clone(&over));
        watchers.push(tokio::spawn(async move {
            let (mut seen, mut highest) = (std::collections::HashSet::new(), 0);
            while !over.load(Ordering::Relaxed) {
                let now: Vec<i64> = client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
                let new: Vec<i64> = now.into_iter().filter(|id| seen.insert(*id)).collect();
                assert!(new.iter().all(|id| *id > highest), "{new:?} after {highest}: {sql}");
                highest = new.into_iter().max().unwrap_or(highest);
            }
            assert!(!seen.is_empty());
        }));
    }
    let star = id("star");
    for round in 0..5_u64 {
        join_all(fans.iter().zip(0_u64..).map(async |(fan, n)| {
            let ledger = &*nodes[usize::from(n % 2 == 0)];
            follow(ledger, &id(fan), &star).await;
            publish(ledger, round * 1_000 + n + 1, "star").await;
            if round < 4 {
                unfollow(ledger, &id(fan), &star).await;
            }
        }))
        .await;
    }
    over.store(true, Ordering::Relaxed);
    for watcher in watchers {
        watcher.await.unwrap();
    }
}

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
    assert!(ledger.followed_among(&id("bo"), &[id("ann")]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_deletion_that_waited_takes_the_edited_post_away() {
    let (server, name) = database().await;
    let ledger = open_at(server, &name).await;
    users(&*ledger, &["ann"]).await;
    store(&*ledger, post(1, "ann", &["old"])).await.unwrap();
    let edit = "UPDATE posts SET topics = '{new}'; UPDATE post_topics SET topic = 'new'";
    let asking = Arc::clone(&ledger);
    let call = async move { crate::support::delete(&*asking, 1, "ann").await.expect("a job") };
    let job = meanwhile((server, &name), ("ann", edit), call).await;
    assert!(matches!(&job.work, Work::Delete { topics, .. } if *topics == ["new"]), "{job:?}");
    for topic in ["old", "new"] {
        assert!(ledger.topic_posts(topic, PostId::MAX, 9).await.unwrap().is_empty(), "{topic}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_workers_claim_each_job_once() {
    let (server, name) = database().await;
    let nodes = [open_at(server, &name).await, open_at(server, &name).await];
    users(&*nodes[0], &["ann"]).await;
    join_all((1..=200).map(|number| publish(&*nodes[0], number, "ann"))).await;
    let claims = (0..20).map(|n| {
        let ledger = Arc::clone(&nodes[n % 2]);
        tokio::spawn(
            async move { ledger.claim_jobs(LEASE, &lease(&format!("w{n}"), LEASE + 30_000), 17).await.unwrap() },
        )
    });
    let claimed: Vec<i64> =
        join_all(claims).await.into_iter().flat_map(|jobs| jobs.unwrap().into_iter().map(|job| job.id)).collect();
    let once: std::collections::BTreeSet<_> = claimed.iter().collect();
    assert_eq!((claimed.len(), once.len()), (200, 200));
}

#[tokio::test]
async fn a_lock_held_for_long_is_an_error_and_passes() {
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
    // A statement that takes too long is ended by the server, which says so.
    other.batch_execute("BEGIN; LOCK TABLE users").await.unwrap();
    assert!(ledger.users(&[id("ann")]).await.is_err());
    other.batch_execute("ROLLBACK").await.unwrap();
    let left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'feedline' AND state = 'active'";
    assert_eq!(other.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
    ledger.close().await;
}

#[tokio::test]
async fn the_bulk_loaders_keep_the_counts_and_may_be_repeated() {
    let ledger = postgres().await;
    let fans: Vec<UserId> = (0..5_000).map(|n| id(&format!("fan-{n}"))).collect();
    let edges: Vec<_> = fans.iter().map(|fan| (fan.clone(), id("star"))).collect();
    for _ in 0..2 {
        ledger.bulk_users(&ids(&["star"]), NOW).await.unwrap();
        ledger.bulk_users(&fans, NOW).await.unwrap();
        ledger.bulk_follows(&edges, NOW).await.unwrap();
    }
    assert_eq!(ledger.profile(&id("star"), None).await.unwrap().unwrap().followers, 5_000);
    assert_eq!(ledger.following_count(&fans[7]).await.unwrap(), 1);
    assert_eq!(ledger.followers_after(&id("star"), "", 9_999).await.unwrap().len(), 5_000);
    assert_eq!(ledger.followers(&id("star"), None, 9_999).await.unwrap().items.len(), 5_000);
}

#[tokio::test]
async fn what_people_write_may_hold_any_character() {
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
async fn a_server_that_is_gone_is_said_at_once_and_outlived() {
    let mut server = PostgresServer::start();
    // What was answered is there after the crash.
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
async fn a_read_whose_connection_breaks_is_asked_again_and_a_write_is_not() {
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
            if writes { asking.ensure_user(&id("bo"), NOW).await } else { asking.users(&ids(&["ann"])).await.map(drop) }
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
async fn a_server_that_hangs_is_said_and_outlived() {
    let server = PostgresServer::start();
    let timeout = Duration::from_secs(1);
    let options = PostgresOptions { timeout, connections: 4, ..postgres_options(&server, "postgres") };
    let ledger = PostgresLedger::open(options).await.unwrap();
    users(&ledger, &["ann"]).await;
    // All connections stand: one that is being made would be found out later.
    let client = server.client("postgres").await;
    let there =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'feedline' AND query LIKE '%jit = off%'";
    let until = Instant::now() + PATIENCE;
    while client.query_one(there, &[]).await.unwrap().get::<_, i64>(0) < 3 {
        assert!(Instant::now() < until, "the other connections are not made");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.pause();
    let refused = store(&ledger, post(1, "ann", &[])).await;
    assert!(matches!(refused, Err(LedgerError::Unreachable(_))), "{refused:?}");
    // Nobody else waits to find that out.
    let asked = Instant::now();
    for _ in 0..20 {
        assert!(matches!(ledger.users(&[id("ann")]).await, Err(LedgerError::Unreachable(_))));
    }
    // All of them together wait less than two would.
    assert!(asked.elapsed() < 2 * timeout, "took {:?}", asked.elapsed());
    server.resume();
    answers(&ledger).await;
    publish(&ledger, 2, "ann").await;
    ledger.close().await;
}

#[tokio::test]
async fn an_encrypted_connection_checks_whom_it_talks_to() {
    let certificates = Certificates::make();
    let server = PostgresServer::start();
    certificates.install(&server).await;
    let open = async |host: &str, roots: &str| {
        let roots = certificates.folder.path().join(roots);
        let url = server.url("postgres").replace("127.0.0.1", host);
        let url = format!("{url}?sslmode=verify-full&sslrootcert={}", roots.display());
        PostgresLedger::open(PostgresOptions::new(PostgresUrl::parse(&url).unwrap())).await
    };
    let ledger = open("localhost", "server.crt").await.unwrap();
    assert!(ledger.name().ends_with("over TLS"), "{}", ledger.name());
    ledger.ping().await.unwrap();
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE ssl AND application_name = 'feedline'";
    let client = server.client("postgres").await;
    assert!(client.query_one(encrypted, &[]).await.unwrap().get::<_, i64>(0) > 0);
    ledger.close().await;
    // The right authority and another host; the right host and another authority.
    for (host, roots) in [("127.0.0.1", "server.crt"), ("localhost", "other.crt")] {
        let Err(refused) = open(host, roots).await else { panic!("it trusts {host} with {roots}") };
        assert!(refused.to_string().contains("certificate"), "{refused}");
    }
}

/// Certificates that vouch for themselves: one for `localhost`, and another.
struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["server", "other"] {
            let made = std::process::Command::new("openssl")
                .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
                .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
                .args(["-addext", "basicConstraints=critical,CA:FALSE"])
                .args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.crt")])
                .current_dir(folder.path())
                .output()
                .expect("openssl is installed");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
        Self { folder }
    }

    /// Has a running server use the first. It writes the files itself: they must be its user's.
    async fn install(&self, server: &PostgresServer) {
        let read = |name| std::fs::read_to_string(self.folder.path().join(name)).unwrap();
        let write = |name: &str, text: String| {
            let text = text.trim().replace('\n', "\\n");
            let file = server.data().join(name);
            let put = format!("umask 077; cat >/dev/null; printf -- \"{text}\\n\" > {}", file.display());
            format!("COPY (SELECT 1) TO PROGRAM $program${put}$program$")
        };
        server.ask("postgres", &write("server.crt", read("server.crt"))).await;
        server.ask("postgres", &write("server.key", read("server.key"))).await;
        server.ask("postgres", "ALTER SYSTEM SET ssl = on").await;
        server.ask("postgres", "SELECT pg_reload_conf()").await;
        let client = server.client("postgres").await;
        let until = Instant::now() + PATIENCE;
        while client.query_one("SELECT current_setting('ssl')", &[]).await.unwrap().get::<_, &str>(0) != "on" {
            assert!(Instant::now() < until, "the server does not take its certificate");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

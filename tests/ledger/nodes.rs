//! Several nodes on one PostgreSQL: concurrent operations lose nothing, count nothing twice and skip nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use feedline::ledger::{
    CommentOutcome, CommentStore, CountStore, FavouriteStore, Fence, FollowStore, Ledger, LikeBatch, LikeStore,
    NotificationEvent, NotificationStore, PeopleStore, PostStore, PostgresLedger, PullLogStore, WorkStore,
};
use feedline::model::{
    Comment, CommentId, ContentId, Entry, LikeChange, NotificationKind, ObjectId, ObjectType, PostId, UserId,
};
use futures::future::join_all;

use crate::postgres_server::PostgresServer;
use crate::support::{
    NOW, PATIENCE, backlog, database, edit, follow, id, names, open_at, post, publish, store, unfollow, users,
    work_lease,
};

/// Checks that no deadlock occurred: the ledger retries after a deadlock, so no other check would fail. Closes the
/// ledgers first, so that the server's statistics are complete.
async fn nobody_was_in_the_way(server: &PostgresServer, name: &str, nodes: &[Arc<PostgresLedger>]) {
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
async fn concurrent_follows_at_two_nodes_are_counted() {
    let (server, name) = database().await;
    let nodes = [open_at(server, &name).await, open_at(server, &name).await];
    let people: Vec<UserId> = (0..6).map(|n| id(&format!("u{n}"))).collect();
    users(&*nodes[0], &names(&people)).await;
    // All users follow or unfollow each other, in both directions at once: opposite orders of the same two rows.
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
        let profile = ledger.profile(one, None, 0).await.unwrap().unwrap();
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
    nobody_was_in_the_way(server, &name, &nodes).await;
}

fn comment(number: u64, post: u64, parent: u64) -> Comment {
    Comment { post: PostId(post), ..crate::support::comment(number, "ann", (parent > 0).then_some(parent)) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_comments_and_deletions_keep_threads_consistent() {
    let (server, name) = database().await;
    let nodes = [open_at(server, &name).await, open_at(server, &name).await];
    users(&*nodes[0], &["ann"]).await;
    publish(&*nodes[0], 1, "ann").await;
    for number in 1..=5 {
        nodes[0].create_comment(&comment(number, 1, number - 1)).await.unwrap();
    }
    // At every level of a chain of replies: new replies, and deletions of the comments that they reply to.
    let mut tasks = Vec::new();
    for round in 0..12_u64 {
        for number in 1..=5_u64 {
            let (writer, eraser) =
                (Arc::clone(&nodes[(round % 2) as usize]), Arc::clone(&nodes[(number % 2) as usize]));
            let reply = comment(round * 10 + number + 10, 1, number);
            tasks.push(tokio::spawn(async move {
                writer.create_comment(&reply).await.unwrap();
                eraser.delete_comment(reply.id, None, 0).await.unwrap();
            }));
            let eraser = Arc::clone(&nodes[((round + number) % 2) as usize]);
            tasks.push(tokio::spawn(async move {
                if round % 4 == 3 {
                    eraser.delete_comment(CommentId(number), None, 0).await.unwrap();
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    let client = server.client(&name).await;
    let wrong = "SELECT (SELECT comments FROM post_counts WHERE post = 1) \
                         <> (SELECT count(*) FROM comments WHERE author IS NOT NULL) \
                     OR EXISTS (SELECT FROM comments c \
                         WHERE replies <> (SELECT count(*) FROM comments r WHERE r.parent = c.id)) \
                     OR EXISTS (SELECT FROM comments c WHERE parent > 0 \
                         AND NOT EXISTS (SELECT FROM comments p WHERE p.id = c.parent)) \
                     OR EXISTS (SELECT FROM comments c WHERE author IS NULL AND replies = 0) \
                     OR (SELECT count(*) FROM comments) <> (SELECT count(*) FROM comment_posts)";
    assert!(!client.query_one(wrong, &[]).await.unwrap().get::<_, bool>(0));
    assert_eq!(nodes[0].counts(&[PostId(1)]).await.unwrap()[0].1.comments, 0, "all were deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_changes_of_posts_at_two_nodes_are_counted() {
    let (server, name) = database().await;
    let nodes = [open_at(server, &name).await, open_at(server, &name).await];
    users(&*nodes[0], &["ann"]).await;
    for number in 1..=8 {
        store(&*nodes[0], post(number, "ann", &["a", "b"])).await.unwrap();
        nodes[0].create_comment(&comment(number, number, 0)).await.unwrap();
    }
    let mut tasks = Vec::new();
    for partition in 0..4_u16 {
        let ledger = Arc::clone(&nodes[usize::from(partition) % 2]);
        tasks.push(tokio::spawn(async move {
            for round in 0..10_u64 {
                // Many new users at once, and posts and comments in a different order each time.
                let change = |n: u64| {
                    let number = 1 + (n * (2 * u64::from(partition) + 1) + round) % 8;
                    let object = if n.is_multiple_of(2) {
                        ContentId::Post(PostId(number))
                    } else {
                        ContentId::Comment(CommentId(number))
                    };
                    // The partitions create the same users, but share no pair of user and object.
                    let user =
                        id(&format!("u{}", (n * 7 + round) % 40 + 100 * u64::from(n % 4 == u64::from(partition))));
                    LikeChange { user, object, liked: !(n + round).is_multiple_of(3), at: NOW }
                };
                let mut changes: Vec<LikeChange> = Vec::new();
                for change in (0..60).map(change) {
                    if !changes.iter().any(|other| (&other.user, other.object) == (&change.user, change.object)) {
                        changes.push(change);
                    }
                }
                let (from, to) = (if round == 0 { String::new() } else { round.to_string() }, (round + 1).to_string());
                let batch = LikeBatch { partition, from, to, changes, noted: 500, now: NOW, ..LikeBatch::default() };
                ledger.settle_likes(batch).await.unwrap().expect("it stands there");
            }
        }));
    }
    for round in 0..20_u64 {
        let ledger = Arc::clone(&nodes[(round % 2) as usize]);
        tasks.push(tokio::spawn(async move {
            let on = 1 + round % 7;
            let reply = comment(100 + round, on, 0);
            ledger.create_comment(&reply).await.unwrap();
            let posts = ObjectType::parse("post").unwrap();
            for number in [8, on, 3] {
                let (ann, object) = (id("ann"), ObjectId::from(PostId(number)));
                ledger.add_favourite(&ann, &posts, &object, NOW, 99, false).await.unwrap();
                ledger.remove_favourite(&ann, &posts, &object).await.unwrap();
                ledger.add_favourite(&ann, &posts, &object, NOW, 99, false).await.unwrap();
            }
            if round % 3 > 0 {
                ledger.delete_comment(reply.id, None, 0).await.unwrap().expect("it is there");
            }
            let topics: &[&str] = if round % 2 == 0 { &["b", "c"] } else { &["c", "a"] };
            let edited = post(on, "ann", topics);
            assert!(!edit(&*ledger, &edited).await.is_empty());
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let client = server.client(&name).await;
    let wrong = "SELECT count(*) FROM post_counts c \
                     WHERE likes <> (SELECT count(*) FROM likes l WHERE l.post = c.post) \
                     OR comments <> (SELECT count(*) FROM comments o WHERE o.post = c.post AND author IS NOT NULL) \
                     OR favourites <> (SELECT count(*) FROM favourites f WHERE f.object = c.post::text) \
                     OR favourites <> (SELECT count(*) FROM favourite_holders f WHERE f.object = c.post::text) \
                     OR favourites \
                         <> coalesce((SELECT count FROM favourites_of_objects f WHERE f.object = c.post::text), 0)";
    assert_eq!(client.query_one(wrong, &[]).await.unwrap().get::<_, i64>(0), 0);
    let wrong = "SELECT (SELECT count(*) FROM comments c \
                         WHERE likes <> (SELECT count(*) FROM comment_likes l WHERE l.comment = c.id)) \
                     + (SELECT count(*) FROM topics t \
                         WHERE posts <> (SELECT count(*) FROM post_topics p WHERE p.topic = t.name) \
                           OR last <> (SELECT max(post) FROM post_topics p WHERE p.topic = t.name)) \
                     + (SELECT count(*) FROM favourites_of_users u \
                         WHERE count <> (SELECT count(*) FROM favourites f WHERE f.owner = u.owner))";
    assert_eq!(client.query_one(wrong, &[]).await.unwrap().get::<_, i64>(0), 0);
    drop(client);
    nobody_was_in_the_way(server, &name, &nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_events_at_two_nodes_form_one_group() {
    let (server, name) = database().await;
    let nodes = [open_at(server, &name).await, open_at(server, &name).await];
    users(&*nodes[0], &["ann"]).await;
    let notes = (1..=40_u64).map(|n| {
        let (node, by) = (Arc::clone(&nodes[(n % 2) as usize]), id(&format!("fan{}", n % 30)));
        tokio::spawn(async move {
            let happening =
                NotificationEvent { kind: NotificationKind::Follow, by, event: 0, comment: None, content: None };
            node.notify(&id("ann"), &[happening], NOW, 60_000).await.unwrap()
        })
    });
    let received = join_all(notes).await.into_iter().filter(|groups| !groups.as_ref().unwrap().is_empty()).count();
    assert_eq!(received, 30, "a user in the group is not notified again");
    let groups = nodes[0].notifications(&id("ann"), None, 99).await.unwrap();
    assert_eq!((groups.len(), groups[0].count, groups[0].seq), (1, 30, 30));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_equal_calls_execute_once() {
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
    let wanted = post(7, "ann", &["t"]);
    let posted = join_all((0..8).map(|n| nodes[n % 2].create_post(&wanted, None))).await;
    assert_eq!(posted.iter().filter(|posted| matches!(posted, Ok(Some(_)))).count(), 1);
    assert!(posted.iter().all(Result::is_ok), "the others hear that it was made before: {posted:?}");
    let said = comment(70, 7, 0);
    let commented = join_all((0..8).map(|n| nodes[n % 2].create_comment(&said))).await;
    assert_eq!(commented.iter().filter(|made| matches!(made, Ok(CommentOutcome::Stored(_)))).count(), 1);
    assert_eq!(commented.iter().filter(|made| matches!(made, Ok(CommentOutcome::Before))).count(), 7);
    let deleted = join_all((0..8).map(|n| nodes[n % 2].delete_post(PostId(7), &ann, NOW))).await;
    assert_eq!(deleted.iter().filter(|deleted| matches!(deleted, Ok(Some(_)))).count(), 1);
    let ann = nodes[0].profile(&ann, None, 0).await.unwrap().unwrap();
    assert_eq!((ann.following, ann.posts), (0, 0));
    assert_eq!(backlog(&*nodes[0]).await.jobs, 20 * 2 + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_of_a_list_become_visible_in_order() {
    let (server, name) = database().await;
    let nodes = [open_at(server, &name).await, open_at(server, &name).await];
    users(&*nodes[0], &["star"]).await;
    let fans: Vec<String> = (0..60).map(|n| format!("fan{n}")).collect();
    users(&*nodes[0], &fans.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let over = Arc::new(AtomicBool::new(false));
    let looks = [
        "SELECT id FROM jobs WHERE author = 'star'",
        "SELECT seq FROM followers WHERE followee = 'star'",
        "SELECT mark FROM pulled",
    ];
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
            let job = publish(ledger, round * 1_000 + n + 1, "star").await;
            ledger.pull(job.id, &star, &Entry::Post(PostId(n)), false, NOW).await.unwrap();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_processes_take_each_partition_once() {
    let (server, name) = database().await;
    let nodes = [open_at(server, &name).await, open_at(server, &name).await];
    let partitions: Vec<Fence> =
        (0..200).map(|n| Fence { partition: format!("work/{n}").into(), generation: 0 }).collect();
    let takes = (0..20).map(|n| {
        let (ledger, mut wanted) = (Arc::clone(&nodes[n % 2]), partitions.clone());
        // In different orders.
        wanted.rotate_left(n * 10);
        tokio::spawn(async move {
            let holder = format!("w{n}");
            ledger.renew_work_lease(&work_lease(&holder, 30_000)).await.unwrap();
            ledger.take_partitions(&holder, &wanted).await.unwrap()
        })
    });
    let taken: Vec<Fence> = join_all(takes).await.into_iter().flat_map(Result::unwrap).collect();
    let once: std::collections::BTreeSet<_> = taken.iter().map(|fence| fence.partition.clone()).collect();
    assert_eq!((taken.len(), once.len()), (200, 200));
    assert!(taken.iter().all(|fence| fence.generation == 1));
}

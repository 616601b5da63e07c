//! The ledger's server crashes repeatedly while users like and write. Acknowledged writes are stored once, and the
//! counts match the rows.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;

use crate::api::everything;
use crate::cluster::{attempt, done, post, until};
use crate::likers::{Backend, Book, Field, RECOVERY};
use crate::likes::{Acknowledged, load, more};
use crate::random::SeededRandom;
use crate::reader::Reader;

/// The number of writing users, half of them at each node.
const WRITERS: usize = 4;

fn writer(n: usize) -> String {
    format!("writer{n}")
}

/// Writes posts one after the other until `over` is set. Returns the ids of the acknowledged posts and the number of
/// attempts. The text of each post is its number.
async fn write(field: &Field, n: usize, over: &AtomicBool, acknowledged: &AtomicU64) -> (Vec<u64>, usize) {
    let (node, mut ids, mut tried) = (&field.nodes[n % 2], Vec::new(), 0);
    while !over.load(Ordering::Relaxed) {
        let (status, body) = attempt(node, &writer(n), "POST", "/posts", &json!({ "text": tried.to_string() })).await;
        tried += 1;
        match status {
            201 => {
                ids.push(body["id"].as_u64().expect("an id"));
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            _ => assert_eq!((status, &body["error"]["code"]), (503, &json!("unavailable")), "{body}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (ids, tried)
}

/// Selects every counter that differs from its rows.
const WRONG: &str = "\
    SELECT 'likes of ' || post FROM post_counts c WHERE likes <> (SELECT count(*) FROM likes l WHERE l.post = c.post)
    UNION ALL SELECT 'posts of ' || id FROM users u
        WHERE posts <> (SELECT count(*) FROM author_posts a WHERE a.author = u.id)
    UNION ALL SELECT 'followers of ' || id FROM users u
        WHERE followers <> (SELECT count(*) FROM followers f WHERE f.followee = u.id)
    UNION ALL SELECT 'followees of ' || id FROM users u
        WHERE following <> (SELECT count(*) FROM follows f WHERE f.follower = u.id)
    UNION ALL SELECT 'the list of post ' || id FROM posts p
        WHERE NOT EXISTS (SELECT FROM author_posts a WHERE a.author = p.author AND a.post = p.id)";

#[tokio::test]
async fn acknowledged_writes_survive_a_killed_ledger() {
    let seed = SeededRandom::seed();
    let mut random = SeededRandom::new(seed);
    let mut field = Field::postgres(2, &[("fanout.lease", "1s"), ("client.recovery_limit", "5000")]).await;
    for n in 0..WRITERS {
        done(&field.nodes[0], &writer(n), "GET", &format!("/users/{}", writer(n))).await;
        done(&field.nodes[1], "bo", "PUT", &format!("/users/{}/follow", writer(n))).await;
    }
    // Connects to another node than half of the writers.
    let bo = Reader::new("bo");
    bo.go(Some(field.nodes[1].port()));
    bo.sees(&BTreeSet::new(), RECOVERY).await.expect("an empty timeline");
    let mut posts = Vec::new();
    for n in 0..5 {
        posts.push(post(&field.nodes[0], "ann", &format!("post {n}")).await);
    }

    let (book, over) = (Book::default(), Arc::new(AtomicBool::new(false)));
    let (people, liked) = load(&field, &posts, &book, &over, seed);
    let posted = Acknowledged::default();
    let mut server = field.postgres.take().expect("a server");
    let kills = async {
        for _ in 0..SeededRandom::rounds(2) {
            more(&liked, 50).await;
            more(&posted, 10).await;
            tokio::time::sleep(Duration::from_micros(random.below(150_000) as u64)).await;
            let so_far = [&liked, &posted].map(|counter| counter.load(Ordering::Relaxed));
            eprintln!("seed {seed}: killed after {so_far:?} likes and posts");
            server.kill();
            // Likes are acknowledged without the ledger: they wait in the queue.
            more(&liked, 20).await;
            server.start_again();
            field.answers().await;
        }
        more(&posted, 10).await;
        over.store(true, Ordering::Relaxed);
    };
    let (written, ()) = tokio::join!(join_all((0..WRITERS).map(|n| write(&field, n, &over, &posted))), kills);
    join_all(people).await;
    field.settled_as(&book).await;
    // All writes have completed or failed by now, including those without a response.
    let backend = Backend::new();
    for (user, post) in book.uncertain() {
        let liked = random.below(2) > 0;
        let answer = backend.like(field.nodes[0].port(), &user, post, liked).await.expect("an answer");
        assert_eq!(answer.0, 200, "{answer:?}");
        book.acknowledged(&user, post, liked);
    }
    field.settled_as(&book).await;

    let client = server.client("postgres").await;
    until("everything is carried", async || {
        client.query_one("SELECT count(*) FROM jobs", &[]).await.expect("a count").get::<_, i64>(0) == 0
    })
    .await;
    let mut all = BTreeSet::new();
    for (n, (ids, tried)) in written.iter().enumerate() {
        let posts = everything(&field.nodes[0], &writer(n), &format!("/users/{}/posts?limit=100", writer(n))).await;
        let texts: HashSet<&str> = posts.iter().filter_map(|post| post["text"].as_str()).collect();
        let stored: BTreeSet<u64> = posts.iter().filter_map(|post| post["id"].as_u64()).collect();
        assert_eq!((texts.len(), stored.len()), (posts.len(), posts.len()), "seed {seed}: one is there twice");
        let lost: Vec<_> = ids.iter().filter(|id| !stored.contains(id)).collect();
        assert!(lost.is_empty(), "seed {seed}: {} of {}: {lost:?} were acknowledged", writer(n), ids.len());
        assert!(stored.len() <= *tried, "seed {seed}: {} of {tried} that were tried", stored.len());
        all.extend(stored);
    }
    bo.sees(&all, RECOVERY).await.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    assert_eq!(bo.look(|view| std::mem::take(&mut view.wrong)), [""; 0], "seed {seed}");
    let wrong = client.query(WRONG, &[]).await.expect("an answer");
    let wrong: Vec<&str> = wrong.iter().map(|row| row.get(0)).collect();
    assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
}

#[tokio::test]
async fn likes_of_new_users_are_acknowledged_without_the_ledger() {
    let mut field = Field::postgres(1, &[]).await;
    let post = post(&field.nodes[0], "ann", "hello").await;
    let (backend, port) = (Backend::new(), field.nodes[0].port());
    let new = |n: usize| format!("new-{n}");
    for n in 0..8 {
        assert_eq!(backend.like(port, &new(n), post, true).await.expect("an answer").0, 200);
    }
    let mut server = field.postgres.take().expect("a server");
    server.kill();
    for n in 0..8 {
        let answer = backend.like(port, &new(n), post, n % 2 == 0).await.expect("an answer");
        assert_eq!(answer.0, 200, "{answer:?}");
    }
    server.start_again();
    field.answers().await;
    until("the likes are settled", async || {
        // Not every connection has been re-established yet.
        let (_, body) = attempt(&field.nodes[0], "ann", "GET", &format!("/posts/{post}"), &json!({})).await;
        body["likes"] == 4
    })
    .await;
}

/// A node that looked up a user before the sign-up does not accept the application's credentials for the new account.
#[tokio::test]
async fn accounts_are_not_taken_for_new_users_without_the_ledger() {
    let mut field = Field::postgres(2, &[]).await;
    let post = post(&field.nodes[0], "ann", "hello").await;
    let (backend, port) = (Backend::new(), field.nodes[1].port());
    // The post does not exist, so nothing is queued and the user is not recorded.
    assert_eq!(backend.like(port, "eve", post + 1, true).await.expect("an answer").0, 404);
    let account = json!({ "user": "eve", "password": "correct horse battery" });
    let (status, body) = attempt(&field.nodes[0], "ann", "POST", "/accounts", &account).await;
    assert_eq!(status, 201, "{body}");
    let mut server = field.postgres.take().expect("a server");
    server.kill();
    assert_ne!(backend.like(port, "eve", post, true).await.expect("an answer").0, 200);
    server.start_again();
}

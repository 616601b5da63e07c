//! An acknowledged like is stored in the ledger exactly once, regardless of crashes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};

use crate::client::{Client, Heard};
use crate::cluster::{pause_without_lock, post, resume, until};
use crate::likers::{Backend, Book, Field, RECOVERY};
use crate::random::SeededRandom;
use crate::redis_server::RedisServer;

/// The number of users who like at the same time.
const PEOPLE: usize = 30;

/// The number of acknowledged likes of a load.
pub(crate) type Acknowledged = Arc<AtomicU64>;

/// Each user likes and unlikes random posts, one request at a time, until `over` is set.
pub(crate) fn load(
    field: &Field,
    posts: &[u64],
    book: &Book,
    over: &Arc<AtomicBool>,
    seed: u64,
) -> (Vec<tokio::task::JoinHandle<()>>, Acknowledged) {
    let acknowledged = Acknowledged::default();
    let person = |n: usize| {
        let (backend, book, over, acknowledged) =
            (Backend::new(), book.clone(), Arc::clone(over), Arc::clone(&acknowledged));
        let (posts, ports, mut random) = (posts.to_vec(), field.ports(), SeededRandom::new(seed ^ n as u64));
        tokio::spawn(async move {
            let user = format!("u{n}");
            while !over.load(Ordering::Relaxed) {
                let (port, post, liked) = (*random.pick(&ports), *random.pick(&posts), random.below(3) > 0);
                if backend.note(&book, port, &user, post, liked).await {
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                } else {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        })
    };
    ((0..PEOPLE).map(person).collect(), acknowledged)
}

/// Waits until `many` more likes are acknowledged: the killed servers are back, and the load continues.
pub(crate) async fn more(acknowledged: &Acknowledged, many: u64) {
    let goal = acknowledged.load(Ordering::Relaxed) + many;
    let begun = Instant::now();
    while acknowledged.load(Ordering::Relaxed) < goal {
        assert!(begun.elapsed() < RECOVERY, "nothing is acknowledged any more");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Many posts, so that a user rarely likes a post twice: a second like would hide the loss of the first.
const POSTS: usize = 200;

/// The servers that are killed at the same time.
#[derive(Clone, Copy, Debug)]
struct Killed {
    nodes: &'static [usize],
    redis: bool,
    /// Whether the ledger's server is killed, if it has one.
    ledger: bool,
}

async fn assert_nothing_lost_or_repeated(mut field: Field, kills: &[Killed]) {
    let seed = SeededRandom::seed();
    let mut random = SeededRandom::new(seed);
    let mut posts = Vec::new();
    for n in 0..POSTS {
        posts.push(post(&field.nodes[0], "ann", &format!("post {n}")).await);
    }
    let (book, over) = (Book::default(), Arc::new(AtomicBool::new(false)));
    let (people, acknowledged) = load(&field, &posts, &book, &over, seed);
    for _ in 0..SeededRandom::rounds(1) {
        for kill in kills {
            more(&acknowledged, 50).await;
            tokio::time::sleep(Duration::from_micros(random.below(150_000) as u64)).await;
            eprintln!("seed {seed}: {kill:?} after {} likes", acknowledged.load(Ordering::Relaxed));
            kill.nodes.iter().for_each(|node| field.nodes[*node].kill());
            let mut redis = field.redis.as_mut().filter(|_| kill.redis);
            if let Some(redis) = &mut redis {
                redis.kill();
            }
            if let Some(server) = field.postgres.as_mut().filter(|_| kill.ledger) {
                server.kill();
                // The surviving servers continue for a while. The restart blocks this thread, and with it the load.
                tokio::time::sleep(Duration::from_millis(500)).await;
                server.start_again();
            }
            if let Some(redis) = redis {
                redis.start_again();
            }
            for node in kill.nodes {
                field.nodes[*node].start_again().await;
            }
        }
    }
    more(&acknowledged, 50).await;
    over.store(true, Ordering::Relaxed);
    join_all(people).await;
    assert!(book.len() > PEOPLE, "seed {seed}: there was no load");
    field.settled_as(&book).await;
    // All requests have completed or failed by now, including those without a response.
    let backend = Backend::new();
    for (user, post) in book.uncertain() {
        let liked = random.below(2) > 0;
        let answer = backend.like(field.nodes[0].port(), &user, post, liked).await.expect("an answer");
        assert_eq!(answer.0, 200, "{answer:?}");
        book.acknowledged(&user, post, liked);
    }
    field.settled_as(&book).await;
}

#[tokio::test]
async fn likes_count_exactly_once_when_nodes_and_redis_are_killed() {
    let kills = [
        Killed { nodes: &[0], redis: false, ledger: false },
        Killed { nodes: &[1], redis: false, ledger: false },
        Killed { nodes: &[], redis: true, ledger: false },
        Killed { nodes: &[0, 1], redis: true, ledger: false },
    ];
    assert_nothing_lost_or_repeated(Field::redis(2, &[]).await, &kills).await;
}

#[tokio::test]
async fn likes_count_exactly_once_when_postgres_and_others_are_killed() {
    let kills = [
        Killed { nodes: &[0], redis: false, ledger: true },
        Killed { nodes: &[], redis: true, ledger: true },
        Killed { nodes: &[0, 1], redis: true, ledger: true },
    ];
    assert_nothing_lost_or_repeated(Field::postgres(2, &[]).await, &kills).await;
}

#[tokio::test]
async fn likes_count_exactly_once_when_a_process_is_killed() {
    let kills = [Killed { nodes: &[0], redis: false, ledger: false }; 4];
    assert_nothing_lost_or_repeated(Field::embedded(&[]).await, &kills).await;
}

#[tokio::test]
async fn paused_settlers_change_nothing_after_their_lease() {
    let field = Field::redis(2, &[]).await;
    let id = post(&field.nodes[0], "ann", "like me").await;
    let (book, backend) = (Book::default(), Backend::new());
    let ports = field.ports();
    for n in 0..20 {
        backend.note_acknowledged(&book, ports[0], &format!("u{n}"), id, true).await;
    }
    // The first node owns partitions. It is paused with these likes read, or just before, but without the lock of the
    // ledger's file, which would block all writers.
    let db = field.connection();
    db.busy_timeout(Duration::from_millis(500)).expect("a timeout");
    pause_without_lock(&field.nodes[0], Some(&db)).await;
    for n in 0..20 {
        backend.note_acknowledged(&book, ports[1], &format!("u{n}"), id, n % 2 == 0).await;
    }
    field.settled_as(&book).await;
    resume(&field.nodes[0]);
    for n in 20..40 {
        backend.note_acknowledged(&book, ports[n % 2], &format!("u{n}"), id, true).await;
    }
    field.settled_as(&book).await;
}

/// A node that stops gives its partitions back at once: its lease would end after the test.
#[tokio::test]
async fn stopped_settlers_give_their_partitions_back() {
    let mut field = Field::redis(2, &[("fanout.lease", "2m")]).await;
    let mut posts = Vec::new();
    for n in 0..20 {
        posts.push(post(&field.nodes[0], "ann", &format!("post {n}")).await);
    }
    let mut owned = 0;
    for partition in 0..8 {
        owned += usize::from(field.owner(&format!("likes/{partition}")).await == Some(0));
    }
    assert!(owned > 0, "the node owns no part of the queue");
    field.nodes[0].stop().await;
    let (book, backend, port) = (Book::default(), Backend::new(), field.nodes[1].port());
    for id in posts {
        assert!(backend.note(&book, port, "bo", id, true).await);
    }
    field.settled_as(&book).await;
}

async fn the_last_acknowledged_state_wins(field: Field) {
    let seed = SeededRandom::seed();
    let mut random = SeededRandom::new(seed);
    let id = post(&field.nodes[0], "ann", "like me").await;
    let book = Book::default();
    let mut devices = Vec::new();
    for n in 0..5 {
        devices.push(Client::connect(&field.nodes[n % field.nodes.len()], "bo").await);
    }
    for round in 0..20 {
        let storm = devices.iter_mut().enumerate().map(|(n, device)| async move {
            for step in 0..6 {
                let method = if (n + step) % 2 == 0 { "likes.add" } else { "likes.remove" };
                device.rpc(method, &json!({ "post": id })).await;
            }
        });
        join_all(storm).await;
        let (last, liked) = (random.below(devices.len()), random.below(2) > 0);
        let method = if liked { "likes.add" } else { "likes.remove" };
        let answer = devices[last].rpc(method, &json!({ "post": id })).await;
        assert_eq!(answer["liked"], liked, "{answer}");
        book.acknowledged("bo", id, liked);
        // In some rounds, the next burst starts while the previous one is being settled.
        if round % 3 == 0 {
            field.settled_as(&book).await;
        }
    }
    field.settled_as(&book).await;
}

#[tokio::test]
async fn the_last_acknowledged_state_wins_on_redis() {
    the_last_acknowledged_state_wins(Field::redis(2, &[]).await).await;
}

#[tokio::test]
async fn the_last_acknowledged_state_wins_embedded() {
    the_last_acknowledged_state_wins(Field::embedded(&[]).await).await;
}

/// The number of users who like one post: `FEEDLINE_LIKERS`, or as many as an unoptimized build settles in some
/// seconds.
fn likers() -> usize {
    std::env::var("FEEDLINE_LIKERS").map_or(3_000, |many| many.parse().expect("FEEDLINE_LIKERS is a number"))
}

async fn check_viewers_get_counts(field: Field) {
    const A_SECOND: u64 = 5;
    let (id, many) = (post(&field.nodes[0], "ann", "like me").await, likers());
    let mut watcher = Client::connect(&field.nodes[0], "cy").await;
    watcher.subscribe(&format!("post:{id}")).await;
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let connection = |n: usize| {
        let (next, backend, ports) = (Arc::clone(&next), Backend::new(), field.ports());
        tokio::spawn(async move {
            loop {
                let n_th = next.fetch_add(1, Ordering::Relaxed);
                if n_th >= many {
                    return;
                }
                let answer = backend.like(ports[n % ports.len()], &format!("u{n_th}"), id, true).await;
                let (status, body) = answer.expect("an answer");
                assert!(status == 200 && body["likes"].as_u64() > Some(0), "{status} {body}");
            }
        })
    };
    let likes: Vec<_> = (0..64).map(connection).collect();
    let (mut frames, mut last, mut counted_at) = (0, (0, 0), Instant::now());
    while last.0 < many as u64 {
        let ended = likes.iter().filter(|likes| likes.is_finished()).count();
        assert!(
            counted_at.elapsed() < RECOVERY,
            "no count in {RECOVERY:?} after {last:?}; {ended} of {} connections have ended",
            likes.len()
        );
        let Some(Heard::Push(push)) = watcher.push_within(RECOVERY).await else { continue };
        let data = &push["pub"]["data"];
        if data["type"] == "counts" {
            let counts = (data["likes"].as_u64().expect("likes"), data["version"].as_u64().expect("a version"));
            assert!(counts.0 > last.0 && counts.1 > last.1, "{last:?} then {counts:?}");
            (frames, last, counted_at) = (frames + 1, counts, Instant::now());
        }
    }
    let took = begun.elapsed();
    eprintln!("{many} likes, {frames} frames in {took:?}");
    for likes in join_all(likes).await {
        likes.expect("all were acknowledged");
    }
    assert_eq!(last.0, many as u64);
    let allowed = took.as_secs() * A_SECOND + A_SECOND + 1;
    assert!(frames <= allowed, "{frames} frames in {took:?}");
}

#[tokio::test]
async fn viewers_get_counts_a_few_times_a_second_on_redis() {
    check_viewers_get_counts(Field::redis(2, &[]).await).await;
}

#[tokio::test]
async fn viewers_get_counts_a_few_times_a_second_embedded() {
    check_viewers_get_counts(Field::embedded(&[]).await).await;
}

async fn check_likes_while_the_ledger_is_unwritable(field: Field) {
    let id = post(&field.nodes[0], "ann", "like me").await;
    let (book, backend, port) = (Book::default(), Backend::new(), field.nodes[0].port());
    let db = field.connection();
    db.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    // Much longer than the ledger's timeout.
    let until = Instant::now() + Duration::from_secs(20);
    let mut n = 0;
    while Instant::now() < until {
        let asked = Instant::now();
        assert!(backend.note(&book, port, &format!("u{n}"), id, true).await, "{}", field.nodes[0].log());
        assert!(asked.elapsed() < Duration::from_secs(5), "took {:?}", asked.elapsed());
        n += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(n > 100, "{n} likes");
    let rows: i64 = db.query_row("SELECT count(*) FROM likes", [], |row| row.get(0)).expect("a count");
    assert_eq!(rows, 0);
    // The metrics report the length and the age of the queue. Opposite likes are merged before they are settled.
    let (last, node) = (format!("u{}", n - 1), &field.nodes[0]);
    for liked in [false, true, false] {
        assert!(backend.note(&book, port, &last, id, liked).await);
    }
    node.metric_is("feedline_likes_queue", f64::from(n + 3)).await;
    assert!(node.metric("feedline_likes_oldest_seconds").await > Some(1.0));
    db.execute_batch("COMMIT").expect("to let go");
    field.settled_as(&book).await;
    node.metric_is("feedline_likes_queue", 0.0).await;
    node.metric_is("feedline_likes_oldest_seconds", 0.0).await;
    // These four are in at most two batches.
    assert!(node.metric("feedline_likes_merged_total").await >= Some(2.0));
    assert!(node.metric("feedline_likes_settle_seconds_sum").await > Some(1.0));
}

#[tokio::test]
async fn likes_are_accepted_while_the_ledger_is_unwritable_on_redis() {
    check_likes_while_the_ledger_is_unwritable(Field::redis(1, &[]).await).await;
}

#[tokio::test]
async fn likes_are_accepted_while_the_ledger_is_unwritable_embedded() {
    check_likes_while_the_ledger_is_unwritable(Field::embedded(&[]).await).await;
}

async fn check_full_queues_reject_and_drop_nothing(field: Field) {
    let id = post(&field.nodes[0], "ann", "like me").await;
    let (book, backend, port) = (Book::default(), Backend::new(), field.nodes[0].port());
    let mut device = Client::connect(&field.nodes[0], "u20").await;
    let db = field.connection();
    db.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    for n in 0..15 {
        let user = format!("u{n}");
        let (status, body) = backend.like(port, &user, id, true).await.expect("an answer");
        if n < 10 {
            assert_eq!(status, 200, "{body}");
            book.acknowledged(&user, id, true);
        } else {
            assert_eq!((status, &body["error"]["code"]), (503, &json!("busy")), "{body}");
        }
    }
    let refused = field.nodes[0].call("u15", "PUT", &format!("/posts/{id}/like"), &Value::Null).await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    let answer = device.call(json!({ "rpc": { "method": "likes.add", "data": { "post": id } } })).await;
    assert_eq!((&answer["error"]["code"], &answer["error"]["temporary"]), (&json!(503), &json!(true)), "{answer}");
    db.execute_batch("COMMIT").expect("to let go");
    field.settled_as(&book).await;
    field.nodes[0].metric_is("feedline_likes_queue", 0.0).await;
    assert!(backend.note(&book, port, "u10", id, true).await);
    field.settled_as(&book).await;
}

#[tokio::test]
async fn full_queues_reject_and_drop_nothing_on_redis() {
    check_full_queues_reject_and_drop_nothing(Field::redis(1, &[("likes.queue_length", "10")]).await).await;
}

#[tokio::test]
async fn full_queues_reject_and_drop_nothing_embedded() {
    check_full_queues_reject_and_drop_nothing(Field::embedded(&[("likes.queue_length", "10")]).await).await;
}

/// After Redis loses its data, the counts are refilled and the queue starts empty.
#[tokio::test]
async fn emptied_redis_is_refilled_and_likes_continue() {
    let mut field = Field::redis(1, &[]).await;
    let id = post(&field.nodes[0], "ann", "like me").await;
    let (book, backend, port) = (Book::default(), Backend::new(), field.nodes[0].port());
    for n in 0..5 {
        assert!(backend.note(&book, port, &format!("u{n}"), id, true).await);
    }
    field.settled_as(&book).await;
    field.nodes[0].metric_is("feedline_likes_queue", 0.0).await;
    let redis: &mut RedisServer = field.redis.as_mut().expect("a redis");
    redis.kill();
    redis.forget();
    redis.start_again();
    field.nodes[0].ready().await;
    until("the first is acknowledged", async || {
        backend.like(port, "u5", id, true).await.is_some_and(|(status, _)| status == 200)
    })
    .await;
    book.acknowledged("u5", id, true);
    field.settled_as(&book).await;
    let (_, body) = backend.like(port, "u6", id, true).await.expect("an answer");
    assert_eq!(body["likes"], 7, "counted on from the ledger: {body}");
    book.acknowledged("u6", id, true);
    field.settled_as(&book).await;
}

//! The invalidation log: an invalidation applies on every node when the wait for it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use feedline::broker::{
    Broker, CACHE_LEASE, Invalidation, MemoryBroker, MessageListener, PresenceEvent, RedisBroker, Signal,
};
use feedline::model::{CommentId, Entry, PositionRef, PostId};
use parking_lot::Mutex;

use crate::engine::{PATIENCE, inbox_options, redis_options, user};
use crate::redis_server::RedisServer;

/// The keys that a node was asked to invalidate; `None` means all keys.
#[derive(Default)]
struct Caches(Mutex<Vec<Option<Invalidation>>>);

impl MessageListener for Caches {
    fn entry(&self, _: &str, _: Option<PositionRef<'_>>, _: &Entry) {}
    fn presence_event(&self, _: &str, _: &PresenceEvent) {}
    fn signal(&self, _: Signal) {}
    fn resync(&self) {}

    fn invalidate(&self, what: &[Invalidation]) {
        self.0.lock().extend(what.iter().cloned().map(Some));
    }

    fn invalidate_all(&self) {
        self.0.lock().push(None);
    }
}

impl Caches {
    fn has_dropped(&self, what: &[Invalidation]) -> bool {
        let dropped = self.0.lock();
        what.iter().all(|it| dropped.contains(&Some(it.clone())))
    }

    fn times_all(&self) -> usize {
        self.0.lock().iter().filter(|it| it.is_none()).count()
    }
}

/// A node that holds a cache lease.
async fn node(server: &RedisServer) -> (RedisBroker, Arc<Caches>) {
    let broker = RedisBroker::connect(redis_options(server)).await.expect("connect succeeds");
    let caches = Arc::new(Caches::default());
    broker.listen(Arc::clone(&caches) as Arc<dyn MessageListener>);
    holds_lease(&broker).await;
    (broker, caches)
}

async fn holds_lease(broker: &RedisBroker) {
    let begun = Instant::now();
    while !broker.cache_lease().is_held() {
        assert!(begun.elapsed() < PATIENCE, "no lease in {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until all leases that this Redis server does not know have expired.
async fn registry_is_known() {
    tokio::time::sleep(CACHE_LEASE + Duration::from_millis(50)).await;
}

fn post(id: u64) -> [Invalidation; 1] {
    [Invalidation::Post(PostId(id))]
}

#[tokio::test]
async fn invalidations_apply_at_once_in_one_process() {
    let broker = MemoryBroker::new(inbox_options());
    let caches = Arc::new(Caches::default());
    broker.listen(Arc::clone(&caches) as Arc<dyn MessageListener>);
    let confirmation = broker.invalidate(&post(1)).await.unwrap();
    assert!(!confirmation.is_pending() && caches.has_dropped(&post(1)) && broker.cache_lease().is_held());
}

#[tokio::test]
async fn every_node_has_invalidated_when_the_wait_ends() {
    let server = RedisServer::start();
    let (a, _) = node(&server).await;
    let (b, at_b) = node(&server).await;
    let (c, at_c) = node(&server).await;
    // Without a listener a broker has no caches and no invalidations to confirm.
    let _deaf = RedisBroker::connect(redis_options(&server)).await.expect("connect succeeds");
    let all = [
        Invalidation::Post(PostId(7)),
        Invalidation::Comment(CommentId(8)),
        Invalidation::Relation(user("ann"), user("bo")),
        Invalidation::User(user("cy")),
    ];
    let trips = a.round_trips();
    for round in 0..200 {
        let what = [post(1_000 + round).to_vec(), all.to_vec()].concat();
        assert_eq!(a.invalidate(&what).await.unwrap().wait().await, 0, "round {round}");
        assert!(at_b.has_dropped(&what) && at_c.has_dropped(&what), "round {round}");
    }
    // Plus a few round trips of the probe.
    assert!((200..220).contains(&(a.round_trips() - trips)), "{}", a.round_trips() - trips);
    // Both nodes invalidate at the same time.
    for round in 0..100 {
        let (from_b, from_c) = (post(2 * round), post(2 * round + 1));
        let (one, other) = tokio::join!(async { b.invalidate(&from_b).await.unwrap().wait().await }, async {
            c.invalidate(&from_c).await.unwrap().wait().await
        },);
        assert_eq!((one, other), (0, 0), "round {round}");
        assert!(at_c.has_dropped(&from_b) && at_b.has_dropped(&from_c), "round {round}");
    }
}

#[tokio::test]
async fn single_nodes_do_not_wait() {
    let server = RedisServer::start();
    let (a, _) = node(&server).await;
    registry_is_known().await;
    assert!(!a.invalidate(&post(1)).await.unwrap().is_pending());
}

#[tokio::test]
async fn lost_nodes_are_waited_for_until_their_lease_ends() {
    let server = RedisServer::start();
    let (a, _) = node(&server).await;
    let (b, _) = node(&server).await;
    registry_is_known().await;
    drop(b);
    let begun = Instant::now();
    assert_eq!(a.invalidate(&post(1)).await.unwrap().wait().await, 1);
    let took = begun.elapsed();
    assert!((CACHE_LEASE..2 * CACHE_LEASE).contains(&took), "took {took:?}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!a.invalidate(&post(2)).await.unwrap().is_pending(), "the other node is no longer registered");
}

#[tokio::test]
async fn invalidations_lost_by_pub_sub_are_read_from_the_log() {
    let server = RedisServer::start();
    let (a, _) = node(&server).await;
    let (_b, at_b) = node(&server).await;
    for round in 0..20 {
        server.ask("CLIENT KILL TYPE pubsub");
        // The node's own confirmations may be lost as well; then the wait lasts as long as the lease.
        a.invalidate(&post(round)).await.unwrap().wait().await;
        assert!(at_b.has_dropped(&post(round)), "round {round}");
    }
    assert_eq!(at_b.times_all(), 1, "at the start only");
}

#[tokio::test]
async fn nodes_behind_the_log_drop_their_caches() {
    let server = RedisServer::start();
    let (a, at_a) = node(&server).await;
    assert_eq!(at_a.times_all(), 1);
    server.ask("HSET feedline:{invalidation}:m s 500");
    registry_is_known().await;
    assert_eq!(at_a.times_all(), 2);
    holds_lease(&a).await;
}

#[tokio::test]
async fn caches_are_not_used_without_redis() {
    let mut server = RedisServer::start();
    let (a, at_a) = node(&server).await;
    let (b, _) = node(&server).await;
    server.kill();
    tokio::time::sleep(CACHE_LEASE).await;
    assert!(!a.cache_lease().is_held() && !b.cache_lease().is_held());
    assert!(a.invalidate(&post(1)).await.is_err());
    server.start_again();
    holds_lease(&a).await;
    assert_eq!(at_a.times_all(), 2, "it may have missed an invalidation");
    // Nodes that have not reconnected may still hold an older lease, so no wait ends before that lease has expired.
    let begun = Instant::now();
    server.ask("FLUSHALL");
    a.invalidate(&post(2)).await.unwrap().wait().await;
    assert!(begun.elapsed() >= CACHE_LEASE, "took {:?}", begun.elapsed());
}

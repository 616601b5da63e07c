//! Redis outages: restarts without data, restarts without the last second of writes, and unresponsive servers.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use feedline::broker::{
    Broker, BrokerError, IdTimes, InboxState, NODE_LEASE, RedisBroker, RedisOptions, Signal, Span, continues,
};
use feedline::model::PostId;

use crate::engine::{Engine, Heard, PATIENCE, data, ids, post, redis_options, timeline, user};
use crate::redis_server::RedisServer;

/// Waits until the broker reports that hints arrive again.
async fn resynced(engine: &mut Engine) {
    while engine.hear().await != Heard::Resync {}
}

/// Waits until commands succeed again.
pub(crate) async fn healed(engine: &Engine) {
    let healed = async {
        while engine.broker.ping().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, healed).await.expect("the broker recovers");
}

#[tokio::test]
async fn empty_redis_restarts_are_detected_and_repaired() {
    let mut engine = Engine::redis().await;
    let ann = user("ann");
    let inbox = engine.open_with(&ann, &[1]).await;
    let here = engine.append("app:1", "1").await.position;
    for channel in ["timeline:ann", "app:1", "app:left"] {
        engine.broker.subscribe(channel).await.unwrap();
    }
    engine.broker.unsubscribe("app:left").await.unwrap();

    engine.server().kill();
    let asked = Instant::now();
    let failed = engine.broker.position("app:1").await;
    assert!(matches!(failed, Err(BrokerError::Unreachable(_))), "{failed:?}");
    let failed = engine.broker.subscribe("app:2").await;
    assert!(matches!(failed, Err(BrokerError::Unreachable(_))), "{failed:?}");
    assert!(asked.elapsed() < Duration::from_secs(2));
    engine.server().start_again();
    resynced(&mut engine).await;
    healed(&engine).await;

    let channels = ["timeline:ann", "app:1"].map(Into::into);
    let positions = engine.broker.positions(&channels).await.unwrap();
    assert_eq!(positions[0], None);
    let unwritten = positions[1].clone().expect("a log that nothing was written to");
    assert!(unwritten.offset == 0 && !continues(&here.epoch, &unwritten.epoch));
    assert_ne!(engine.open(&ann).await.epoch, inbox.epoch);
    let next = engine.append("app:1", "2").await;
    assert_eq!((next.position.offset, next.receivers), (1, 1));
    assert_ne!(next.position.epoch, here.epoch);
    assert_eq!(engine.append("app:left", "1").await.receivers, 0);
    assert_eq!(engine.all_pushes().await, [Heard::Entry("app:1".to_owned(), Some(next.position), data("2"))]);
}

#[tokio::test]
async fn truncated_logs_get_a_new_epoch() {
    let mut engine = Engine::redis().await;
    let ann = user("ann");
    let inbox = engine.open_with(&ann, &[1]).await;
    let first = engine.append("app:1", "kept").await.position;
    engine.server().save();
    engine.append("app:1", "lost").await;
    engine.fan(&ann, post(2)).await;
    engine.server().kill();
    engine.server().start_again();
    resynced(&mut engine).await;
    healed(&engine).await;

    // Offset 2 belonged to another entry before the restart: it must not be reused under the same epoch.
    let channels = ["timeline:ann", "app:1"].map(Into::into);
    let positions = engine.broker.positions(&channels).await.unwrap();
    assert_eq!(positions[0], None);
    let unwritten = positions[1].clone().expect("a log that nothing was written to");
    assert!(unwritten.offset == 0 && !continues(&first.epoch, &unwritten.epoch));
    let slice = engine.broker.read("app:1", Span::After(0, 9)).await.unwrap().unwrap();
    assert_eq!((slice.top, slice.entries), (unwritten, vec![]));
    assert_eq!(engine.broker.read_inbox(&timeline(&ann)).await.unwrap(), None);
    assert_eq!(engine.broker.merge_inbox(&timeline(&ann), &ids(&[9]), PostId::ZERO).await.unwrap(), 0);
    assert_eq!(engine.fill(&ann, &inbox.epoch, &[1], 0).await, None);
    let again = engine.append("app:1", "new").await.position;
    assert_eq!(again.offset, 1);
    assert_ne!(again.epoch, first.epoch);
    match engine.broker.open_inbox(&timeline(&ann)).await.unwrap() {
        InboxState::Unfilled(epoch) => assert_ne!(epoch, inbox.epoch),
        ready => panic!("{ready:?}: it lacks post 2"),
    }
}

#[tokio::test]
async fn flushed_redis_derives_other_epochs() {
    let mut engine = Engine::redis().await;
    let before = engine.broker.position("app:1").await.unwrap().unwrap();
    let written = engine.append("app:2", "1").await.position;
    assert_eq!(engine.server().ask("FLUSHALL"), "+OK");
    // Neither the run nor the period has changed.
    let after = engine.broker.position("app:1").await.unwrap().unwrap();
    assert!(!continues(&before.epoch, &after.epoch), "{before:?} {after:?}");
    let again = engine.append("app:2", "2").await.position;
    assert!(!continues(&written.epoch, &again.epoch), "{written:?} {again:?}");
    let options = redis_options(engine.server());
    let other = RedisBroker::connect(options).await.unwrap();
    assert_eq!(other.position("app:1").await.unwrap(), Some(after), "all nodes report the same position");
}

#[tokio::test]
async fn silent_stalls_are_detected() {
    let server = RedisServer::start();
    let probe_every = Duration::from_millis(200);
    let timeout = Duration::from_millis(500);
    let options = RedisOptions { timeout, probe_every, ..redis_options(&server) };
    let mut engine = Engine::redis_with(server, options).await;
    engine.broker.subscribe("app:1").await.unwrap();

    engine.server().pause();
    let paused = Instant::now();
    let mut waited = 0;
    while paused.elapsed() < 8 * probe_every {
        let asked = Instant::now();
        let failed = engine.broker.ping().await;
        assert!(matches!(failed, Err(BrokerError::Unreachable(_))), "{failed:?}");
        waited += usize::from(asked.elapsed() >= timeout / 2);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(waited <= 2, "a silent connection is found out once, then commands fail at once; {waited} waited");
    assert!(engine.heard.try_recv().is_err(), "no notification arrives yet");
    engine.server().resume();
    resynced(&mut engine).await;
    healed(&engine).await;
    assert_eq!(engine.append("app:1", "1").await.receivers, 1);
    assert!(matches!(engine.hear().await, Heard::Entry(_, Some(_), entry) if entry == data("1")));
}

#[tokio::test]
async fn lost_connections_are_replaced() {
    let mut engine = Engine::redis().await;
    engine.broker.subscribe("app:1").await.unwrap();
    assert!(engine.server().ask("CLIENT KILL TYPE pubsub").starts_with(':'));
    resynced(&mut engine).await;
    assert_eq!(engine.append("app:1", "1").await.receivers, 1);
    assert!(engine.server().ask("CLIENT KILL TYPE normal").starts_with(':'));
    healed(&engine).await;
    assert_eq!(engine.append("app:1", "2").await.receivers, 1);
}

#[tokio::test]
async fn lost_scripts_are_loaded_again() {
    let mut engine = Engine::redis().await;
    assert_eq!(engine.server().ask("SCRIPT FLUSH"), "+OK");
    assert_eq!(engine.append("app:1", "1").await.position.offset, 1);
}

/// The ceiling of a node that has made no ids.
fn upto(ceiling: u64) -> IdTimes {
    IdTimes { used: 0, ceiling }
}

#[tokio::test]
async fn node_numbers_are_leased_once_each() {
    let server = RedisServer::start();
    let broker = RedisBroker::connect(redis_options(&server)).await.unwrap();
    let mut numbers = Vec::new();
    for node in 0..255 {
        let lease = broker.lease_node(&format!("node-{node}"), None, upto(1)).await.unwrap();
        assert_eq!((lease.ttl, lease.used_until), (Some(NODE_LEASE), 0));
        numbers.push(lease.number);
    }
    let renewed = broker.lease_node("node-7", Some(numbers[3]), upto(2)).await.unwrap();
    assert_eq!((renewed.number, renewed.used_until), (numbers[7], 0), "a renewal keeps the number");
    assert!(matches!(broker.lease_node("one too many", None, upto(3)).await, Err(BrokerError::Failed(_))));
    // A node keeps its number even if Redis lost its lease.
    assert_eq!(server.ask("FLUSHALL"), "+OK");
    for (node, number) in numbers.iter().enumerate() {
        assert_eq!(broker.lease_node(&format!("node-{node}"), Some(*number), upto(1)).await.unwrap().number, *number);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..255).collect::<Vec<_>>());
    assert!(broker.round_trips() >= 257);
}

#[tokio::test]
async fn new_holders_of_a_node_number_learn_its_last_id() {
    let server = RedisServer::start();
    let broker = RedisBroker::connect(redis_options(&server)).await.unwrap();
    let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let (hour, expire) = (3_600_000, |number: u8| server.ask(&format!("DEL feedline:node:{number}")));
    // The clock of the former holder is one hour ahead.
    let former = broker.lease_node("former", None, upto(now + hour)).await.unwrap();
    broker.lease_node("former", Some(former.number), upto(now + hour + 5)).await.unwrap();
    broker.lease_node("former", Some(former.number), upto(now)).await.unwrap();
    assert_eq!(expire(former.number), ":1");
    for n in 0..254 {
        let other = broker.lease_node(&format!("other {n}"), None, upto(now - hour)).await.unwrap();
        assert_ne!(other.number, former.number, "a number whose ids lie ahead is taken last");
        assert_eq!(other.used_until, 0);
    }
    let next = broker.lease_node("next", None, upto(now)).await.unwrap();
    assert_eq!((next.number, next.used_until), (former.number, now + hour + 5));
    assert_eq!(broker.lease_node("next", Some(next.number), upto(now)).await.unwrap().used_until, 0, "a renewal");
    // A node whose lease expired unnoticed gets its number back if no other node has taken it.
    assert_eq!(expire(next.number), ":1");
    let again = broker.lease_node("next", Some(next.number), upto(now)).await.unwrap();
    assert_eq!((again.number, again.used_until), (next.number, now + hour + 5));
}

/// All nodes continue above the greatest id, and learn the time of the store.
#[tokio::test]
async fn nodes_learn_the_greatest_id_of_all_and_the_time() {
    let server = RedisServer::start();
    let broker = RedisBroker::connect(redis_options(&server)).await.unwrap();
    let time = || u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let before = time();
    let ceiling = before + 50_000;
    let used = before + 7_000;
    let one = broker.lease_node("one", None, IdTimes { used, ceiling }).await.unwrap();
    let other = broker.lease_node("other", None, IdTimes { used: before, ceiling }).await.unwrap();
    assert_eq!((one.used_until, other.used_until), (used, used));
    let renewed = broker.lease_node("other", Some(other.number), upto(ceiling)).await.unwrap();
    assert_eq!(renewed.used_until, used);
    for lease in [one, other, renewed] {
        let at = lease.store_time.expect("a time");
        assert!((before..=time()).contains(&at), "{at}");
    }
    broker.release_node("one", one.number, used + 1).await.unwrap();
    let renewed = broker.lease_node("other", Some(other.number), upto(ceiling)).await.unwrap();
    assert_eq!(renewed.used_until, used + 1, "also of a node that has stopped");
}

#[tokio::test]
async fn released_node_numbers_are_free_at_once() {
    let server = RedisServer::start();
    let broker = RedisBroker::connect(redis_options(&server)).await.unwrap();
    let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let lease = broker.lease_node("one", None, upto(now + 50_000)).await.unwrap();
    broker.release_node("another", lease.number, now).await.unwrap();
    let key = format!("EXISTS feedline:node:{}", lease.number);
    assert_eq!(server.ask(&key), ":1", "only its holder releases it");
    broker.release_node("one", lease.number, now - 5).await.unwrap();
    assert_eq!(server.ask(&key), ":0");
    // The next holder makes greater ids than the last one, and need not wait for the ceiling of the former lease.
    let next = broker.lease_node("next", Some(lease.number), upto(now + 50_000)).await.unwrap();
    assert_eq!((next.number, next.used_until), (lease.number, now - 5));
}

#[tokio::test]
async fn unreachable_redis_is_reported_at_once() {
    let mut server = RedisServer::start();
    server.kill();
    let refused = RedisBroker::connect(redis_options(&server)).await;
    assert!(matches!(refused, Err(BrokerError::Unreachable(_))));
    let options = RedisOptions { url: "nonsense".to_owned(), ..redis_options(&server) };
    assert!(matches!(RedisBroker::connect(options).await, Err(BrokerError::Failed(_))));
}

#[tokio::test]
async fn two_nodes_exchange_signals() {
    let first = RedisServer::start();
    let options = redis_options(&first);
    let mut here = Engine::redis_with(first, options.clone()).await;
    let there = RedisBroker::connect(options).await.unwrap();
    here.broker.subscribe("app:1").await.unwrap();
    there.subscribe("app:1").await.unwrap();
    assert_eq!(there.publish("app:1", &post(1)).await.unwrap().receivers, 2);
    assert_eq!(here.hear().await, Heard::Entry("app:1".to_owned(), None, post(1)));
    // A signal to one node reaches no other one.
    assert_ne!(here.broker.node(), there.node());
    assert!(here.broker.signal_node(there.node(), Signal::EventsWritten).await.unwrap());
    assert!(there.signal_node(here.broker.node(), Signal::LedgerReplaced).await.unwrap());
    assert_eq!(here.hear().await, Heard::Signal(Signal::LedgerReplaced));
}

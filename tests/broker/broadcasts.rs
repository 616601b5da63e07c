//! Appends of one entry to many logs.

use std::collections::HashSet;

use feedline::broker::{Append, AppendOutcome, Broadcast, BrokerError, Span};
use feedline::model::Position;

use crate::engine::{Engine, Heard, data, to};

/// A broadcast of test data with the options of `with`.
async fn broadcast(engine: &Engine, channels: &[String], with: Append<'_>) -> Vec<AppendOutcome> {
    let channels: Vec<&str> = channels.iter().map(String::as_str).collect();
    let Append { entry, retention, idempotency_key, version, .. } = with;
    let broadcast = Broadcast { channels: &channels, entry, retention, idempotency_key, version };
    let outcomes = engine.broker.broadcast(broadcast).await;
    outcomes.into_iter().map(|outcome| outcome.expect("the broadcast succeeds")).collect()
}

/// More channels than one script call writes, one of them twice, and some that have a log.
pub(crate) async fn broadcasts_append_to_each_channel(engine: Engine) {
    let before = engine.append("app:7", "1").await.position;
    let unwritten = engine.broker.position("app:8").await.unwrap().unwrap();
    let mut channels: Vec<String> = (0..300).map(|n| format!("app:{n}")).collect();
    channels.push("app:9".to_owned());
    let entry = data("b");
    let outcomes = broadcast(&engine, &channels, to(&entry)).await;
    assert_eq!(outcomes.len(), channels.len());
    assert_eq!(outcomes[7].position, Position { offset: 2, ..before });
    assert_eq!(outcomes[8].position, Position { offset: 1, ..unwritten });
    assert_eq!(outcomes[300].position, Position { offset: 2, ..outcomes[9].position.clone() });
    for (channel, outcome) in channels.iter().zip(&outcomes).take(300).skip(10) {
        let slice = engine.broker.read(channel, Span::After(0, 10)).await.unwrap().unwrap();
        assert_eq!((slice.top, slice.entries), (outcome.position.clone(), vec![(1, entry.clone())]), "{channel}");
    }
    let epochs: HashSet<_> = outcomes.iter().map(|outcome| &outcome.position.epoch).collect();
    assert_eq!(epochs.len(), 300, "each channel has an epoch of its own");
    assert_eq!(broadcast(&engine, &[], to(&entry)).await, []);
}

pub(crate) async fn broadcasts_write_once_for_each_key_and_version(engine: Engine) {
    let channels = ["app:1".to_owned(), "app:2".to_owned()];
    let entry = data("b");
    let keyed = Append { idempotency_key: Some("k"), ..to(&entry) };
    let one = engine.broker.append(Append { channel: "app:1", ..keyed }).await.unwrap();
    let first = broadcast(&engine, &channels, keyed).await;
    assert_eq!(first[0].position, one.position, "the key was used on this channel");
    assert_eq!(broadcast(&engine, &channels, keyed).await, first);
    let offsets = async |version| {
        let outcomes = broadcast(&engine, &channels, Append { version: Some((version, "e")), ..to(&entry) }).await;
        outcomes.into_iter().map(|outcome| outcome.position.offset).collect::<Vec<_>>()
    };
    engine.broker.append(Append { channel: "app:2", version: Some((9, "e")), ..to(&entry) }).await.unwrap();
    assert_eq!(offsets(7).await, [2, 2]);
    assert_eq!(offsets(7).await, [2, 2]);
    assert_eq!(offsets(10).await, [3, 3]);
}

pub(crate) async fn broadcasts_reach_subscribers(mut engine: Engine) {
    engine.broker.subscribe("app:2").await.unwrap();
    let channels: Vec<String> = (0..4).map(|n| format!("app:{n}")).collect();
    let entry = data("b");
    let outcomes = broadcast(&engine, &channels, to(&entry)).await;
    assert_eq!(outcomes.iter().map(|outcome| outcome.receivers).collect::<Vec<_>>(), [0, 0, 1, 0]);
    let position = Some(outcomes[2].position.clone());
    assert_eq!(engine.hear().await, Heard::Entry("app:2".to_owned(), position, entry));
}

pub(crate) async fn broadcasts_to_an_inbox_are_refused(engine: Engine) {
    let written = data("b");
    let Append { entry, retention, .. } = to(&written);
    let channels = &["app:1", "timeline:ann"][..];
    let broadcast = Broadcast { channels, entry, retention, idempotency_key: None, version: None };
    for outcome in engine.broker.broadcast(broadcast).await {
        assert!(matches!(outcome, Err(BrokerError::Failed(_))), "{outcome:?}");
    }
    assert_eq!(engine.broker.position("app:1").await.unwrap().unwrap().offset, 0);
}

/// A key of another type stands for any failure that concerns one log only.
pub(crate) async fn a_failed_log_does_not_stop_a_broadcast(engine: Engine) {
    let Some(server) = &engine.server else { return };
    server.ask("SET feedline:{app:1}:l x");
    let written = data("b");
    let Append { entry, retention, .. } = to(&written);
    let channels = &["app:0", "app:1", "app:2"][..];
    let broadcast = Broadcast { channels, entry, retention, idempotency_key: None, version: None };
    server.ask("HSET feedline:{app:1}:m r other");
    let outcomes = engine.broker.broadcast(broadcast).await;
    assert!(outcomes.iter().all(Result::is_ok), "a log of another run is replaced: {outcomes:?}");
    server.ask("SET feedline:{app:1}:l x");
    let outcomes = engine.broker.broadcast(broadcast).await;
    assert!(matches!(&outcomes[1], Err(BrokerError::Failed(reason)) if reason.contains("WRONGTYPE")), "{outcomes:?}");
    let offset = |at: usize| outcomes[at].as_ref().unwrap().position.offset;
    assert_eq!((offset(0), offset(2)), (2, 2));
}

/// More channels than one script call serves, one of them twice.
pub(crate) async fn unlogged_broadcasts_reach_each_channel(mut engine: Engine) {
    for channel in ["app:0", "app:7", "app:140"] {
        engine.broker.subscribe(channel).await.unwrap();
    }
    let names: Vec<String> = (0..150).map(|n| format!("app:{n}")).chain(["app:7".to_owned()]).collect();
    let channels: Vec<&str> = names.iter().map(String::as_str).collect();
    let outcomes = engine.broker.publish_on_all(&channels, &data("b"), None).await;
    let outcomes: Vec<_> = outcomes.into_iter().map(|outcome| outcome.expect("it is published")).collect();
    let receivers: Vec<u64> = outcomes.iter().map(|outcome| outcome.receivers).collect();
    let expected: Vec<u64> = (0..=150).map(|at| u64::from([0, 7, 140, 150].contains(&at))).collect();
    assert_eq!(receivers, expected);
    assert!(outcomes.iter().all(|outcome| outcome.position == Position { offset: 0, epoch: "".into() }));
    for channel in ["app:0", "app:7", "app:140", "app:7"] {
        assert_eq!(engine.hear().await, Heard::Entry(channel.to_owned(), None, data("b")));
    }
    assert!(engine.broker.publish_on_all(&[], &data("b"), None).await.is_empty());
}

pub(crate) async fn unlogged_broadcasts_publish_once_for_each_key(mut engine: Engine) {
    engine.broker.subscribe("app:1").await.unwrap();
    let mut receivers = Vec::new();
    for (channel, written, key) in
        [("app:1", "a", Some("k")), ("app:1", "b", Some("k")), ("app:2", "c", Some("k")), ("app:1", "d", Some("l"))]
    {
        let outcomes = engine.broker.publish_on_all(&[channel], &data(written), key).await;
        receivers.push(outcomes[0].as_ref().expect("it is published").receivers);
    }
    assert_eq!(receivers, [1, 0, 0, 1]);
    for written in ["a", "d"] {
        assert_eq!(engine.hear().await, Heard::Entry("app:1".to_owned(), None, data(written)));
    }
}

/// A channel that the user of Redis may not use stands for any failure that concerns one channel only.
pub(crate) async fn a_failed_channel_does_not_stop_an_unlogged_broadcast(engine: Engine) {
    let Some(server) = &engine.server else { return };
    let allowed = server.ask("ACL SETUSER default resetchannels &feedline:{app:0}:l &feedline:{app:2}:l");
    assert_eq!(allowed, "+OK");
    let outcomes = engine.broker.publish_on_all(&["app:0", "app:1", "app:2"], &data("b"), None).await;
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
    assert!(matches!(&outcomes[1], Err(BrokerError::Refused(..))), "{outcomes:?}");
}

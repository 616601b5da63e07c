//! Logs that are created by their first entry.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use feedline::broker::{Append, Span, continues};
use feedline::model::{Position, Retention};
use futures::future::join_all;

use crate::engine::{Engine, PATIENCE, data, post, timeline, to};

pub(crate) async fn offsets_are_contiguous_and_the_epoch_stays(engine: Engine) {
    let first = engine.append("app:1", "1").await.position;
    assert_eq!(first.offset, 1);
    for offset in 2..20 {
        assert_eq!(engine.append("app:1", "n").await.position, Position { offset, ..first.clone() });
    }
    let other = engine.append("app:2", "1").await.position;
    assert_eq!(other.offset, 1);
    assert_ne!(other.epoch, first.epoch);
}

pub(crate) async fn positions_before_the_first_entry_are_recoverable(engine: Engine) {
    let before = engine.broker.position("app:1").await.unwrap().unwrap();
    assert_eq!(before.offset, 0);
    assert_eq!(engine.broker.position("app:1").await.unwrap().unwrap(), before);
    let empty = engine.broker.read("app:1", Span::After(0, 10)).await.unwrap().unwrap();
    assert_eq!((empty.top, empty.entries), (before.clone(), vec![]));
    let first = engine.append("app:1", "1").await.position;
    assert_eq!(first, Position { offset: 1, ..before });
    let slice = engine.broker.read("app:1", Span::After(0, 10)).await.unwrap().unwrap();
    assert_eq!((slice.top, slice.entries), (first, vec![(1, data("1"))]));
}

pub(crate) async fn dropped_logs_are_empty(engine: Engine) {
    engine.append("app:1", "1").await;
    let kept = engine.append("app:2", "1").await.position;
    let ann = feedline::model::UserId::parse("ann").unwrap();
    engine.broker.open_inbox(&timeline(&ann)).await.unwrap();
    engine.broker.drop_logs(&["app:1".to_owned(), "app:3".to_owned(), "timeline:ann".to_owned()]).await.unwrap();
    let again = engine.append("app:1", "2").await.position;
    let slice = engine.broker.read("app:1", Span::After(0, 10)).await.unwrap().unwrap();
    assert_eq!((slice.top, slice.entries), (again.clone(), vec![(again.offset, data("2"))]));
    assert_eq!(engine.broker.position("app:2").await.unwrap(), Some(kept));
    assert_eq!(engine.broker.position("timeline:ann").await.unwrap(), None);
}

pub(crate) async fn cleared_logs_keep_their_position(engine: Engine) {
    let before = engine.broker.position("app:3").await.unwrap().unwrap();
    engine.broker.clear_log("app:3").await.unwrap();
    assert_eq!(engine.broker.position("app:3").await.unwrap().unwrap(), before, "nothing was written");
    engine.append("app:1", "1").await;
    let top = engine.append("app:1", "2").await.position;
    engine.broker.clear_log("app:1").await.unwrap();
    let slice = engine.broker.read("app:1", Span::After(0, 10)).await.unwrap().unwrap();
    assert_eq!((slice.top, slice.entries), (top.clone(), vec![]));
    let next = engine.append("app:1", "3").await.position;
    assert_eq!(next, Position { offset: 3, ..top });
    let slice = engine.broker.read("app:1", Span::After(0, 10)).await.unwrap().unwrap();
    assert_eq!(slice.entries, vec![(3, data("3"))]);
    assert!(engine.broker.clear_log("timeline:ann").await.is_err(), "an inbox");
}

/// The epoch derived for the channel is that of the dropped log: it must not be derived again.
pub(crate) async fn dropped_logs_do_not_reuse_their_epoch(engine: Engine) {
    let unwritten = engine.broker.position("topic:1").await.unwrap().unwrap();
    let kept = engine.kept();
    let channels = ["topic:1".to_owned()];
    engine.broker.drop_logs(&channels).await.unwrap();
    assert_eq!(engine.kept(), kept, "dropping an unwritten log stores nothing");
    assert_eq!(engine.broker.position("topic:1").await.unwrap().unwrap(), unwritten);
    let written = engine.append("topic:1", "1").await.position;
    assert_eq!(written.epoch, unwritten.epoch);
    engine.broker.drop_logs(&channels).await.unwrap();
    let dropped = engine.broker.position("topic:1").await.unwrap().unwrap();
    assert_eq!(dropped.offset, 0);
    assert!(!continues(&written.epoch, &dropped.epoch), "{written:?} {dropped:?}");
    assert_eq!(engine.broker.positions(&["topic:1".into()]).await.unwrap(), [Some(dropped.clone())]);
    let again = engine.append("topic:1", "2").await.position;
    assert_eq!(again, Position { offset: 1, ..dropped });
    engine.broker.drop_logs(&channels).await.unwrap();
    let twice = engine.broker.position("topic:1").await.unwrap().unwrap();
    assert!(!continues(&again.epoch, &twice.epoch) && !continues(&written.epoch, &twice.epoch));
}

pub(crate) async fn position_reads_create_nothing(engine: Engine) {
    let here = engine.append("app:1", "1").await.position;
    let channels: Vec<Arc<str>> = ["app:1", "app:2", "timeline:ann"].map(Arc::from).to_vec();
    for _ in 0..2 {
        let unwritten = engine.broker.position("app:2").await.unwrap();
        assert_eq!(engine.broker.positions(&channels).await.unwrap(), [Some(here.clone()), unwritten, None]);
    }
    assert_eq!(engine.broker.position("timeline:ann").await.unwrap(), None);
    assert_eq!(engine.broker.read("timeline:ann", Span::After(0, 1)).await.unwrap(), None);
    assert_eq!(engine.broker.positions(&[]).await.unwrap(), []);
}

/// Subscribing to and reading a channel without entries stores nothing in the broker.
pub(crate) async fn unwritten_channels_use_no_memory(engine: Engine) {
    let before = engine.kept();
    let names: Vec<Arc<str>> = (0..10_000).map(|n| format!("topic:t{n}").into()).collect();
    for some in names.chunks(500) {
        let each = some.iter().map(|name| async {
            engine.broker.subscribe(name).await.unwrap();
            let position = engine.broker.position(name).await.unwrap().unwrap();
            let slice = engine.broker.read(name, Span::After(0, 9)).await.unwrap().unwrap();
            assert_eq!((slice.top, slice.entries), (position.clone(), vec![]));
            position
        });
        let positions = join_all(each).await;
        let again = engine.broker.positions(some).await.unwrap();
        assert_eq!(again, positions.into_iter().map(Some).collect::<Vec<_>>());
    }
    if engine.server.is_some() {
        assert_eq!(engine.kept(), before, "keys while the clients are subscribed");
    }
    for some in names.chunks(500) {
        join_all(some.iter().map(|name| async { engine.broker.unsubscribe(name).await.unwrap() })).await;
    }
    assert_eq!(engine.kept(), before);
    let positions = engine.broker.positions(&names).await.unwrap();
    let epochs: HashSet<_> = positions.into_iter().flatten().map(|position| position.epoch).collect();
    assert_eq!(epochs.len(), names.len(), "each channel has an epoch of its own");
    assert_eq!(engine.kept(), before);
}

/// The epoch of an unwritten log advances with time, and each epoch continues the one before. Once a log was forgotten,
/// no epoch of its channel continues the epoch of that log.
pub(crate) async fn expired_logs_are_distinguished_from_new_ones(engine: Engine) {
    let engine = engine.with_position_ttl(Duration::from_millis(600)).await;
    let position = async || engine.broker.position("app:1").await.unwrap().unwrap();
    let retention = Retention { size: 10, ttl: Duration::from_millis(1) };
    let (mut last, mut asked, mut steps) = (position().await, Instant::now(), 0);
    let stepped = async {
        loop {
            let now = Instant::now();
            let written = steps == 3;
            let next = match written {
                true => engine.broker.append(Append { retention, ..to(&post(1)) }).await.unwrap().position,
                false => position().await,
            };
            // On a busy machine more than one period may have passed.
            let in_time = asked.elapsed() < Duration::from_millis(300);
            assert!(!in_time || continues(&last.epoch, &next.epoch), "{last:?} {next:?}");
            if written {
                break next;
            }
            steps += u32::from(next.epoch != last.epoch);
            (last, asked) = (next, now);
        }
    };
    let written = tokio::time::timeout(PATIENCE, stepped).await.expect("periods end");
    let forgotten = async {
        loop {
            // Reading the position would keep it alive.
            tokio::time::sleep(Duration::from_millis(700)).await;
            let now = position().await;
            if now.offset == 0 {
                break now;
            }
        }
    };
    let now = tokio::time::timeout(PATIENCE, forgotten).await.expect("the position expires");
    assert!(!continues(&written.epoch, &now.epoch), "{written:?} {now:?}");
    assert!(!continues(&last.epoch, &now.epoch), "{last:?} {now:?}");
    let next = engine.broker.append(Append { retention, ..to(&post(2)) }).await.unwrap().position;
    assert_eq!(next.offset, 1);
    assert!(!continues(&written.epoch, &next.epoch), "{written:?} {next:?}");
}

pub(crate) async fn trimmed_logs_keep_exactly_their_size(engine: Engine) {
    for (channel, size) in [("app:1", 2), ("app:2", 10), ("app:3", 150)] {
        let retention = Retention { size, ttl: Duration::from_secs(60) };
        for id in 1..=400 {
            engine.broker.append(Append { channel, retention, ..to(&post(id)) }).await.unwrap();
            if id % 50 == 0 {
                let slice = engine.broker.read(channel, Span::After(0, usize::MAX)).await.unwrap().unwrap();
                let first = (id + 1).saturating_sub(size).max(1);
                let kept: Vec<_> = (first..=id).map(|id| (id, post(id))).collect();
                assert_eq!(slice.entries, kept);
                let slice = engine.broker.read(channel, Span::Before(u64::MAX, usize::MAX)).await.unwrap().unwrap();
                assert_eq!(slice.entries, kept.iter().rev().cloned().collect::<Vec<_>>());
                let slice = engine.broker.read(channel, Span::After(id - 1, usize::MAX)).await.unwrap().unwrap();
                assert_eq!(slice.entries, [(id, post(id))]);
            }
        }
    }
}

pub(crate) async fn positions_of_readers_outlive_entries(engine: Engine) {
    let retention = Retention { size: 10, ttl: Duration::from_millis(50) };
    // The position is kept although the reader has that of the log before its first entry.
    engine.broker.subscribe("app:1").await.unwrap();
    let before = engine.broker.position("app:1").await.unwrap().unwrap();
    let here = engine.broker.append(Append { retention, ..to(&post(1)) }).await.unwrap().position;
    assert_eq!(here, Position { offset: 1, ..before });
    let gone = async {
        while !engine.broker.read("app:1", Span::After(0, 1)).await.unwrap().unwrap().entries.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the entries expire");
    assert_eq!(engine.broker.position("app:1").await.unwrap(), Some(here.clone()));
    let next = engine.append("app:1", "2").await.position;
    assert_eq!(next, Position { offset: 2, ..here });
    let slice = engine.broker.read("app:1", Span::After(0, 9)).await.unwrap().unwrap();
    assert_eq!(slice.entries, [(2, data("2"))]);
}

/// A log that nobody reads is forgotten with its entries. A client that has a position of it, or of the channel before,
/// is not mistaken for one that missed nothing.
pub(crate) async fn unread_logs_are_forgotten_with_their_entries(engine: Engine) {
    let retention = Retention { size: 10, ttl: Duration::from_millis(50) };
    let before = engine.broker.read("app:1", Span::After(0, 1)).await.unwrap().unwrap().top;
    let written = engine.broker.append(Append { retention, ..to(&post(1)) }).await.unwrap().position;
    assert_eq!(written, Position { offset: 1, ..before.clone() });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let now = engine.broker.position("app:1").await.unwrap().unwrap();
    assert_eq!(now.offset, 0);
    assert!(!continues(&before.epoch, &now.epoch), "{before:?} {now:?}");
    let next = engine.broker.append(Append { retention, ..to(&post(2)) }).await.unwrap().position;
    assert_eq!(next, Position { offset: 1, ..now });
}

/// A reader that is cut off, as a client that is away, notices that it missed an entry which has expired since.
pub(crate) async fn readers_notice_entries_that_expired_meanwhile(engine: Engine) {
    let retention = Retention { size: 10, ttl: Duration::from_millis(50) };
    let joined = engine.broker.position("app:1").await.unwrap().unwrap();
    engine.broker.append(Append { retention, ..to(&post(1)) }).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let slice = engine.broker.read("app:1", Span::After(0, 9)).await.unwrap().unwrap();
    assert_eq!((slice.top, slice.entries), (Position { offset: 1, ..joined }, vec![]));
}

/// An entry of a channel that nobody listens to is not stored: clients choose the names of topics. Those who read its
/// position before are not mistaken for ones that missed nothing, and those who listen miss nothing.
pub(crate) async fn unread_channels_of_the_feed_have_no_log(engine: Engine) {
    let before = engine.kept();
    let channels: Vec<String> = (0..200).map(|n| format!("topic:t{n}")).collect();
    for channel in &channels {
        let read = engine.broker.read(channel, Span::After(0, 1)).await.unwrap().unwrap().top;
        let skipped = engine.broker.append(Append { channel, ..to(&post(1)) }).await.unwrap();
        assert_eq!((skipped.position.offset, skipped.receivers), (0, 0));
        let now = engine.broker.read(channel, Span::After(0, 1)).await.unwrap().unwrap();
        assert!(!continues(&read.epoch, &now.top.epoch) && now.entries.is_empty(), "{read:?} {now:?}");
    }
    assert_eq!(engine.kept(), before, "nothing is kept");
    for channel in ["topic:heard", "user:ann", "post:7"] {
        engine.broker.subscribe(channel).await.unwrap();
        let joined = engine.broker.position(channel).await.unwrap().unwrap();
        engine.broker.unsubscribe(channel).await.unwrap();
        let first = engine.broker.append(Append { channel, ..to(&post(1)) }).await.unwrap().position;
        assert_eq!(first, Position { offset: 1, ..joined }, "{channel}: its reader may come back");
    }
}

pub(crate) async fn idempotency_keys_write_once(engine: Engine) {
    let entry = post(1);
    let keyed = Append { idempotency_key: Some("k"), ..to(&entry) };
    let first = engine.broker.append(keyed).await.unwrap();
    assert_eq!(engine.append("app:1", "2").await.position.offset, 2);
    let again = engine.broker.append(keyed).await.unwrap();
    assert_eq!(again, first);
    // The idempotency key is scoped to its channel and compared exactly.
    for other in [Append { channel: "app:2", ..keyed }, Append { idempotency_key: Some("l"), ..keyed }] {
        let written = engine.broker.append(other).await.unwrap().position;
        let slice = engine.broker.read(other.channel, Span::Before(u64::MAX, 1)).await.unwrap().unwrap();
        assert_eq!(slice.entries, [(written.offset, entry.clone())]);
    }
}

pub(crate) async fn older_versions_are_not_written(engine: Engine) {
    let entry = post(1);
    let write = async |version, life| {
        let versioned = Append { version: Some((version, life)), ..to(&entry) };
        engine.broker.append(versioned).await.unwrap().position.offset
    };
    assert_eq!(write(5, "a").await, 1);
    assert_eq!(write(5, "a").await, 1);
    assert_eq!(write(4, "a").await, 1);
    assert_eq!(write(10, "a").await, 2);
    assert_eq!(write(3, "b").await, 3);
    assert_eq!(write(u64::MAX - 1, "b").await, 4);
    assert_eq!(write(u64::MAX, "b").await, 5);
    assert_eq!(engine.append("app:1", "no version").await.position.offset, 6);
    assert_eq!(write(7, "b").await, 6);
}

pub(crate) async fn logs_are_read_from_either_end(engine: Engine) {
    for id in 1..=9 {
        engine.broker.append(to(&post(id))).await.unwrap();
    }
    let read = async |span| {
        let slice = engine.broker.read("app:1", span).await.unwrap().unwrap();
        assert_eq!(slice.top.offset, 9);
        slice.entries.into_iter().map(|(offset, _)| offset).collect::<Vec<_>>()
    };
    assert_eq!(read(Span::After(0, 3)).await, [1, 2, 3]);
    assert_eq!(read(Span::After(7, 3)).await, [8, 9]);
    assert_eq!(read(Span::Before(u64::MAX, 3)).await, [9, 8, 7]);
    assert_eq!(read(Span::Before(3, 3)).await, [2, 1]);
    for nothing in
        [Span::After(9, 3), Span::After(u64::MAX, 3), Span::Before(1, 3), Span::Before(0, 3), Span::After(0, 0)]
    {
        assert_eq!(read(nothing).await, [0; 0], "{nothing:?}");
    }
}

pub(crate) async fn any_channel_name_works(mut engine: Engine) {
    for channel in ["app:{x}", "}:l", "app:a b", "über:ñ", "app:\n*"] {
        engine.broker.subscribe(channel).await.unwrap();
        assert_eq!(engine.append(channel, "1").await.position.offset, 1, "{channel:?}");
        let slice = engine.broker.read(channel, Span::After(0, 9)).await.unwrap().unwrap();
        assert_eq!(slice.entries, [(1, data("1"))]);
        let heard = crate::engine::Heard::Entry(channel.to_owned(), Some(slice.top), data("1"));
        assert_eq!(engine.hear().await, heard);
    }
}

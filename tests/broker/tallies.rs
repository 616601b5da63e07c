//! Counts with versions.

use feedline::broker::{Append, continues};
use feedline::model::{ContentId, Position, PostId, Tally};

use crate::engine::{Engine, data, to};

const fn tally(likes: u64, version: u64) -> Tally {
    Tally { likes, comments: 2, version }
}

pub(crate) async fn older_tallies_do_not_overwrite_newer_ones(engine: Engine) {
    let [one, other] = [1, 2].map(|id| ContentId::Post(PostId(id)));
    assert_eq!(engine.broker.tallies(&[one, other]).await.unwrap(), [None, None]);
    engine.broker.set_tallies(&[(one, tally(5, 10)), (other, tally(1, 9))]).await.unwrap();
    // A refill with an older version and a repeat are ignored. As numbers 9 is less than 10; as text it is not.
    engine.broker.set_tallies(&[(one, tally(4, 9)), (other, tally(0, 9))]).await.unwrap();
    let kept = engine.broker.tallies(&[other, one]).await.unwrap();
    assert_eq!(kept, [Some(tally(1, 9)), Some(tally(5, 10))]);
    engine.broker.set_tallies(&[(one, tally(3, 11))]).await.unwrap();
    assert_eq!(engine.broker.tallies(&[one]).await.unwrap(), [Some(tally(3, 11))]);
}

pub(crate) async fn viewed_objects_are_reported(engine: Engine) {
    let [seen, unseen] = [1, 2].map(|id| (ContentId::Post(PostId(id)), tally(1, 1)));
    engine.broker.subscribe("post:1").await.unwrap();
    assert_eq!(engine.broker.set_tallies(&[unseen, seen]).await.unwrap(), [false, true]);
    assert!(engine.broker.set_tallies(&[]).await.unwrap().is_empty());
}

/// Without subscribers the counts are not appended; a returning client must not be reported as up to date.
pub(crate) async fn failed_appends_are_reported(engine: Engine) {
    let object = ContentId::Post(PostId(7));
    let position = async |channel: &str| engine.broker.position(channel).await.unwrap().unwrap();
    let (before, other) = (position("post:7").await, position("post:8").await);
    assert_eq!(engine.broker.set_tallies(&[(object, tally(1, 1))]).await.unwrap(), [false]);
    let after = position("post:7").await;
    assert!(!continues(&before.epoch, &after.epoch));
    assert_eq!(position("post:8").await, other);
    // A repeat is not appended. With a subscriber, counts are appended.
    assert_eq!(engine.broker.set_tallies(&[(object, tally(1, 1))]).await.unwrap(), [false]);
    assert_eq!(position("post:7").await, after);
    engine.broker.subscribe("post:7").await.unwrap();
    assert_eq!(engine.broker.set_tallies(&[(object, tally(2, 2))]).await.unwrap(), [true]);
    assert_eq!(position("post:7").await, after);
    let entry = data("counts");
    let first = engine.broker.append(Append { channel: "post:7", ..to(&entry) }).await.unwrap().position;
    assert_eq!(first, Position { offset: 1, ..after });
    engine.broker.unsubscribe("post:7").await.unwrap();
    assert_eq!(engine.broker.set_tallies(&[(object, tally(3, 3))]).await.unwrap(), [true], "it has a log");
}

/// Counts without subscribers change the derived epoch. A late write of older counts must not change it back.
pub(crate) async fn late_tallies_do_not_restore_an_epoch(engine: Engine) {
    let object = ContentId::Post(PostId(7));
    let set = async |version| {
        assert_eq!(engine.broker.set_tallies(&[(object, tally(version, version))]).await.unwrap(), [false]);
        engine.broker.position("post:7").await.unwrap().unwrap()
    };
    // Versions compare as numbers, not as text: 9 is less than 10.
    let (first, second) = (set(9).await, set(10).await);
    assert!(!continues(&first.epoch, &second.epoch));
    for late in [9, 10, 3] {
        assert_eq!(set(late).await, second, "{late}");
    }
    assert!(!continues(&second.epoch, &set(11).await.epoch));
}

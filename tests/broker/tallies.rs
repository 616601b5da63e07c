//! Counts with versions.

use feedline::model::{Object, PostId, Tally};

use crate::engine::Engine;

const fn tally(likes: u64, version: u64) -> Tally {
    Tally { likes, comments: 2, version }
}

pub(crate) async fn an_older_tally_never_overwrites_a_newer_one(engine: Engine) {
    let [one, other] = [1, 2].map(|id| Object::Post(PostId(id)));
    assert_eq!(engine.broker.tallies(&[one, other]).await.unwrap(), [None, None]);
    engine.broker.set_tallies(&[(one, tally(5, 10)), (other, tally(1, 9))]).await.unwrap();
    // A refill that was read before, and a repeat: 9 is less than 10 as a number, not as text.
    engine.broker.set_tallies(&[(one, tally(4, 9)), (other, tally(0, 9))]).await.unwrap();
    let kept = engine.broker.tallies(&[other, one]).await.unwrap();
    assert_eq!(kept, [Some(tally(1, 9)), Some(tally(5, 10))]);
    engine.broker.set_tallies(&[(one, tally(3, 11))]).await.unwrap();
    assert_eq!(engine.broker.tallies(&[one]).await.unwrap(), [Some(tally(3, 11))]);
}

pub(crate) async fn it_is_said_whether_anybody_looks_at_an_object(engine: Engine) {
    let [seen, unseen] = [1, 2].map(|id| (Object::Post(PostId(id)), tally(1, 1)));
    engine.broker.position("post:1").await.unwrap();
    assert_eq!(engine.broker.set_tallies(&[unseen, seen]).await.unwrap(), [false, true]);
    assert!(engine.broker.set_tallies(&[]).await.unwrap().is_empty());
}

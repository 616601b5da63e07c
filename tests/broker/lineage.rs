//! The data that a broker stores about the ledger, and the data that it drops when the ledger is replaced.

use feedline::broker::{InboxState, LedgerMatch, continues};
use feedline::ledger::{HighWaterMarks, high_water};
use feedline::model::{ContentId, PostId, Tally};

use crate::engine::{Engine, Heard, timeline};

fn numbers(all: &[(&str, u64)]) -> HighWaterMarks {
    all.iter().map(|(kind, number)| ((*kind).to_owned(), high_water(*number))).collect()
}

fn sorted(found: LedgerMatch) -> LedgerMatch {
    match found {
        LedgerMatch::Other(identity, mut numbers) => {
            numbers.sort_unstable();
            LedgerMatch::Other(identity, numbers)
        }
        same => same,
    }
}

pub(crate) async fn restored_ledgers_are_detected(engine: Engine) {
    let broker = &engine.broker;
    let compare = async |identity: &str, all: &[(&str, u64)]| {
        sorted(broker.match_ledger(identity, &numbers(all)).await.expect("match_ledger succeeds"))
    };
    assert_eq!(compare("one", &[("jobs", 9), ("pulled", 4)]).await, LedgerMatch::Same, "no ledger was known");
    assert_eq!(compare("one", &[("jobs", 10), ("pulled", 4)]).await, LedgerMatch::Same, "the ledger advanced");
    // As numbers 9 is less than 10; as text it is not.
    let known = || LedgerMatch::Other("one".into(), numbers(&[("jobs", 10), ("pulled", 4)]));
    assert_eq!(compare("one", &[("jobs", 9), ("pulled", 4)]).await, known(), "the ledger lost its tail");
    assert_eq!(compare("one", &[("jobs", 10)]).await, known(), "the ledger lost the numbers of one kind");
    assert_eq!(compare("other", &[("jobs", 90), ("pulled", 90)]).await, known(), "another ledger");

    assert!(broker.note_numbers("one", &numbers(&[("jobs", 12)])).await.unwrap());
    assert!(broker.note_numbers("one", &numbers(&[("jobs", 11)])).await.unwrap(), "the identity is unchanged");
    assert!(!broker.note_numbers("other", &numbers(&[("jobs", 99)])).await.unwrap());
    assert!(matches!(compare("one", &[("jobs", 11), ("pulled", 4)]).await, LedgerMatch::Other(..)));
    assert_eq!(compare("one", &[("jobs", 12), ("pulled", 4)]).await, LedgerMatch::Same);

    assert!(
        !broker.replace_ledger("none", "new", &numbers(&[("jobs", 5)])).await.unwrap(),
        "another identity is stored"
    );
    assert!(broker.replace_ledger("one", "new", &numbers(&[("jobs", 5)])).await.unwrap());
    assert!(
        !broker.replace_ledger("one", "newer", &numbers(&[("jobs", 5)])).await.unwrap(),
        "another node replaced it first"
    );
    assert_eq!(compare("new", &[("jobs", 5)]).await, LedgerMatch::Same, "numbers of the old ledger are ignored");
    // A partition of a queue was lost: the ledger reports the numbers of the new one.
    assert!(broker.note_numbers("new", &numbers(&[("likes:1:lost", 7)])).await.unwrap());
    assert_eq!(compare("new", &[("jobs", 5), ("likes:1:new", 1)]).await, LedgerMatch::Same);
    assert!(matches!(compare("new", &[("jobs", 5), ("likes:1:lost", 6)]).await, LedgerMatch::Other(..)));
}

pub(crate) async fn entries_of_another_incarnation_count_as_lost(mut engine: Engine) {
    let broker = std::sync::Arc::clone(&engine.broker);
    let ann = feedline::model::UserId::parse("ann").expect("a user id");
    broker.use_incarnation("first");
    let InboxState::Unfilled(epoch) = broker.open_inbox(&timeline(&ann)).await.unwrap() else {
        panic!("the inbox is already filled")
    };
    broker
        .fill_inbox(&timeline(&ann), &epoch, &[PostId(1)], PostId::ZERO, 7)
        .await
        .unwrap()
        .expect("the epoch is unchanged");
    let log = engine.append("app:ann", "1").await.position;
    let object = ContentId::Post(PostId(1));
    broker.set_tallies(&[(object, Tally { likes: 5, comments: 0, version: 9 })]).await.unwrap();

    broker.use_incarnation("first");
    assert!(broker.read_inbox(&timeline(&ann)).await.unwrap().is_some(), "the inbox was dropped");
    broker.use_incarnation("second");
    while !matches!(engine.heard.recv().await.expect("the listener"), Heard::Resync) {}
    assert_eq!(broker.read_inbox(&timeline(&ann)).await.unwrap(), None);
    let positions = broker.positions(&["timeline:ann".into(), "app:ann".into()]).await.unwrap();
    assert_eq!(positions[0], None);
    let unwritten = positions[1].clone().expect("a log that nothing was written to");
    assert!(unwritten.offset == 0 && !continues(&log.epoch, &unwritten.epoch), "{log:?} {unwritten:?}");
    let again = engine.append("app:ann", "1").await.position;
    assert!(!continues(&log.epoch, &again.epoch), "{log:?} {again:?}");
    let InboxState::Unfilled(new) = broker.open_inbox(&timeline(&ann)).await.unwrap() else {
        panic!("the inbox was not dropped")
    };
    assert_ne!(new, epoch);
    // A version lower than the one before the replacement.
    let tally = Tally { likes: 1, comments: 0, version: 2 };
    assert_eq!(broker.tallies(&[object]).await.unwrap(), [None]);
    broker.set_tallies(&[(object, tally)]).await.unwrap();
    assert_eq!(broker.tallies(&[object]).await.unwrap(), [Some(tally)]);
}

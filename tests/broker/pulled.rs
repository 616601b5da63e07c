//! Entries of the pull log: every inbox takes each entry once.

use feedline::broker::{Attempt, InboxState, Pull, Receipt};
use feedline::model::{Entry, GoneReason, PostId, UserId};

use crate::engine::{Engine, Heard, ids, post, posts, timeline, timelines, user};

/// Writes one entry of the pull log to one user's inbox.
pub(crate) async fn pull(engine: &Engine, user: &UserId, mark: u64, entry: &Entry, attempt: Attempt) -> Receipt {
    let users = std::slice::from_ref(user);
    engine.broker.pull(Pull { mark, entry, inboxes: &timelines(users), attempt }).await.unwrap()[0]
}

async fn mark(engine: &Engine, user: &UserId) -> u64 {
    let mark = engine.broker.read_inbox(&timeline(user)).await.unwrap().expect("the inbox exists").mark;
    match engine.broker.open_inbox(&timeline(user)).await.unwrap() {
        InboxState::Ready(_, opened) => assert_eq!(opened, mark),
        InboxState::Unfilled(_) => panic!("the inbox is not filled"),
    }
    mark
}

fn gone(id: u64) -> Entry {
    Entry::Gone(PostId(id), GoneReason::Deleted)
}

pub(crate) async fn log_entries_are_applied_once(mut engine: Engine) {
    let (ann, bo) = (user("ann"), user("bo"));
    let first = Attempt::First;
    engine.open_with(&ann, &[7]).await;
    assert_eq!(mark(&engine, &ann).await, 0);
    assert_eq!(pull(&engine, &ann, 5, &post(10), first).await, Receipt::Written(0));
    assert_eq!(pull(&engine, &ann, 5, &post(10), first).await, Receipt::Unchanged);
    assert_eq!(mark(&engine, &ann).await, 5);
    engine.broker.subscribe("timeline:ann").await.unwrap();
    // A pull cursor covers all earlier entries, for every attempt and every repeat.
    assert_eq!(pull(&engine, &ann, 4, &post(9), first).await, Receipt::Unchanged);
    assert_eq!(pull(&engine, &ann, 8, &post(11), first).await, Receipt::Written(1));
    assert_eq!(
        pull(&engine, &ann, 9, &gone(99), Attempt::Repeated).await,
        Receipt::Unchanged,
        "it does not hold the post"
    );
    assert_eq!(pull(&engine, &ann, 10, &Entry::Edited(PostId(99)), Attempt::Repeated).await, Receipt::Unchanged);
    assert_eq!(pull(&engine, &ann, 12, &gone(7), first).await, Receipt::Written(1));
    assert_eq!(mark(&engine, &ann).await, 12);
    assert_eq!(pull(&engine, &ann, 13, &gone(98), first).await, Receipt::Written(1), "written without a search");
    assert_eq!(engine.entries(&ann).await, [post(7), post(10), post(11), gone(7), gone(98)]);
    assert!(matches!(&engine.all_pushes().await[..], [Heard::Entry(..), Heard::Entry(..), Heard::Entry(..)]));
    // A missing inbox is skipped and is not created.
    assert_eq!(pull(&engine, &bo, 12, &post(10), first).await, Receipt::Absent);
    assert_eq!(engine.broker.read_inbox(&timeline(&bo)).await.unwrap(), None);
    let users = [bo.clone(), ann.clone()];
    let both = Pull { mark: 14, entry: &post(12), inboxes: &timelines(&users), attempt: first };
    assert_eq!(engine.broker.pull(both).await.unwrap(), [Receipt::Absent, Receipt::Written(1)]);
}

pub(crate) async fn posts_pulled_and_pushed_appear_once(engine: Engine) {
    let ann = user("ann");
    engine.open(&ann).await;
    // The post was merged by a follow.
    engine.broker.merge_inbox(&timeline(&ann), &[PostId(20)], PostId::ZERO).await.unwrap();
    assert_eq!(pull(&engine, &ann, 1, &post(20), Attempt::First).await, Receipt::Unchanged);
    // Posts written to inboxes before the author became pulled, and by a worker that has not noticed the change yet.
    engine.fan(&ann, post(30)).await;
    assert_eq!(pull(&engine, &ann, 2, &post(30), Attempt::Repeated).await, Receipt::Unchanged);
    assert_eq!(pull(&engine, &ann, 3, &post(40), Attempt::Repeated).await, Receipt::Written(0));
    assert_eq!(engine.fan(&ann, post(40)).await, Receipt::Unchanged);
    assert_eq!(engine.entries(&ann).await, posts(&[20, 30, 40]));
    // While the backfill is in progress.
    let bo = user("bo");
    let epoch = engine.open_unfilled(&bo).await;
    assert_eq!(pull(&engine, &bo, 4, &post(50), Attempt::First).await, Receipt::Written(0));
    engine.fill(&bo, &epoch, &[45, 50], 0).await;
    assert_eq!(engine.entries(&bo).await, posts(&[45, 50]));
    assert_eq!(mark(&engine, &bo).await, 4);
}

pub(crate) async fn inboxes_catch_up_to_a_position(mut engine: Engine) {
    let ann = user("ann");
    let epoch = engine.open_unfilled(&ann).await;
    let news = [post(3), gone(1), Entry::Edited(PostId(2)), post(2), Entry::Edited(PostId(9)), gone(8), post(4)];
    assert_eq!(engine.broker.catch_up_inbox(&timeline(&ann), &epoch, &news, 7).await.unwrap(), None, "not filled");
    engine.fill(&ann, &epoch, &[1, 2], 0).await;
    engine.broker.subscribe("timeline:ann").await.unwrap();
    let other = "another".into();
    assert_eq!(engine.broker.catch_up_inbox(&timeline(&ann), &other, &news, 7).await.unwrap(), None, "not this one");
    assert_eq!(mark(&engine, &ann).await, 0);
    let (position, written) =
        engine.broker.catch_up_inbox(&timeline(&ann), &epoch, &news, 7).await.unwrap().expect("the inbox exists");
    assert_eq!((position.offset, written), (6, 4));
    let all = [post(1), post(2), post(3), gone(1), Entry::Edited(PostId(2)), post(4)];
    assert_eq!(engine.entries(&ann).await, all);
    assert_eq!(engine.all_pushes().await.len(), 4);
    assert_eq!(mark(&engine, &ann).await, 7);
    // A repeat changes nothing, and an earlier cursor does not move a later one back.
    let again =
        engine.broker.catch_up_inbox(&timeline(&ann), &epoch, &news, 6).await.unwrap().expect("the inbox exists");
    assert_eq!((again.0.offset, again.1, mark(&engine, &ann).await), (6, 0, 7));
    assert_eq!(pull(&engine, &ann, 7, &post(5), Attempt::First).await, Receipt::Unchanged);
    // An entry out of order: the inbox is searched for a post older than those written by fan-out.
    assert_eq!(pull(&engine, &ann, 8, &post(4), Attempt::First).await, Receipt::Unchanged);
    let nothing =
        engine.broker.catch_up_inbox(&timeline(&ann), &epoch, &[], 20).await.unwrap().expect("the inbox exists");
    assert_eq!((nothing.0.offset, nothing.1, mark(&engine, &ann).await), (6, 0, 20));
    assert_eq!(engine.broker.catch_up_inbox(&timeline(&user("bo")), &epoch, &news, 7).await.unwrap(), None, "nobody");
}

pub(crate) async fn inboxes_stay_bounded_during_catch_up(engine: Engine) {
    let ann = user("ann");
    engine.open(&ann).await;
    let epoch = engine.broker.read_inbox(&timeline(&ann)).await.unwrap().expect("the inbox exists").top.epoch;
    let many: Vec<Entry> = (1..=400).map(post).collect();
    engine.broker.catch_up_inbox(&timeline(&ann), &epoch, &many, 400).await.unwrap().expect("the inbox exists");
    for id in 401..=600 {
        pull(&engine, &ann, id, &post(id), Attempt::First).await;
    }
    let inbox = engine.broker.read_inbox(&timeline(&ann)).await.unwrap().expect("the inbox exists");
    let length = inbox.entries.len() as u64;
    assert!((engine.length()..engine.length() + 110).contains(&length), "{length}");
    // All dropped posts lie at or below the floor.
    assert_eq!((inbox.floor.0, inbox.top.offset, inbox.mark), (600 - length, 600, 600));
}

pub(crate) async fn the_winning_fill_reports_its_position(engine: Engine) {
    let ann = user("ann");
    let epoch = engine.open_unfilled(&ann).await;
    let fill = async |past: &[u64], mark| {
        let filled = engine.broker.fill_inbox(&timeline(&ann), &epoch, &ids(past), PostId::ZERO, mark).await.unwrap();
        filled.expect("the inbox exists").offset
    };
    assert_eq!(fill(&[1, 2], 5).await, 2);
    assert_eq!(mark(&engine, &ann).await, 5);
    // A backfill that is read later, but stored too late: its additional posts are not in the inbox.
    assert_eq!(fill(&[1, 2, 3], 6).await, 2);
    assert_eq!(mark(&engine, &ann).await, 5);
    // If an inbox took entries of the log while it was being filled, the later cursor applies.
    let bo = user("bo");
    let epoch = engine.open_unfilled(&bo).await;
    pull(&engine, &bo, 9, &post(4), Attempt::First).await;
    engine
        .broker
        .fill_inbox(&timeline(&bo), &epoch, &ids(&[1, 2]), PostId::ZERO, 7)
        .await
        .unwrap()
        .expect("the inbox exists");
    assert_eq!(mark(&engine, &bo).await, 9);
}

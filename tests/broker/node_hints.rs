//! One message for all inboxes of a page that one connection alone hears.

use std::slice;
use std::time::Duration;

use feedline::broker::{
    Attempt, BrokerError, FanOut, FannedOut, InboxState, PageRecipients, Pull, Receipt, RedisOptions,
};
use feedline::model::{Position, PostId, UserId};

use crate::engine::{Engine, Heard, PATIENCE, post, redis_options, timeline, timelines, user};
use crate::redis_server::RedisServer;

/// Two nodes on one Redis, whose only publications are hints.
async fn nodes() -> [Engine; 2] {
    let server = RedisServer::start();
    let options = RedisOptions { probe_every: Duration::from_secs(60), ..redis_options(&server) };
    let here = Engine::redis_with(server, options).await;
    let there = here.beside().await;
    [here, there]
}

/// A client of this node joins the timeline of a user.
async fn join(node: &Engine, user: &UserId) -> Position {
    node.broker.subscribe(&format!("timeline:{user}")).await.unwrap();
    match node.broker.open_inbox(&timeline(user)).await.unwrap() {
        InboxState::Ready(position, _) => position,
        InboxState::Unfilled(epoch) => node.fill(user, &epoch, &[], 0).await.expect("the inbox exists"),
    }
}

async fn leave(node: &Engine, user: &UserId) {
    node.broker.unsubscribe(&format!("timeline:{user}")).await.unwrap();
}

/// The connection that is on record as the only one that hears the inbox.
fn record(server: &RedisServer, user: &UserId) -> Option<String> {
    let answer = server.ask_all(&format!("HGET feedline:{{timeline:{user}}}:m c"));
    let mut lines = answer.lines();
    (lines.next()? != "$-1").then(|| lines.next().expect("a value").to_owned())
}

async fn fan(node: &Engine, id: u64, users: &[UserId]) -> Result<Vec<Receipt>, BrokerError> {
    let (attempt, entry, author) = (node.attempt(id), post(id), user("author"));
    let page = PageRecipients::Users(0);
    let page = FanOut { attempt: &attempt, page: &page, entry: &entry, author: &author, users, created_at: 0 };
    match node.broker.fan_out(page).await? {
        FannedOut::Written(receipts) => Ok(receipts),
        FannedOut::Fenced => panic!("the job has no other attempt"),
    }
}

fn heard(user: &UserId, epoch: &Position, offset: u64, id: u64) -> Heard {
    let position = Position { offset, epoch: epoch.epoch.clone() };
    Heard::Entry(format!("timeline:{user}"), Some(position), post(id))
}

async fn resynced(node: &mut Engine) {
    while node.hear().await != Heard::Resync {}
}

#[tokio::test]
async fn a_page_is_one_message_for_each_node() {
    let [mut here, mut there] = nodes().await;
    let users = ["ann", "bo", "cy", "dee", "gone"].map(user);
    let [ann, bo, cy, dee, _] = &users;
    let (a, b, c) = (join(&here, ann).await, join(&here, bo).await, join(&there, cy).await);
    here.open(dee).await;
    let server = here.server.as_ref().unwrap();
    assert_eq!(record(server, ann), record(server, bo));
    assert_ne!(record(server, ann), record(server, cy));
    assert_eq!((record(server, dee), record(server, ann).is_some()), (None, true));

    let receipts = [1, 1, 1, 0].map(Receipt::Written).into_iter().chain([Receipt::Absent]).collect::<Vec<_>>();
    server.ask("CONFIG RESETSTAT");
    assert_eq!(fan(&there, 7, &users).await.unwrap(), receipts);
    assert_eq!(server.calls("publish"), 3, "one for each node, and one that nobody hears");
    let pull = Pull { mark: 1, entry: &post(8), inboxes: &timelines(&users), attempt: Attempt::First };
    assert_eq!(there.broker.pull(pull).await.unwrap(), receipts);
    assert_eq!(server.calls("publish"), 6);
    for (offset, id) in [(1, 7), (2, 8)] {
        assert_eq!(here.hear().await, heard(ann, &a, offset, id));
        assert_eq!(here.hear().await, heard(bo, &b, offset, id));
        assert_eq!(there.hear().await, heard(cy, &c, offset, id));
    }
    assert_eq!((here.all_pushes().await, there.all_pushes().await), (vec![], vec![]));
}

#[tokio::test]
async fn a_record_names_the_only_connection_that_hears_an_inbox() {
    let [mut here, mut there] = nodes().await;
    let (ann, bo) = (user("ann"), user("bo"));
    let of = |engine: &Engine, user: &UserId| record(engine.server.as_ref().unwrap(), user);
    let first = join(&here, &ann).await;
    let recorded = of(&here, &ann).expect("a record");
    there.broker.open_inbox(&timeline(&ann)).await.unwrap();
    assert_eq!(of(&here, &ann), Some(recorded.clone()), "the other node does not hear the inbox");

    assert_eq!(join(&there, &ann).await, first);
    assert_eq!(of(&here, &ann), None, "both nodes hear it");
    assert_eq!(fan(&here, 7, slice::from_ref(&ann)).await.unwrap(), [Receipt::Written(2)]);
    assert_eq!((here.hear().await, there.hear().await), (heard(&ann, &first, 1, 7), heard(&ann, &first, 1, 7)));

    leave(&there, &ann).await;
    here.broker.positions(&["timeline:ann".into()]).await.unwrap();
    assert_eq!(of(&here, &ann), Some(recorded.clone()), "the comparison of positions renews the record");
    leave(&here, &ann).await;
    assert_eq!(join(&there, &ann).await.offset, 1);
    assert!(of(&here, &ann).is_some_and(|other| other != recorded), "the reader has moved");

    // Both nodes begin to hear an inbox before either opens it.
    here.broker.subscribe("timeline:bo").await.unwrap();
    there.broker.subscribe("timeline:bo").await.unwrap();
    join(&here, &bo).await;
    assert_eq!(of(&here, &bo), None);
    join(&there, &bo).await;
    assert_eq!(of(&here, &bo), None);
}

/// A node's record may come late, after the node has left and another one has joined.
#[tokio::test]
async fn hints_for_another_node_are_redirected() {
    let [here, mut there] = nodes().await;
    let (ann, bo) = (user("ann"), user("bo"));
    join(&here, &ann).await;
    let begin = join(&there, &bo).await;
    let server = here.server.as_ref().unwrap();
    let wrong = record(server, &ann).unwrap();
    let right = record(server, &bo).unwrap();
    assert_eq!(server.ask(&format!("HSET feedline:{{timeline:bo}}:m c {wrong}")), ":0");
    fan(&here, 7, &[ann.clone(), bo.clone()]).await.unwrap();
    assert_eq!(there.hear().await, heard(&bo, &begin, 1, 7));
    assert_eq!((record(server, &bo), record(server, &ann)), (None, Some(wrong.clone())));

    // A record that was renewed in the meantime stays.
    there.broker.positions(&["timeline:bo".into()]).await.unwrap();
    assert_eq!(server.ask(&format!(r#"PUBLISH feedline:hints:{wrong} "p9 bo 2 {}""#, begin.epoch)), ":1");
    assert_eq!(there.hear().await, heard(&bo, &begin, 2, 9));
    assert_eq!(record(server, &bo), Some(right));
}

#[tokio::test]
async fn hints_for_a_lost_connection_go_to_all_that_hear_the_inbox() {
    let [mut here, there] = nodes().await;
    let (ann, bo) = (user("ann"), user("bo"));
    let (a, b) = (join(&here, &ann).await, join(&here, &bo).await);
    let lost = record(here.server(), &ann).unwrap();
    assert!(here.server().ask("CLIENT KILL TYPE pubsub").starts_with(':'));
    resynced(&mut here).await;
    assert_eq!(record(here.server(), &ann).as_ref(), Some(&lost));
    let users = [ann.clone(), bo.clone()];
    assert_eq!(fan(&there, 7, &users).await.unwrap(), [Receipt::Written(1), Receipt::Written(1)]);
    assert_eq!((here.hear().await, here.hear().await), (heard(&ann, &a, 1, 7), heard(&bo, &b, 1, 7)));
    assert_eq!((record(here.server(), &ann), record(here.server(), &bo)), (None, None));
    here.broker.positions(&["timeline:ann".into()]).await.unwrap();
    assert!(record(here.server(), &ann).is_some_and(|now| now != lost), "the new connection has another name");
    fan(&there, 8, &users).await.unwrap();
    let mut last = [here.hear().await, here.hear().await];
    last.sort_by_key(|heard| format!("{heard:?}"));
    assert_eq!(last, [heard(&ann, &a, 2, 8), heard(&bo, &b, 2, 8)]);
}

#[tokio::test]
async fn records_of_another_run_of_redis_lose_no_hint() {
    let [mut here, _] = nodes().await;
    let ann = user("ann");
    join(&here, &ann).await;
    let before = record(here.server(), &ann).unwrap();
    here.server().save();
    here.server().kill();
    here.server().start_again();
    resynced(&mut here).await;
    tokio::time::timeout(PATIENCE, async {
        while here.broker.ping().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the broker recovers");
    assert_eq!(record(here.server(), &ann), Some(before.clone()));
    assert_eq!(
        fan(&here, 7, slice::from_ref(&ann)).await.unwrap(),
        [Receipt::Written(1)],
        "nobody has the former name"
    );
    assert_eq!(record(here.server(), &ann), None);
    let begin = join(&here, &ann).await;
    assert!(record(here.server(), &ann).is_some_and(|now| now != before));
    fan(&here, 8, slice::from_ref(&ann)).await.unwrap();
    while here.hear().await != heard(&ann, &begin, begin.offset + 1, 8) {}
}

/// A key of another type stands for any failure in the middle of a page.
#[tokio::test]
async fn a_page_that_fails_half_way_hints_at_what_it_wrote() {
    let [mut here, there] = nodes().await;
    let users = ["ann", "bo", "cy"].map(user);
    let begin = join(&here, &users[0]).await;
    join(&here, &users[1]).await;
    here.server().ask("SET feedline:{timeline:bo}:l x");
    let failed = fan(&there, 7, &users).await;
    assert!(matches!(&failed, Err(BrokerError::Failed(reason)) if reason.contains("WRONGTYPE")), "{failed:?}");
    assert_eq!(here.hear().await, heard(&users[0], &begin, 1, 7));
    let slice = here.broker.read_inbox(&timeline(&users[0])).await.unwrap().unwrap();
    assert_eq!(slice.entries, [(1, feedline::model::Entry::Post(PostId(7)))]);
}

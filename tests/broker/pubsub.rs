//! The messages that subscribers receive.

use bytes::Bytes;
use feedline::broker::{PresenceEvent, Signal, Span};
use feedline::model::Position;

use crate::engine::{Engine, Heard, data, post, to, user};

pub(crate) async fn hints_arrive_in_order_with_their_positions(mut engine: Engine) {
    engine.broker.subscribe("app:1").await.unwrap();
    engine.broker.subscribe("app:1").await.unwrap();
    for id in 1..=200 {
        assert_eq!(engine.broker.append(to(&post(id))).await.unwrap().receivers, 1);
    }
    let epoch = engine.broker.position("app:1").await.unwrap().unwrap().epoch;
    let heard = engine.all_pushes().await;
    let expected = (1..=200).map(|offset| {
        let position = Position { offset, epoch: epoch.clone() };
        Heard::Entry("app:1".to_owned(), Some(position), post(offset))
    });
    assert_eq!(heard, expected.collect::<Vec<_>>());
}

pub(crate) async fn only_subscribed_channels_are_delivered(mut engine: Engine) {
    assert_eq!(engine.append("app:1", "before").await.receivers, 0);
    engine.broker.subscribe("app:1").await.unwrap();
    assert_eq!(engine.append("app:2", "elsewhere").await.receivers, 0);
    assert_eq!(engine.append("app:1", "now").await.receivers, 1);
    engine.broker.unsubscribe("app:1").await.unwrap();
    engine.broker.unsubscribe("app:1").await.unwrap();
    engine.broker.unsubscribe("never").await.unwrap();
    assert_eq!(engine.append("app:1", "after").await.receivers, 0);
    let heard = engine.all_pushes().await;
    assert!(matches!(&heard[..], [Heard::Entry(_, Some(_), entry)] if *entry == data("now")), "{heard:?}");
}

pub(crate) async fn ephemeral_publications_are_in_no_log(mut engine: Engine) {
    let nobody = engine.broker.publish("app:1", &post(1)).await.unwrap();
    assert_eq!((nobody.receivers, nobody.position.offset, &*nobody.position.epoch), (0, 0, ""));
    engine.broker.subscribe("app:1").await.unwrap();
    assert_eq!(engine.broker.publish("app:1", &data("\"data\":1")).await.unwrap().receivers, 1);
    assert_eq!(engine.hear().await, Heard::Entry("app:1".to_owned(), None, data("\"data\":1")));
    let log = engine.broker.read("app:1", Span::After(0, 1)).await.unwrap().unwrap();
    assert_eq!((log.top.offset, log.entries), (0, vec![]));
}

pub(crate) async fn signals_arrive(mut engine: Engine) {
    let join = PresenceEvent::Join(Bytes::from_static(b"{\"user\":\"ann\"}"));
    let leave = PresenceEvent::Leave(Bytes::from_static(b"{\"user\":\"ann\"}"));
    engine.broker.publish_presence_event("app:1", &join).await.unwrap();
    engine.broker.subscribe("app:1").await.unwrap();
    engine.broker.publish_presence_event("app:1", &join).await.unwrap();
    engine.broker.publish_presence_event("app:2", &join).await.unwrap();
    engine.broker.publish_presence_event("app:1", &leave).await.unwrap();
    assert_eq!(engine.hear().await, Heard::Notice("app:1".to_owned(), join));
    assert_eq!(engine.hear().await, Heard::Notice("app:1".to_owned(), leave));
    engine.broker.signal(Signal::LedgerReplaced).await.unwrap();
    assert_eq!(engine.hear().await, Heard::Signal(Signal::LedgerReplaced));
    let own = engine.broker.node().to_string();
    assert!(engine.broker.signal_node(&own, Signal::EventsWritten).await.unwrap());
    assert_eq!(engine.hear().await, Heard::Signal(Signal::EventsWritten));
    assert!(!engine.broker.signal_node("nobody", Signal::EventsWritten).await.unwrap());
}

pub(crate) async fn listened_users_are_connected(engine: Engine) {
    let users = ["ann", "bo", "cy", "dee"].map(user);
    let connected = async || engine.broker.connected(&users).await.unwrap();
    assert_eq!(connected().await, [false; 4]);
    engine.broker.subscribe("timeline:bo").await.unwrap();
    engine.broker.subscribe("timeline:dee").await.unwrap();
    // Neither another channel of the user nor an inbox without a listener counts.
    engine.broker.subscribe("notifications:cy").await.unwrap();
    engine.open(&users[0]).await;
    assert_eq!(connected().await, [false, true, false, true]);
    engine.broker.unsubscribe("timeline:bo").await.unwrap();
    assert_eq!(connected().await, [false, false, false, true]);
    assert_eq!(engine.broker.connected(&[]).await.unwrap(), [false; 0]);
}

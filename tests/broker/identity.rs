//! The identity of Redis, and the record of its ledger.

use feedline::broker::{Append, Broker as _, IdentityStore as _, RedisBroker, RedisOptions, Signal};
use feedline::ledger::{Partner, PartnerChange};

use crate::engine::{Engine, data, redis_options, to, user};

fn ledger(id: &str, adoptions: u64) -> Partner {
    Partner { id: id.into(), place: format!("sqlite://{id}"), adoptions }
}

fn change(expected: Option<Partner>, partner: Partner) -> PartnerChange {
    PartnerChange { expected, partner }
}

#[tokio::test]
async fn an_empty_redis_takes_the_first_ledger() {
    let engine = Engine::redis().await;
    let broker = &engine.broker;
    let identity = broker.identity().await.unwrap();
    assert!(identity.id.is_none() && identity.ledger.is_none(), "{identity:?}");
    assert!(broker.pair_ledger("A", &change(None, ledger("l", 0))).await.unwrap());
    assert!(!broker.pair_ledger("B", &change(None, ledger("l", 0))).await.unwrap(), "another was first");
    assert!(!broker.pair_ledger("A", &change(None, ledger("k", 0))).await.unwrap(), "another ledger was");
    assert!(broker.pair_ledger("A", &change(Some(ledger("l", 0)), ledger("l", 1))).await.unwrap());
    let identity = broker.identity().await.unwrap();
    assert_eq!((identity.id.as_deref(), identity.ledger), (Some("A"), Some(ledger("l", 1))));
    assert!(broker.place().starts_with("redis://127.0.0.1:") && broker.place().ends_with("/0 (prefix feedline)"));
}

#[tokio::test]
async fn nodes_show_themselves_and_keep_adoptions_out() {
    let engine = Engine::redis().await;
    let broker = &engine.broker;
    assert!(broker.pair_ledger("A", &change(None, ledger("l", 0))).await.unwrap());
    assert!(broker.show_node("1", 17, "A", &ledger("l", 0)).await.unwrap());
    assert!(!broker.show_node("2", 17, "B", &ledger("l", 0)).await.unwrap(), "the id is another one");
    assert!(!broker.show_node("2", 17, "A", &ledger("k", 0)).await.unwrap(), "the ledger is another one");
    let seen = broker.identity().await.unwrap().nodes;
    assert_eq!(
        seen.iter().map(|node| (&*node.id, node.lease_until, node.is_live)).collect::<Vec<_>>(),
        [("1", 17, true)]
    );
    let adoption = change(Some(ledger("l", 0)), ledger("k", 1));
    assert!(!broker.adopt_ledger("A", &adoption).await.unwrap(), "a node is alive");
    broker.hide_node("1").await.unwrap();
    assert!(broker.adopt_ledger("A", &adoption).await.unwrap());
}

#[tokio::test]
async fn a_node_restores_the_identity_of_an_emptied_redis() {
    let engine = Engine::redis().await;
    let broker = &engine.broker;
    assert!(broker.pair_ledger("A", &change(None, ledger("l", 0))).await.unwrap());
    engine.server.as_ref().unwrap().ask("FLUSHALL");
    assert!(broker.show_node("1", 17, "A", &ledger("l", 0)).await.unwrap());
    let identity = broker.identity().await.unwrap();
    assert_eq!((identity.id.as_deref(), identity.ledger), (Some("A"), Some(ledger("l", 0))));
}

/// Pub/sub ignores the numbers of databases.
#[tokio::test]
async fn deployments_in_two_databases_do_not_hear_each_other() {
    let mut one = Engine::redis().await;
    let options = redis_options(one.server());
    let url = format!("{}/3", options.url.trim_end_matches('/'));
    let broker = RedisBroker::connect(RedisOptions { url, ..options }).await.unwrap();
    assert!(broker.place().ends_with("/3 (prefix feedline)"), "{}", broker.place());
    one.broker.subscribe("app:1").await.unwrap();
    let entry = data("elsewhere");
    let everyone = user("ann");
    assert_eq!(broker.append(Append { channel: "app:1", ..to(&entry) }).await.unwrap().receivers, 0);
    assert_eq!(broker.publish("app:1", &entry).await.unwrap().receivers, 0);
    assert_eq!(broker.signal(Signal::LedgerReplaced).await.unwrap(), 1, "its own connection");
    one.broker.subscribe("timeline:ann").await.unwrap();
    assert_eq!(broker.connected(&[everyone]).await.unwrap(), [false]);
    assert!(one.all_pushes().await.is_empty());
    // Within the database all arrive.
    broker.subscribe("app:1").await.unwrap();
    assert_eq!(broker.append(Append { channel: "app:1", ..to(&entry) }).await.unwrap().receivers, 1);
    let names = one.server().ask_all("PUBSUB CHANNELS feedline:3:*");
    assert!(names.contains("feedline:3:{app:1}:l") && names.contains("feedline:3:signal"), "{names}");
}

//! The live nodes, and the record of the broker.

use std::sync::Arc;

use feedline::ledger::{Ledger, NewNode, NodeDetails, Partner, PartnerChange};

use crate::support::conformance;

conformance! {
    the_record_is_changed_only_if_it_is_the_expected_one
    live_nodes_of_one_broker_keep_out_those_of_another
    nodes_are_renewed_until_they_are_removed
    nothing_is_adopted_while_a_node_is_alive
    a_failed_first_start_leaves_no_record
}

type Any = Arc<dyn Ledger>;

fn node(id: &str) -> NewNode {
    NewNode { id: id.into(), description: NodeDetails { name: format!("host of {id}"), ..Default::default() } }
}

fn partner(id: &str, adoptions: u64) -> Partner {
    Partner { id: id.into(), place: format!("redis://{id}"), adoptions }
}

fn change(expected: Option<Partner>, partner: Partner) -> PartnerChange {
    PartnerChange { expected, partner }
}

async fn the_record_is_changed_only_if_it_is_the_expected_one(ledger: Any) {
    let identity = ledger.identity().await.unwrap();
    assert!(identity.id.len() >= 12 && identity.broker.is_none() && identity.nodes.is_empty(), "{identity:?}");
    let (a, again) = (partner("a", 0), partner("a", 1));
    assert_eq!(ledger.register_node(&node("1"), &change(Some(a.clone()), again.clone())).await.unwrap(), None);
    assert!(ledger.register_node(&node("1"), &change(None, a.clone())).await.unwrap().is_some());
    assert_eq!(ledger.register_node(&node("2"), &change(None, a.clone())).await.unwrap(), None);
    assert!(ledger.register_node(&node("2"), &change(Some(a), again.clone())).await.unwrap().is_some());
    let after = ledger.identity().await.unwrap();
    assert_eq!((after.id, after.broker), (identity.id, Some(again)));
    assert_eq!(after.nodes.iter().map(|node| &*node.description.name).collect::<Vec<_>>(), ["host of 1", "host of 2"]);
}

async fn live_nodes_of_one_broker_keep_out_those_of_another(ledger: Any) {
    let (a, b) = (partner("a", 0), partner("b", 0));
    ledger.register_node(&node("1"), &change(None, a.clone())).await.unwrap().expect("the first");
    assert_eq!(ledger.register_node(&node("2"), &change(Some(a.clone()), b.clone())).await.unwrap(), None);
    let identity = ledger.identity().await.unwrap();
    assert_eq!((identity.broker.as_ref(), identity.nodes.len()), (Some(&a), 1), "nothing has changed");
    ledger.remove_node("1", None).await.unwrap();
    assert!(ledger.register_node(&node("2"), &change(Some(a), b)).await.unwrap().is_some());
}

async fn nodes_are_renewed_until_they_are_removed(ledger: Any) {
    let a = partner("a", 0);
    let begun = ledger.register_node(&node("1"), &change(None, a)).await.unwrap().expect("the first");
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let mut numbered = node("1");
    numbered.description.number = Some(7);
    let renewed = ledger.renew_node(&numbered).await.unwrap().expect("it is registered");
    assert!(renewed > begun);
    let [row] = &ledger.identity().await.unwrap().nodes[..] else { panic!("one node") };
    assert_eq!((row.lease_until, row.is_live, row.description.number), (renewed, true, Some(7)));
    ledger.remove_node("1", None).await.unwrap();
    assert_eq!(ledger.renew_node(&node("1")).await.unwrap(), None);
}

async fn nothing_is_adopted_while_a_node_is_alive(ledger: Any) {
    let (a, b) = (partner("a", 0), partner("b", 1));
    ledger.register_node(&node("1"), &change(None, a.clone())).await.unwrap().expect("the first");
    assert!(!ledger.adopt_broker(&change(Some(a.clone()), b.clone())).await.unwrap());
    ledger.remove_node("1", None).await.unwrap();
    assert!(!ledger.adopt_broker(&change(None, b.clone())).await.unwrap(), "it is not the record");
    assert!(ledger.adopt_broker(&change(Some(a), b.clone())).await.unwrap());
    assert_eq!(ledger.identity().await.unwrap().broker, Some(b));
}

async fn a_failed_first_start_leaves_no_record(ledger: Any) {
    let (a, b) = (partner("a", 0), partner("b", 0));
    ledger.register_node(&node("1"), &change(None, a.clone())).await.unwrap().expect("the first");
    ledger.remove_node("1", Some(&b)).await.unwrap();
    assert_eq!(ledger.identity().await.unwrap().broker, Some(a.clone()), "of another start");
    ledger.remove_node("1", Some(&a)).await.unwrap();
    assert_eq!(ledger.identity().await.unwrap().broker, None);
}

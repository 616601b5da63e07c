//! Likes that are settled at another node than the one that accepted them.

use serde_json::{Value, json};

use crate::client::Client;
use crate::cluster::post;
use crate::likers::Field;

/// The next push on a client's notifications channel.
async fn received(client: &mut Client, user: &str) -> Value {
    client.publication(&format!("notifications:{user}")).await["data"].take()
}

/// The first node, which takes all partitions, shares them with the second at a renewal of its lease: not within the
/// test.
const KEYS: [(&str, &str); 1] = [("fanout.lease", "300s")];

async fn check_receipts_from_another_nodes_settler(field: Field) {
    // The first node has all partitions.
    let [settler, other] = &field.nodes[..] else { panic!("two nodes") };
    let id = post(settler, "ann", "like me").await;
    let mut asker = Client::connect(other, "bo").await;
    let mut others = Vec::new();
    for (node, user) in [(other, "bo"), (settler, "bo"), (other, "cy"), (settler, "cy")] {
        others.push((user, Client::connect(node, user).await));
    }
    for (liked, method) in [(true, "likes.add"), (false, "likes.remove")] {
        asker.rpc(method, &json!({ "post": id })).await;
        let settled = received(&mut asker, "bo").await;
        let version = settled["version"].as_u64().expect("a version");
        let likes = u64::from(liked);
        let expected = json!({
            "type": "like.settled", "id": id, "liked": liked, "asks": 1, "likes": likes, "version": version
        });
        assert_eq!(settled, expected);
        // The user's connections to both nodes receive the new state.
        let expected = json!({ "type": "like.changed", "id": id, "liked": liked, "likes": likes, "version": version });
        for (user, client) in others.iter_mut().filter(|(user, _)| *user == "bo") {
            assert_eq!(received(client, user).await, expected);
        }
    }
    for (user, client) in &mut others {
        assert_eq!(client.pushed().await, [Value::Null; 0], "{user}");
    }
    // The requesting client received it once.
    assert_eq!(asker.pushed().await, [Value::Null; 0]);
    assert_eq!(settler.metric("feedline_likes_batch_sum").await, Some(2.0), "all were settled at the first node");
    assert_eq!(other.metric("feedline_likes_batch_sum").await, Some(0.0), "and none at the other");
}

#[tokio::test]
async fn receipts_from_another_nodes_settler_reach_the_requesting_connection_on_redis() {
    check_receipts_from_another_nodes_settler(Field::redis(2, &KEYS).await).await;
}

#[tokio::test]
async fn receipts_from_another_nodes_settler_reach_the_requesting_connection_on_postgres() {
    check_receipts_from_another_nodes_settler(Field::postgres(2, &KEYS).await).await;
}

//! Likes that are settled at another node than the one that was asked.

use serde_json::{Value, json};

use crate::client::Client;
use crate::cluster::post;
use crate::likers::Field;

/// What somebody's client is told next on their notifications.
async fn told(client: &mut Client, user: &str) -> Value {
    client.publication(&format!("notifications:{user}")).await["data"].take()
}

async fn only_the_connection_that_asked_hears_of_it_from_a_settler_at_another_node(field: Field) {
    // The first to start has all partitions.
    let [settler, other] = &field.nodes[..] else { panic!("two nodes") };
    let id = post(settler, "ann", "like me").await;
    let mut asker = Client::connect(other, "bo").await;
    let mut others = Vec::new();
    for (node, user) in [(other, "bo"), (settler, "bo"), (other, "cy"), (settler, "cy")] {
        others.push((user, post(node, "ann", "like me too").await, Client::connect(node, user).await));
    }
    for (liked, method) in [(true, "likes.add"), (false, "likes.remove")] {
        asker.rpc(method, &json!({ "id": id })).await;
        let settled = told(&mut asker, "bo").await;
        let version = settled["version"].as_u64().expect("a version");
        let likes = u64::from(liked);
        let expected = json!({
            "type": "like.settled", "id": id, "liked": liked, "asks": 1, "likes": likes, "version": version
        });
        assert_eq!(settled, expected);
    }
    // Nobody else was told: what they hear first is of what they asked for themselves.
    for (user, own, client) in &mut others {
        client.rpc("likes.add", &json!({ "id": own })).await;
        let settled = told(client, user).await;
        assert_eq!((&settled["type"], &settled["id"]), (&json!("like.settled"), &json!(own)), "{user}: {settled}");
    }
    // And the one that asked was told once.
    assert_eq!(asker.pushed().await, [Value::Null; 0]);
    assert_eq!(settler.metric("feedline_likes_batch_sum").await, Some(6.0), "all were settled at the first node");
    assert_eq!(other.metric("feedline_likes_batch_sum").await, Some(0.0), "and none at the other");
}

#[tokio::test]
async fn only_the_connection_that_asked_hears_of_it_from_a_settler_at_another_node_on_redis() {
    only_the_connection_that_asked_hears_of_it_from_a_settler_at_another_node(Field::redis(2, &[]).await).await;
}

#[tokio::test]
async fn only_the_connection_that_asked_hears_of_it_from_a_settler_at_another_node_on_postgres() {
    only_the_connection_that_asked_hears_of_it_from_a_settler_at_another_node(Field::postgres(2, &[]).await).await;
}

//! No edit is lost when several nodes edit one post at the same time.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::cluster::{Cluster, attempt, done};
use crate::redis_server::RedisServer;

/// Edits different fields of a post at the same time at alternating nodes, and checks that all edits are stored.
async fn check_edits_of_different_fields_survive(cluster: &Cluster) {
    for round in 0..10 {
        let node = |at: usize| &cluster.nodes[at % cluster.nodes.len()];
        let (_, made) = attempt(node(0), "bo", "POST", "/posts", &json!({ "text": format!("round {round}") })).await;
        let path = format!("/posts/{}", made["id"]);
        let changes = [
            json!({ "visibility": "followers" }),
            json!({ "text": "changed" }),
            json!({ "data": { "round": round } }),
            json!({ "location": { "lat": 1.0, "lon": 2.0 } }),
            json!({ "topics": ["feeds"] }),
            json!({ "media": [{ "type": "image", "url": "https://a.example/1" }] }),
        ];
        let edits = changes.iter().zip(round..).map(|(change, at)| attempt(node(at), "bo", "PATCH", &path, change));
        for (status, body) in join_all(edits).await {
            assert_eq!(status, 200, "{body}");
        }
        for node in &cluster.nodes {
            let post = done(node, "bo", "GET", &path).await;
            for change in &changes {
                let (field, value) = change.as_object().and_then(|change| change.iter().next()).expect("a field");
                assert_eq!(post[field], *value, "{field} in round {round}: {post}");
            }
            let (status, _) = attempt(node, "stranger", "GET", &path, &Value::Null).await;
            assert_eq!(status, 404, "a restricted post is public again in round {round}");
        }
    }
}

#[tokio::test]
async fn concurrent_edits_at_two_nodes_all_survive_on_sqlite() {
    check_edits_of_different_fields_survive(&Cluster::start().await).await;
}

#[tokio::test]
async fn concurrent_edits_at_two_nodes_all_survive_on_postgres() {
    let cluster = Cluster::start_on_postgres(RedisServer::start(), 2, &[]).await;
    check_edits_of_different_fields_survive(&cluster).await;
}

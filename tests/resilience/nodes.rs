//! Two nodes serve one feed.

use serde_json::{Value, json};

use crate::client::Client;
use crate::cluster::{Cluster, attempt, done, post, until};
use crate::server::Server;

#[tokio::test]
async fn writes_at_one_node_are_seen_at_the_other() {
    let cluster = Cluster::start().await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    done(a, "ann", "GET", "/users/ann").await;
    let mut bo = Client::connect(b, "bo").await;
    let mut ann = Client::connect(a, "ann").await;

    // The follow adds an older post, and a newer one arrives live. The author's own socket also receives it.
    let first = post(a, "ann", "first").await;
    done(b, "bo", "PUT", "/users/ann/follow").await;
    assert_eq!(bo.publication("timeline:bo").await["data"]["post"]["id"], first);
    let second = post(a, "ann", "second").await;
    let received = bo.publication("timeline:bo").await;
    assert_eq!((&received["data"]["type"], &received["data"]["post"]["id"]), (&json!("post"), &json!(second)));
    assert_eq!(ann.publication("timeline:ann").await["data"]["post"]["text"], "first");
    assert_eq!(ann.publication("timeline:ann").await["data"]["post"]["text"], "second");

    // A deletion at one node also removes the post at the other: from the socket, the page and the post cache.
    assert_eq!(done(b, "bo", "GET", &format!("/posts/{second}")).await["text"], "second");
    done(a, "ann", "DELETE", &format!("/posts/{second}")).await;
    let gone = bo.publication("timeline:bo").await["data"].clone();
    assert_eq!(gone, json!({ "type": "gone", "id": second, "reason": "deleted" }));
    let page = bo.rpc("timeline.read", &json!({})).await;
    assert_eq!(page["items"].as_array().map(Vec::len), Some(1), "{page}");
    assert_eq!(attempt(b, "bo", "GET", &format!("/posts/{second}"), &Value::Null).await.0, 404);

    done(b, "bo", "DELETE", "/users/ann/follow").await;
    let gone = bo.publication("timeline:bo").await["data"].clone();
    assert_eq!(gone, json!({ "type": "gone", "id": first, "reason": "unfollowed" }));
}

#[tokio::test]
async fn clients_recover_at_the_other_node() {
    let cluster = Cluster::start().await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    done(a, "ann", "GET", "/users/ann").await;
    done(a, "bo", "PUT", "/users/ann/follow").await;
    let mut bo = Client::connect(a, "bo").await;
    let page = bo.rpc("timeline.read", &json!({})).await;
    drop(bo);
    let ids = [post(a, "ann", "1").await, post(a, "ann", "2").await, post(b, "ann", "3").await];
    cluster.carried(crate::server::PATIENCE).await;
    let (mut bo, timeline) = Client::recover(b, "bo", &page["position"]).await;
    assert_eq!(timeline["recovered"], true, "{timeline}");
    let received = timeline["publications"].as_array().expect("publications");
    let mut recovered: Vec<_> =
        received.iter().filter_map(|received| received["data"]["post"]["id"].as_u64()).collect();
    // Two nodes deliver concurrently, so the order in the log is arbitrary.
    recovered.sort_unstable();
    assert_eq!(recovered, ids);
    let fourth = post(a, "ann", "4").await;
    assert_eq!(bo.publication("timeline:bo").await["data"]["post"]["id"], fourth);
}

#[tokio::test]
async fn nodes_that_start_stop_and_are_lost_are_in_the_logs_of_others() {
    let mut cluster = Cluster::start().await;
    let [first, second] = &mut cluster.nodes[..] else { panic!("two nodes") };
    let place = format!("_{}\"", second.port());
    let is_logged = async |first: &Server, text: &str| {
        let lines = || first.log().lines().any(|line| line.contains(text) && line.contains(&place));
        until(text, async || lines()).await;
    };
    second.kill();
    is_logged(first, "another node does not renew its lease").await;
    second.start_again().await;
    is_logged(first, "another node has started").await;
    second.stop().await;
    is_logged(first, "another node has stopped").await;
}

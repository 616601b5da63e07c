//! Revocations at one node apply at all others within a second, even with lost notifications and paused nodes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::cluster::{Cluster, pause, resume, until};
use crate::redis_server::RedisServer;
use crate::server::{Server, signed, unix};

/// The longest time until a revocation applies everywhere.
const SOON: Duration = Duration::from_secs(1);

fn issued(user: &str, id: &str) -> String {
    signed(&json!({ "sub": user, "jti": id, "iat": unix() - 5, "exp": unix() + 600 }))
}

async fn status(node: &Server, token: &str) -> u16 {
    let bearer = format!("Bearer {token}");
    node.http("GET", "/api/v1/timeline", &[("authorization", &bearer)], "").await.status.as_u16()
}

async fn socket(node: &Server, token: &str) -> Client {
    let mut client = Client::open(node).await;
    client.done(json!({ "connect": { "token": token } })).await;
    client
}

/// Calls a method of the server API at one node. A socket at another node must close with this code in time, and the
/// other node must refuse the token.
async fn ends(
    (at, method, body): (&Server, &str, Value),
    (other, socket, token): (&Server, &mut Client, &str),
    (code, refusal): (u16, u16),
) {
    let asked = Instant::now();
    assert_eq!(at.backend(method, &body).await, json!({ "result": {} }), "{method}");
    // The response may wait for the end of the current second.
    let answered = Instant::now().min(asked + SOON);
    assert_eq!(socket.closed().await.0, code, "{method}");
    assert!(answered.elapsed() < SOON, "{method}: the socket ended after {:?}", answered.elapsed());
    while status(other, token).await != refusal {
        assert!(answered.elapsed() < SOON, "{method}: the token still counts");
    }
}

async fn check_everything_ends_at_the_other_node(cluster: &Cluster) {
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    let tokens = ["ann", "bo", "cy", "dee"].map(|user| issued(user, user));
    let mut sockets = Vec::new();
    for token in &tokens {
        sockets.push(socket(b, token).await);
    }
    let mut at = sockets.iter_mut().zip(&tokens);
    let mut next = || at.next().map(|(socket, token)| (b, socket, token.as_str())).expect("one more");
    ends((a, "disconnect", json!({ "user": "ann" })), next(), (3503, 200)).await;
    ends((a, "revoke_token", json!({ "uid": "bo" })), next(), (3500, 401)).await;
    ends((a, "invalidate_user_tokens", json!({ "user": "cy" })), next(), (3500, 401)).await;
    ends((a, "block_user", json!({ "user": "dee" })), next(), (3507, 403)).await;
    a.backend("unblock_user", &json!({ "user": "dee" })).await;
    let begun = Instant::now();
    while status(b, &tokens[3]).await != 200 {
        assert!(begun.elapsed() < SOON, "the block stays");
    }
}

#[tokio::test]
async fn revocations_at_one_node_apply_at_the_other() {
    check_everything_ends_at_the_other_node(&Cluster::start().await).await;
}

#[tokio::test]
async fn revocations_at_one_node_apply_at_the_other_on_postgres() {
    check_everything_ends_at_the_other_node(&Cluster::start_on_postgres(RedisServer::start(), 2, &[]).await).await;
}

#[tokio::test]
async fn revocations_apply_without_a_signal() {
    let mut cluster = Cluster::start().await;
    let token = issued("ann", "1");
    let mut ann = socket(&cluster.nodes[1], &token).await;
    cluster.redis.kill();
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    assert_eq!(a.backend("revoke_token", &json!({ "uid": "1" })).await, json!({ "result": {} }));
    let answered = Instant::now();
    assert_eq!(ann.closed().await.0, 3500);
    assert!(answered.elapsed() < SOON, "it took {:?}", answered.elapsed());
    assert_eq!(status(b, &token).await, 401);
}

#[tokio::test]
async fn paused_nodes_learn_missed_revocations() {
    let cluster = Cluster::start_on_postgres(RedisServer::start(), 2, &[]).await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    let tokens = ["ann", "bo"].map(|user| issued(user, user));
    let mut ann = socket(b, &tokens[0]).await;
    a.backend("block_user", &json!({ "user": "bo" })).await;
    until("the other node refuses it", async || status(b, &tokens[1]).await == 403).await;
    pause(b);
    a.backend("revoke_token", &json!({ "uid": "ann" })).await;
    a.backend("unblock_user", &json!({ "user": "bo" })).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    resume(b);
    let awake = Instant::now();
    assert_eq!(ann.closed().await.0, 3500);
    while (status(b, &tokens[0]).await, status(b, &tokens[1]).await) != (401, 200) {
        assert!(awake.elapsed() < SOON);
    }
    assert!(awake.elapsed() < SOON, "it took {:?}", awake.elapsed());
}

/// A paused node rejects revoked tokens in requests that arrived during the pause and run first after it.
async fn check_woken_node_rejects_revoked_tokens(cluster: &Cluster) {
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    for round in 0..8 {
        let names = [format!("ann-{round}"), format!("bo-{round}")];
        let tokens = names.each_ref().map(|name| issued(name, name));
        for token in &tokens {
            assert_eq!(status(b, token).await, 200);
        }
        cluster.pause_without_lock(b).await;
        for (method, body) in
            [("revoke_token", json!({ "uid": names[0] })), ("block_user", json!({ "user": names[1] }))]
        {
            assert_eq!(a.backend(method, &body).await, json!({ "result": {} }), "round {round}");
        }
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let wakes = async {
            // Waits until the requests are in the node's socket buffers.
            tokio::time::sleep(Duration::from_millis(50)).await;
            resume(b);
        };
        let (first, second, ()) = tokio::join!(status(b, &tokens[0]), status(b, &tokens[1]), wakes);
        assert_eq!((first, second), (401, 403), "round {round}");
    }
}

#[tokio::test]
async fn woken_nodes_reject_tokens_revoked_during_the_pause() {
    check_woken_node_rejects_revoked_tokens(&Cluster::start().await).await;
}

#[tokio::test]
async fn woken_nodes_reject_tokens_revoked_during_the_pause_on_postgres() {
    check_woken_node_rejects_revoked_tokens(&Cluster::start_on_postgres(RedisServer::start(), 2, &[]).await).await;
}

//! Nodes notice that others have other keys.

use serde_json::json;

use crate::cluster::{Cluster, until};
use crate::server::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_keys_are_reported_on_both_nodes() {
    const METRIC: &str = "feedline_fingerprint_mismatches";
    // Each server would make a key of its own.
    let session_key = ("auth.session_key", "a key for sessions that is long enough for HS256");
    let cluster = Cluster::start_with(2, &[session_key]).await;
    let [one, two] = &cluster.nodes[..] else { panic!("two nodes") };
    assert_eq!(one.metric(METRIC).await, Some(0.0), "from the start");
    let mut keys = vec![("broker.url", cluster.redis.url()), ("ledger.url", cluster.ledger_url().to_owned())];
    keys.push(("auth.api_keys", "another key of a backend, of one node alone".to_owned()));
    let keys: Vec<_> = keys.iter().map(|(key, value)| (*key, value.as_str())).chain([session_key]).collect();
    let mut other = Server::start_with(&keys).await;
    for (node, differences) in [(&other, 2.0), (one, 1.0), (two, 1.0)] {
        node.metric_is(METRIC, differences).await;
        let ready = node.probe("/ready").await.expect("an answer");
        assert_eq!((ready.status.as_u16(), &ready.body["status"]), (200, &json!("ready")), "{ready:?}");
        let fingerprints = &ready.body["fingerprints"];
        let named = fingerprints["api_keys"].as_str().unwrap_or_default();
        assert!(named.starts_with("differs from that of "), "{ready:?}");
        let others = [&other, one, two].into_iter().filter(|it| it.port() != node.port());
        let found = others.filter(|it| named.contains(&format!("_{}", it.port()))).count();
        assert_eq!(found as f64, differences, "{named}");
        for same in ["token_keys", "session_keys", "key_versions", "clock", "version"] {
            assert_eq!(fingerprints[same], "ok", "{ready:?}");
        }
        let log = node.log();
        assert!(log.contains("api_keys differs from that of") && !log.contains("of one node alone"), "{log}");
    }
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    assert_eq!(one.log().matches("api_keys differs").count(), 1, "once, not every second:\n{}", one.log());
    other.stop().await;
    until("it is gone", async || one.metric(METRIC).await == Some(0.0)).await;
    assert_eq!(one.probe("/ready").await.expect("an answer").body["fingerprints"]["api_keys"], "ok");
}

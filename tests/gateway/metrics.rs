//! The metrics, as collectors read them.

use std::collections::BTreeMap;

use serde_json::json;

use crate::NAMESPACES;
use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::server::{Server, signed, unix};
use crate::tokens::connect;

#[tokio::test]
async fn collectors_get_the_format_that_they_ask_for() {
    let server = Server::start().await;
    server.post("ann", "a post").await;
    let plain = server.http("GET", "/metrics", &[], "").await;
    assert_eq!(plain.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = plain.body.as_str().expect("text").to_owned();
    // Each sample belongs to a family that is described above it.
    let mut kinds = BTreeMap::new();
    for line in text.lines() {
        match line.strip_prefix("# ").map(|line| line.splitn(3, ' ').collect::<Vec<_>>()) {
            Some(words) if words[0] == "TYPE" => _ = kinds.insert(words[1].to_owned(), words[2].to_owned()),
            Some(words) => assert_eq!(words[0], "HELP", "{line}"),
            None => {
                let name = line.split(['{', ' ']).next().unwrap();
                let family = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
                let kind = family.and_then(|family| kinds.get(family)).or_else(|| kinds.get(name));
                let kind = kind.unwrap_or_else(|| panic!("{line} has no type"));
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            }
        }
    }
    for sample in [
        r#"feedline_recoveries_total{outcome="too_old"} 0"#,
        r#"feedline_rate_limited_total{class="account_failures"} 0"#,
        r#"feedline_store_errors_total{store="ledger",reason="unreachable"} 0"#,
        r#"feedline_store_up{store="ledger"} 1"#,
        r#"feedline_http_requests_total{route="/api/v1/posts",status="201"} 1"#,
        "feedline_nodes 1",
    ] {
        assert!(text.lines().any(|line| line == sample), "{sample} is missing:\n{text}");
    }
    assert!(text.contains("feedline_build_info{version=") && text.contains("\nprocess_cpu_seconds_total "));
    assert!(text.contains(r#"feedline_operation_seconds_count{operation="posts.create"} 1"#), "{text}");

    let accept = [("accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")];
    let open = server.http("GET", "/metrics", &accept, "").await;
    assert!(open.header("content-type").is_some_and(|kind| kind.starts_with("application/openmetrics-text")));
    assert!(open.body.as_str().is_some_and(|text| text.ends_with("# EOF\n")));
}

#[tokio::test]
async fn recoveries_are_counted_by_their_outcome() {
    let server = Server::start_with(&[("namespaces", NAMESPACES), ("client.recovery_limit", "2")]).await;
    let mut reader = Client::connect(&server, "ann").await;
    let begin = reader.done(json!({ "subscribe": { "channel": "chat:1" } })).await["subscribe"].clone();
    let publish = async || server.backend("publish", &json!({ "channel": "chat:1", "data": 1 })).await;
    let recover = async |offset: u64, epoch: &str| {
        let mut client = Client::connect(&server, "bo").await;
        let since = json!({ "channel": "chat:1", "recover": true, "offset": offset, "epoch": epoch });
        client.done(json!({ "subscribe": since })).await;
    };
    let epoch = begin["epoch"].as_str().expect("an epoch");
    publish().await;
    recover(0, epoch).await;
    publish().await;
    publish().await;
    recover(0, epoch).await;
    recover(1, "another").await;
    for outcome in ["recovered", "too_old", "epoch_changed"] {
        server.metric_is(&format!("feedline_recoveries_total{{outcome=\"{outcome}\"}}"), 1.0).await;
    }
}

#[tokio::test]
async fn a_redis_that_is_away_is_down_and_comes_back() {
    let mut redis = RedisServer::start();
    let server = Server::start_with(&[("broker.url", &redis.url())]).await;
    let up = r#"feedline_store_up{store="redis"}"#;
    server.metric_is(up, 1.0).await;
    assert!(server.metric(r#"feedline_pool_connections{store="redis",state="open"}"#).await >= Some(1.0));
    redis.kill();
    server.metric_is(up, 0.0).await;
    let errors = server.metric(r#"feedline_store_errors_total{store="redis",reason="unreachable"}"#).await;
    assert!(errors > Some(0.0), "{errors:?}");
    redis.start_again();
    server.metric_is(up, 1.0).await;
}

#[tokio::test]
async fn denials_are_counted_and_logged_with_their_reason() {
    let server = Server::start_with(&[("namespaces", NAMESPACES), ("server.log_level", "debug")]).await;
    let expired = signed(&json!({ "sub": "ann", "exp": unix() - 60 }));
    assert_eq!(connect(&server, "x.y.z").await, 3500);
    assert_eq!(connect(&server, &expired).await, 109);
    let bearer = format!("Bearer {expired}");
    server.http("GET", "/api/v1/timeline", &[("authorization", &bearer)], "").await;
    server.http("POST", "/api/info", &[("x-api-key", "guessed")], "{}").await;
    server.http("GET", "/api/v1/timeline", &[("origin", "https://evil.example")], "").await;
    let mut client = Client::connect(&server, "ann").await;
    client.refused(json!({ "subscribe": { "channel": "nowhere:\n1" } })).await;
    client.refused(json!({ "subscribe": { "channel": "timeline:bo" } })).await;
    client.refused(json!({ "subscribe": { "channel": "post:17" } })).await;
    for (what, reason, count) in [
        ("token", "invalid", 1.0),
        ("token", "expired", 2.0),
        ("api_key", "wrong", 1.0),
        ("origin", "not listed", 1.0),
        ("subscription", "permission denied", 1.0),
        ("subscription", "unknown channel", 2.0),
        ("hook", "no answer", 0.0),
    ] {
        let name = format!("feedline_denials_total{{what=\"{what}\",reason=\"{reason}\"}}");
        assert_eq!(server.metric(&name).await, Some(count), "{name}");
    }
    let log = server.log();
    for detail in ["it is malformed", "https://evil.example", r#""nowhere:\n1""#, "timeline:bo"] {
        let is_denial = |line: &str| line.contains("denied") && line.contains(detail);
        assert!(log.lines().any(is_denial), "{detail} is not logged:\n{log}");
    }
    assert!(!log.contains("guessed") && !log.contains(&expired), "no secret is logged");
}

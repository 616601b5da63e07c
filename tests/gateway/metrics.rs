//! The metrics, as collectors read them.

use std::collections::BTreeMap;

use serde_json::json;

use crate::NAMESPACES;
use crate::client::Client;
use crate::postgres_server::shared;
use crate::redis_server::RedisServer;
use crate::server::{Server, signed, unix, until};
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

/// The names of the metrics in the table of the documentation, with their types.
fn documented() -> Vec<(String, String)> {
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md")).unwrap();
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `feedline_")?.split_once("` | "));
    let kinds = rows.map(|(name, rest)| (name, rest.split(" | ").next().unwrap()));
    let metrics = kinds.filter(|(_, kind)| ["counter", "gauge", "histogram"].contains(kind));
    metrics.map(|(name, kind)| (format!("feedline_{name}"), kind.to_owned())).collect()
}

#[tokio::test]
async fn all_families_are_exposed_before_the_first_client() {
    let server = Server::start().await;
    let text = server.probe("/metrics").await.unwrap().body.as_str().unwrap().to_owned();
    let documented = documented();
    assert!(documented.len() > 70, "{documented:?}");
    for (name, kind) in documented {
        assert!(text.lines().any(|line| line == format!("# TYPE {name} {kind}")), "{name} is missing:\n{text}");
    }
    let is_zero = |sample: &str| text.lines().any(|line| line.strip_prefix(sample).is_some_and(|value| value == " 0"));
    for sample in [
        r#"feedline_transport_connections{transport="uni_sse"}"#,
        r#"feedline_emulation_requests_total{outcome="forwarded"}"#,
        r#"feedline_connections_refused_total{reason="connections_per_address"}"#,
        r#"feedline_connections_refused_total{reason="tls"}"#,
        r#"feedline_connections_closed_total{code="3008"}"#,
        r#"feedline_connections_closed_total{code="1009"}"#,
        r#"feedline_drops_total{reason="slow"}"#,
        r#"feedline_commands_total{kind="rpc"}"#,
        r#"feedline_fanout_inboxes_total{outcome="live"}"#,
        r#"feedline_likes_reverted_total{reason="hidden"}"#,
        r#"feedline_push_sent_total{platform="fcm"}"#,
        r#"feedline_push_accepted_total{platform="apns"}"#,
        r#"feedline_push_failed_total{platform="webpush",reason="timeout"}"#,
        r#"feedline_push_dropped_total{reason="daily_cap"}"#,
        r#"feedline_push_tokens_removed_total{platform="webhook"}"#,
        r#"feedline_outlet_events_total{type="post.created"}"#,
        r#"feedline_http_requests_total{route="page",status="200"}"#,
        r#"feedline_http_requests_total{route="/connection/websocket",status="101"}"#,
    ] {
        assert!(is_zero(sample), "{sample} is not 0:\n{text}");
    }
    let contract = server.http("GET", "/api/openapi.json", &[], "").await.body;
    let paths = contract["paths"].as_object().unwrap().iter();
    let operations = paths.filter(|(path, _)| path.starts_with("/api/v1/"));
    let mut routes = 0;
    for (route, _) in operations {
        routes += 1;
        assert!(is_zero(&format!("feedline_http_requests_total{{route=\"{route}\",status=\"503\"}}")), "{route}");
    }
    assert!(routes > 50, "{routes} routes");
    for outcome in ["ok", "internal", "unavailable"] {
        let sample = format!("feedline_operations_total{{operation=\"posts.create\",outcome=\"{outcome}\"}}");
        assert!(is_zero(&sample), "{sample}");
    }
    // A collector reads all of it every few seconds.
    assert!(text.len() < 100_000, "{} bytes", text.len());
}

#[tokio::test]
async fn stores_and_consumers_of_the_configuration_are_exposed_from_the_start() {
    let redis = RedisServer::start();
    let secrets = json!(["a-secret-of-thirty-two-characters"]);
    let hook = json!([{ "name": "hook", "url": "http://127.0.0.1:8999/", "secrets": secrets }]).to_string();
    let server = Server::start_with(&[
        ("broker.url", &redis.url()),
        ("outlet.consumers", "app"),
        ("outlet.stream", "true"),
        ("outlet.webhooks", &hook),
        ("outlet.allow_networks", "127.0.0.0/8"),
    ])
    .await;
    let text = server.probe("/metrics").await.unwrap().body.as_str().unwrap().to_owned();
    for (sample, value) in [
        (r#"feedline_store_up{store="redis"}"#, 1),
        (r#"feedline_store_up{store="ledger"}"#, 1),
        (r#"feedline_outlet_delivered_total{consumer="app"}"#, 0),
        (r#"feedline_outlet_delivered_total{consumer="webhook:hook"}"#, 0),
        (r#"feedline_outlet_delivered_total{consumer="stream:redis"}"#, 0),
        (r#"feedline_outlet_rejected_total{consumer="webhook:hook",reason="timeout"}"#, 0),
        (r#"feedline_outlet_rejected_total{consumer="stream:redis",reason="unavailable"}"#, 0),
        (r#"feedline_outlet_given_up_total{consumer="webhook:hook"}"#, 0),
        (r#"feedline_outlet_missed_total{consumer="app"}"#, 0),
        (r#"feedline_outlet_waiting{consumer="app"}"#, 0),
        (r#"feedline_outlet_set_aside{consumer="webhook:hook"}"#, 0),
    ] {
        assert!(text.lines().any(|line| line == format!("{sample} {value}")), "{sample} is not {value}:\n{text}");
    }
    let lag = r#"feedline_outlet_lag_seconds{consumer="app"} 0"#;
    assert!(text.lines().any(|line| line.starts_with(lag)), "{text}");
}

#[tokio::test]
async fn missing_connections_are_counted_and_logged_until_they_are_open() {
    let postgres = shared();
    let name = postgres.database("template1").await;
    let role = format!("CREATE ROLE {name} LOGIN CONNECTION LIMIT 2; GRANT ALL ON DATABASE {name} TO {name}");
    postgres.ask(&name, &format!("{role}; GRANT ALL ON SCHEMA public TO {name}")).await;
    let url = postgres.url(&name).replace("feedline@", &format!("{name}@"));
    let server = Server::start_with(&[("ledger.url", &url), ("ledger.connections", "4")]).await;
    let missing = r#"feedline_pool_missing{store="ledger"}"#;
    server.metric_is(missing, 2.0).await;
    server.metric_is(r#"feedline_pool_connections{store="ledger",state="open"}"#, 2.0).await;
    let said = "cannot open all connections";
    until("it is logged", async || server.log().contains(said)).await;
    let log = server.log();
    let warning = log.lines().find(|line| line.contains(said)).unwrap();
    assert!(warning.contains("WARN") && warning.contains("wanted=4"), "{warning}");
    postgres.ask(&name, &format!("ALTER ROLE {name} CONNECTION LIMIT -1")).await;
    server.metric_is(missing, 0.0).await;
}

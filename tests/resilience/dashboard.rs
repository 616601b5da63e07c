//! The dashboard and the alerts of `ops/`, in a real Prometheus that collects from two servers.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::client::Client;
use crate::cluster::{Cluster, done, post, until};
use crate::prometheus::Prometheus;
use crate::redis_server::RedisServer;
use crate::server::Server;

/// The titles and the expressions of all panels, with the values that Grafana puts in.
fn panels() -> Vec<(String, String)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("ops/grafana.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(file).expect("a file")).expect("JSON");
    let mut found = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().expect("an expression");
            let expression = expression.replace("$job", ".*").replace("$__rate_interval", "15s");
            assert!(!expression.contains('$'), "{expression} has a variable that this test does not know");
            found.push((panel["title"].as_str().expect("a title").to_owned(), expression));
        }
    }
    found
}

/// The values of an expression that are numbers, one for each series.
async fn values(prometheus: &Prometheus, expression: &str) -> Vec<f64> {
    let query = utf8_percent_encode(expression, NON_ALPHANUMERIC);
    let data = prometheus.get(&format!("query?query={query}")).await;
    let series = data["result"].as_array().expect("series").iter();
    let values = series.filter_map(|one| one["value"][1].as_str().expect("a value").parse::<f64>().ok());
    values.filter(|value| value.is_finite()).collect()
}

/// The alerts that are not inactive.
async fn active_alerts(prometheus: &Prometheus) -> BTreeSet<String> {
    let alerts = prometheus.get("alerts").await;
    let alerts = alerts["alerts"].as_array().expect("alerts").iter();
    alerts.map(|alert| alert["labels"]["alertname"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn panels_draw_what_servers_do_and_alerts_follow_an_outage() {
    let mut cluster = Cluster::start_on_postgres(RedisServer::start(), 2, &[("push.enabled", "true")]).await;
    let nodes = &cluster.nodes;
    let prometheus = Prometheus::start(&nodes.iter().map(Server::port).collect::<Vec<_>>()).await;
    done(&nodes[0], "ann", "GET", "/timeline").await;
    done(&nodes[1], "bo", "PUT", "/users/ann/follow").await;
    let mut bo = Client::connect(&nodes[1], "bo").await;
    let missing = async || {
        let id = post(&nodes[0], "ann", "drawn").await;
        while bo.publication("timeline:bo").await["data"]["post"]["id"] != id {}
        let mut missing = Vec::new();
        for (title, expression) in panels() {
            if values(&prometheus, &expression).await.is_empty() {
                missing.push((title, expression));
            }
        }
        missing
    };
    let mut missing = missing;
    let mut last = Vec::new();
    for _ in 0..60 {
        last = missing().await;
        if last.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(last.is_empty(), "panels without a number: {last:#?}\n{}", prometheus.log());
    for expression in ["feedline_connections", "sum(rate(feedline_deliveries_total[15s]))"] {
        assert!(values(&prometheus, expression).await.iter().sum::<f64>() > 0.0, "{expression}");
    }
    let rules = prometheus.get("rules").await;
    let rules = rules["groups"].as_array().expect("groups").iter().flat_map(|group| group["rules"].as_array());
    for rule in rules.flatten() {
        assert_eq!((&rule["health"], &rule["lastError"]), (&json!("ok"), &Value::Null), "{rule}");
    }
    // The keys of sessions differ: each server of a test generates its own.
    let usual = active_alerts(&prometheus).await;
    assert!(usual.is_subset(&BTreeSet::from(["FeedlineNodesDiffer".to_owned()])), "{usual:?}");
    cluster.redis.kill();
    until("the alert of the store is pending", async || active_alerts(&prometheus).await.contains("FeedlineStoreDown"))
        .await;
    cluster.redis.start_again();
    until("it ends", async || !active_alerts(&prometheus).await.contains("FeedlineStoreDown")).await;
}

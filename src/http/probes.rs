//! Probes for operators: health, readiness, metrics.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::answers::{json_answer, problem};
use crate::feed::{Feed, StoreHealth};
use crate::gateway::GaugeReader;
use crate::metrics::TextFormat;
use crate::supervisor;

/// The parts that probes read.
pub struct ProbeParts {
    /// Checks both stores.
    pub feed: Arc<Feed>,
    /// Reads the values of gauges.
    pub gauges: Arc<GaugeReader>,
    /// Cancelled when a shutdown begins.
    pub leaving: CancellationToken,
}

/// Returns 200 while the process runs.
pub(super) async fn health() -> Response<Body> {
    json_answer(StatusCode::OK, r#"{"status":"ok"}"#)
}

/// The response of `/ready` until the server has started.
pub(super) async fn starting() -> Response<Body> {
    problem(StatusCode::SERVICE_UNAVAILABLE, "starting", "the server is starting")
}

/// Returns 200 if all background tasks run and no shutdown is in progress, also while a store is away: if all nodes
/// left the load balancer then, it would help nobody. The body says what the stores and the work of this process wait
/// for, and how this node differs from others.
pub(super) async fn ready(State(parts): State<Arc<ProbeParts>>) -> Response<Body> {
    if parts.leaving.is_cancelled() {
        return problem(StatusCode::SERVICE_UNAVAILABLE, "draining", "a shutdown is under way");
    }
    if let Some(away) = tasks_away() {
        return away;
    }
    let health = parts.feed.store_health().await;
    let fingerprints = parts.feed.fingerprints();
    let mut body = health_body("ready", &health);
    body["fingerprints"] = members(&fingerprints);
    json_answer(StatusCode::OK, body.to_string())
}

/// Returns 200 if both stores work, else 503.
pub(super) async fn stores(State(parts): State<Arc<ProbeParts>>) -> Response<Body> {
    let health = parts.feed.store_health().await;
    match health.is_well() {
        true => json_answer(StatusCode::OK, health_body("ok", &health).to_string()),
        false => json_answer(StatusCode::SERVICE_UNAVAILABLE, health_body("unavailable", &health).to_string()),
    }
}

/// The response while background tasks wait for their restart.
fn tasks_away() -> Option<Response<Body>> {
    let away = supervisor::away();
    let message = format!("background tasks ended and wait for their restart: {}", away.join(", "));
    (!away.is_empty()).then(|| problem(StatusCode::SERVICE_UNAVAILABLE, "tasks_away", &message))
}

/// `stores` and `work` have a member for each store and each kind of work: `"ok"`, or the reason why it does not go on.
fn health_body(status: &str, health: &StoreHealth) -> Value {
    json!({ "status": status, "stores": members(&health.stores), "work": members(&health.work) })
}

/// A member for each: `"ok"`, or the trouble.
fn members(all: &[(&'static str, Option<String>)]) -> Value {
    let member = |(name, trouble): &(&'static str, Option<String>)| {
        ((*name).to_owned(), Value::from(trouble.as_deref().unwrap_or("ok")))
    };
    Value::Object(all.iter().map(member).collect())
}

/// All metrics: in the OpenMetrics format if the collector asks for it, else in the older one.
pub(super) async fn metrics(State(parts): State<Arc<ProbeParts>>, headers: HeaderMap) -> Response<Body> {
    const OPEN_METRICS: HeaderValue =
        HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    let levels = parts.gauges.read();
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let is_asked_for = accepted.into_iter().any(|types| types.contains("application/openmetrics-text"));
    let (format, kind) =
        if is_asked_for { (TextFormat::OpenMetrics, OPEN_METRICS) } else { (TextFormat::Plain, PLAIN) };
    ([(CONTENT_TYPE, kind)], parts.feed.base.metrics.text(levels, format)).into_response()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn tasks_that_wait_for_their_restart_are_named() {
        let _task = supervisor::supervise_while_held("test_ready", Arc::new(()), |_| async { panic!("a bug") });
        let deadline = Instant::now() + Duration::from_secs(10);
        while !supervisor::away().contains(&"test_ready") {
            assert!(Instant::now() < deadline, "it is never away");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let response = tasks_away().expect("it is away");
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["error"]["code"], "tasks_away");
        assert!(body["error"]["message"].as_str().is_some_and(|names| names.contains("test_ready")), "{body}");
    }
}

//! Probes for operators: health, readiness, metrics.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use tokio_util::sync::CancellationToken;

use super::answers::{json_answer, problem};
use crate::feed::Feed;
use crate::gateway::GaugeReader;
use crate::metrics::Metrics;
use crate::supervisor;

/// The parts that probes read.
pub struct ProbeParts {
    /// Checks both stores.
    pub feed: Arc<Feed>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// Reads the values of gauges.
    pub gauges: Arc<GaugeReader>,
    /// Cancelled when a shutdown begins.
    pub draining: CancellationToken,
}

/// Returns 200 while the process runs.
pub(super) async fn health() -> Response<Body> {
    json_answer(StatusCode::OK, r#"{"status":"ok"}"#)
}

/// Returns 200 if both stores answer, all background tasks run, and no shutdown is in progress.
pub(super) async fn ready(State(parts): State<Arc<ProbeParts>>) -> Response<Body> {
    if parts.draining.is_cancelled() {
        return problem(StatusCode::SERVICE_UNAVAILABLE, "draining", "a shutdown is under way");
    }
    let away = supervisor::away();
    if !away.is_empty() {
        let message = format!("background tasks ended and wait for their restart: {}", away.join(", "));
        return problem(StatusCode::SERVICE_UNAVAILABLE, "tasks_away", &message);
    }
    match parts.feed.ready().await {
        Ok(()) => json_answer(StatusCode::OK, r#"{"status":"ready"}"#),
        Err(_) => problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "a store does not answer"),
    }
}

/// All metrics, in the text format of Prometheus.
pub(super) async fn metrics(State(parts): State<Arc<ProbeParts>>) -> Response<Body> {
    const OPEN_METRICS: HeaderValue =
        HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    let text = parts.metrics.text(parts.gauges.read());
    ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response()
}

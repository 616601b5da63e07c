//! For those who run it: is it alive, may it get traffic, what does it count.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;

use super::{Site, json_answer, problem};

/// The process runs.
pub(super) async fn health() -> Response<Body> {
    json_answer(StatusCode::OK, r#"{"status":"ok"}"#)
}

/// Both stores answer, and no shutdown is under way.
pub(super) async fn ready(State(site): State<Arc<Site>>) -> Response<Body> {
    if site.gateway.is_draining() {
        return problem(StatusCode::SERVICE_UNAVAILABLE, "draining", "a shutdown is under way");
    }
    match site.gateway.feed().ready().await {
        Ok(()) => json_answer(StatusCode::OK, r#"{"status":"ready"}"#),
        Err(_) => problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "a store does not answer"),
    }
}

/// Everything that is counted, for Prometheus.
pub(super) async fn metrics(State(site): State<Arc<Site>>) -> Response<Body> {
    const OPEN_METRICS: HeaderValue =
        HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    let text = site.gateway.metrics().text(site.gateway.levels());
    ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response()
}

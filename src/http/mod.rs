//! HTTP: the route table, and what every answer has in common.
//!
//! | path | what | file |
//! |---|---|---|
//! | `/connection/websocket` | the socket | [`crate::gateway::upgrade`] |
//! | `/api/v1/…` | the feed's operations, for users and backends | `operations`, `cors` |
//! | | how many of them are under way at once | `in_flight` |
//! | `/api/openapi.json` | their description | [`openapi`] |
//! | `/api/publish` … | channels, for backends | `server_api` |
//! | `/health`, `/ready`, `/metrics` | for those who run it | `probes` |
//! | everything else | the page | `page` |

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::json;
use tracing::Instrument;

use crate::auth::{ApiKeys, Verifier};
use crate::gateway::Gateway;
use crate::gateway::upgrade::upgrade;
use crate::net::progress::StallFlag;
use crate::net::{ClientAddress, TrustedProxies};

mod cors;
mod in_flight;
pub mod openapi;
mod operations;
mod page;
mod probes;
mod server_api;

use in_flight::InFlight;

/// What handlers work with.
pub struct Site {
    /// Sockets, the feed and the stores behind them.
    pub gateway: Arc<Gateway>,
    /// Who users' tokens are checked by.
    pub verifier: Verifier,
    /// The keys of backends.
    pub api_keys: ApiKeys,
    /// Bounds the requests of one caller that are under way.
    in_flight: InFlight,
}

impl Site {
    /// What handlers work with. Addresses of `trusted` proxies stand for many clients.
    pub fn new(gateway: Arc<Gateway>, verifier: Verifier, api_keys: ApiKeys, trusted: Arc<TrustedProxies>) -> Self {
        Self { gateway, verifier, api_keys, in_flight: InFlight::new(trusted) }
    }
}

/// The largest body a request may have, in bytes: a post of the largest size fits several times.
const BODY: usize = 256 * 1024;

/// Where `/health`, `/ready` and `/metrics` are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probes {
    /// With everything else.
    Public,
    /// By [`admin_router`] alone.
    Admin,
}

/// The route table of the listener for operators, `server.admin_listen`.
pub fn admin_router(site: Arc<Site>) -> Router {
    probe_routes().fallback(no_such_path).layer(from_fn(identify)).with_state(site)
}

fn probe_routes() -> Router<Arc<Site>> {
    Router::new()
        .route("/health", get(probes::health))
        .route("/ready", get(probes::ready))
        .route("/metrics", get(probes::metrics))
}

/// The route table.
pub fn router(site: Arc<Site>, probes: Probes) -> Router {
    let mut api = Router::new();
    for (index, operation) in site.gateway.operations().all().iter().enumerate() {
        api = api.route(operation.path, operations::route(index, operation));
    }
    // Its fallbacks are set here, so that the layer is around them, too.
    let api = api.fallback(no_such_path).method_not_allowed_fallback(no_such_method);
    let api = api.layer(from_fn(report_stalls)).layer(from_fn_with_state(Arc::clone(&site), cors::cors));
    let probes = match probes {
        Probes::Public => probe_routes(),
        Probes::Admin => Router::new(),
    };
    probes
        .route("/connection/websocket", get(websocket))
        .nest("/api/v1", api)
        .route("/api/openapi.json", get(openapi::serve))
        .route("/api/{method}", axum::routing::post(server_api::serve).layer(from_fn(report_stalls)))
        .fallback(get(page::serve))
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn(identify))
        .with_state(site)
}

async fn websocket(State(site): State<Arc<Site>>, request: Request) -> Response<Body> {
    upgrade(&site.gateway, request).unwrap_or_else(|(status, why)| problem(status, "bad_request", why))
}

async fn no_such_path() -> Response<Body> {
    problem(StatusCode::NOT_FOUND, "not_found", "there is no such path, see /api/openapi.json")
}

async fn no_such_method() -> Response<Body> {
    problem(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this path takes other methods, see `allow`")
}

/// Answers 408 where the handler gave up on a body that made no progress.
async fn report_stalls(request: Request, next: Next) -> Response<Body> {
    let stalled = request.extensions().get::<StallFlag>().cloned().unwrap_or_default();
    let response = next.run(request).await;
    if !stalled.is_set() {
        return response;
    }
    let mut response = problem(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not arrive in time");
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Gives every request an id, taken from the client or a proxy if they sent a plain one: it is in the answer, and in each
/// line that is logged on the way.
async fn identify(request: Request, next: Next) -> Response<Body> {
    let plain = |id: &&HeaderValue| {
        id.len() <= 64 && id.as_bytes().iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
    };
    let id = request.headers().get(REQUEST_ID).filter(plain).cloned();
    let id = id.or_else(|| HeaderValue::from_str(&uuid::Uuid::now_v7().simple().to_string()).ok());
    let text = id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or_default();
    let client = request.extensions().get::<ClientAddress>().map(|client| client.0);
    let client = client.as_ref().map(tracing::field::display);
    let span =
        tracing::info_span!("request", id = text, client, method = %request.method(), path = request.uri().path());
    let mut response = next.run(request).instrument(span.clone()).await;
    span.in_scope(|| tracing::debug!(status = response.status().as_u16(), "answered"));
    if let Some(id) = id {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// An error as every path answers it.
fn problem(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    json_answer(status, json!({ "error": { "code": code, "message": message } }).to_string())
}

fn json_answer(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body.into()).into_response()
}

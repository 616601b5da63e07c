//! HTTP: the route table.
//!
//! | path | response | file |
//! |---|---|---|
//! | `/connection/websocket`, `…/uni_websocket` | a WebSocket | [`crate::gateway::accept::upgrade`] |
//! | `/connection/http_stream`, `…/sse`, `/emulation` | streams, and commands of their clients | `streams` |
//! | `/api/v1/…` | the feed's operations, for users and backends | `operations`, `cors` |
//! | | their callers, the limit of concurrent requests, spans | `authentication`, `in_flight`, `request_span` |
//! | `/api/openapi.json`, `/api/asyncapi.json` | the contract with clients | `contract` |
//! | `/api/publish` …, `/api`, `/api/batch` | channels, for backends | `server_api` |
//! | `/api/events` | the outlet, for backends | `outlet` |
//! | `/api/status` | the state of the deployment, for operators | `status` |
//! | `/health`, `/health/stores`, `/ready`, `/metrics` | probes for operators | `probes` |
//! | everything else | the web page | `page` |
//! | `server.redirect_listen` | a redirect to https | `redirect` |
//!
//! All of them are below the base path, too (`base_path`).

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, CONNECTION, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::routing::{any, get, post};
use tracing::Instrument;

use crate::api::Executor;
use crate::api::operations::Operations;
use crate::auth::{ApiKeys, Verifier};
use crate::feed::Feed;
use crate::gateway::Gateway;
use crate::gateway::accept::upgrade::Upgrader;
use crate::gateway::session::SessionOptions;
use crate::metrics::Metrics;
use crate::net::progress::StallFlag;
use crate::net::{AllowedOrigins, BasePath, ClientAddress, OwnHosts, TrustedProxies};
use crate::reloadable::Reloadable;

mod answers;
mod authentication;
mod base_path;
mod contract;
mod cors;
mod events_poll;
mod in_flight;
mod measured_routes;
mod operations;
mod page;
mod per_base_path;
mod probes;
mod query;
mod redirect;
mod request_span;
mod server_api;
mod status;
mod streams;
mod transports_config;

pub use probes::ProbeParts;
pub use redirect::redirect_router;
pub use transports_config::TransportsConfig;

use answers::problem;
use authentication::Authenticator;
use base_path::below;
use in_flight::InFlight;
use operations::OperationsApi;
use server_api::ServerApi;
use streams::StreamParts;

/// The parts that handlers use.
pub struct HttpParts<'a> {
    /// Opens sockets and streams, reads logs, and asks all nodes.
    pub gateway: &'a Gateway,
    /// The path below which clients reach the server.
    pub base_path: BasePath,
    /// The transports that clients may use.
    pub transports: TransportsConfig,
    /// The table of operations. Each becomes a route.
    pub operations: Arc<Operations>,
    /// Runs operations.
    pub executor: Arc<Executor>,
    /// Verifies the tokens of users.
    pub verifier: Reloadable<Verifier>,
    /// The keys of backends.
    pub api_keys: Reloadable<ApiKeys>,
    /// The browser origins, besides the page's own host, that may call operations.
    pub origins: Reloadable<AllowedOrigins>,
    /// The proxies in front of this server. Each of their addresses stands for many clients.
    pub trusted: Arc<TrustedProxies>,
    /// The channels and limits of sessions. They apply to backends, too.
    pub sessions: Arc<SessionOptions>,
    /// Revocations, erasures and exports, for backends.
    pub feed: Arc<Feed>,
}

/// The routes of `/health`, `/health/stores`, `/ready` and `/metrics`.
pub fn probe_routes(parts: ProbeParts) -> Router {
    Router::new()
        .route("/health", get(probes::health))
        .route("/health/stores", get(probes::stores))
        .route("/ready", get(probes::ready))
        .route("/metrics", get(probes::metrics))
        .with_state(Arc::new(parts))
}

/// The routes of the probes while the server starts.
pub fn starting_routes() -> Router {
    Router::new().route("/health", get(probes::health)).route("/ready", get(probes::starting)).layer(from_fn(identify))
}

/// The route table of the listener for operators, `server.admin_listen`.
pub fn admin_router(probes: Router) -> Router {
    probes.fallback(no_such_path).layer(from_fn(identify))
}

/// The route table. `probes` is empty if they are on the listener for operators.
pub fn router(parts: HttpParts<'_>, probes: Router) -> Router {
    let gateway = parts.gateway;
    let api_keys = parts.api_keys;
    let limits = parts.feed.base.options.limits;
    let page = Arc::new(page::PageDocuments::new(limits));
    let contract = contract::routes(Arc::clone(&parts.operations), limits);
    let backends = ServerApi {
        api_keys: api_keys.clone(),
        sessions: parts.sessions,
        logs: Arc::clone(gateway.logs()),
        nodes: Arc::clone(gateway.nodes()),
        feed: parts.feed,
        operations: Arc::clone(&parts.operations),
        executor: Arc::clone(&parts.executor),
    };
    let own_hosts = Arc::clone(&backends.feed.base.options.own_hosts);
    let metrics = Arc::clone(&backends.feed.base.metrics);
    measured_routes::expose(&metrics, &parts.operations);
    let tracer = backends.feed.base.tracer.clone();
    let events = events_poll::OutletApi { api_keys: api_keys.clone(), feed: Arc::clone(&backends.feed) };
    let status = status::StatusApi { api_keys: api_keys.clone(), feed: Arc::clone(&backends.feed) };
    let server_api = server_api_routes(backends);
    let operations = OperationsApi {
        operations: parts.operations,
        executor: parts.executor,
        authenticator: Authenticator { verifier: parts.verifier, api_keys },
        in_flight: InFlight::new(parts.trusted),
        metrics: Arc::clone(&metrics),
        tracer,
    };
    let streams =
        Arc::new(StreamParts { streams: Arc::clone(gateway.streams()), emulation: Arc::clone(gateway.emulation()) });
    let routes = probes
        .merge(websocket_routes(Arc::clone(gateway.upgrader()), parts.transports))
        .merge(stream_routes(streams, parts.transports, parts.origins.clone()))
        .nest(measured_routes::OPERATIONS, operation_routes(operations, parts.origins))
        .merge(contract)
        .route("/api/events", get(events_poll::serve).with_state(Arc::new(events)))
        .route("/api/status", get(status::serve).with_state(Arc::new(status)))
        .merge(server_api)
        .fallback(get(page::serve).with_state(page))
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(own_hosts, note_host))
        .layer(from_fn_with_state(metrics, measure));
    below(parts.base_path, routes).layer(from_fn(identify))
}

/// Notes the host and the base path that the request names.
async fn note_host(State(hosts): State<Arc<OwnHosts>>, request: Request, next: Next) -> Response<Body> {
    hosts.note(request.headers());
    hosts.note_base_path(&BasePath::of(request.extensions()));
    next.run(request).await
}

/// Counts the request by its route and status. All paths without a route are one: the page.
async fn measure(State(metrics): State<Arc<Metrics>>, request: Request, next: Next) -> Response<Body> {
    let begun = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map_or(measured_routes::PAGE, MatchedPath::as_str);
    metrics.requests.http_request(route, response.status().as_u16(), begun.elapsed());
    response
}

/// The routes of the server API.
fn server_api_routes(api: ServerApi) -> Router {
    let routes = Router::new().route("/api/{method}", post(server_api::serve));
    let routes = routes.route("/api", post(server_api::serve_sequence));
    routes.layer(from_fn(report_stalls)).with_state(Arc::new(api))
}

/// A route for each operation of the table.
fn operation_routes(api: OperationsApi, origins: Reloadable<AllowedOrigins>) -> Router {
    let api = Arc::new(api);
    let mut routes = Router::new();
    for (index, operation) in api.operations.all().iter().enumerate() {
        for path in operation.paths {
            routes = routes.route(path, operations::route(index, operation));
        }
    }
    // Sets the fallbacks here, so that the layers below apply to them, too.
    let routes = routes.fallback(no_such_path).method_not_allowed_fallback(no_such_method);
    let cors = from_fn_with_state(origins, cors::cors);
    routes.layer(from_fn(report_stalls)).layer(cors).with_state(api)
}

/// The routes of streams, and of the requests beside them. Browsers of other origins may use them if WebSockets are
/// allowed for these.
fn stream_routes(parts: Arc<StreamParts>, transports: TransportsConfig, origins: Reloadable<AllowedOrigins>) -> Router {
    let route = |is_enabled, route| if is_enabled { route } else { any(no_such_path) };
    let has_commands = transports.http_stream || transports.sse;
    let routes = Router::new()
        .route("/connection/http_stream", route(transports.http_stream, any(streams::http_stream)))
        .route("/connection/sse", route(transports.sse, any(streams::sse)))
        .route("/connection/uni_http_stream", route(transports.uni_http_stream, any(streams::uni_http_stream)))
        .route("/connection/uni_sse", route(transports.uni_sse, any(streams::uni_sse)))
        .route("/emulation", route(has_commands, any(streams::emulation)));
    let cors = from_fn_with_state(origins, cors::cors);
    routes.layer(from_fn(report_stalls)).layer(cors).with_state(parts)
}

/// The routes of WebSockets.
fn websocket_routes(upgrader: Arc<Upgrader>, transports: TransportsConfig) -> Router {
    let route = |is_enabled, route| if is_enabled { route } else { any(no_such_path) };
    Router::new()
        .route("/connection/websocket", route(transports.websocket, get(websocket)))
        .route("/connection/uni_websocket", route(transports.uni_websocket, get(uni_websocket)))
        .with_state(upgrader)
}

async fn uni_websocket(State(upgrader): State<Arc<Upgrader>>, request: Request) -> Response<Body> {
    let answer = upgrader.upgrade_unidirectional(request);
    answer.unwrap_or_else(|(status, message)| problem(status, "invalid", message))
}

async fn websocket(State(upgrader): State<Arc<Upgrader>>, request: Request) -> Response<Body> {
    upgrader.upgrade(request).unwrap_or_else(|(status, message)| problem(status, "invalid", message))
}

async fn no_such_path() -> Response<Body> {
    problem(StatusCode::NOT_FOUND, "not_found", "there is no such path, see /api/openapi.json")
}

async fn no_such_method() -> Response<Body> {
    problem(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this path takes other methods, see `allow`")
}

/// Responds with 408 if the handler failed because the body made no progress.
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

/// Assigns an id to every request: the id sent by the client or a proxy if it is plain, otherwise a new one. The
/// response and all log lines of the request contain it. Adds the headers that every response has, errors too.
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
    let headers = response.headers_mut();
    if let Some(id) = id {
        headers.insert(REQUEST_ID, id);
    }
    // Only files of the page say otherwise. Answers may be for one user, and none is to be taken for a script.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
    response
}

//! Channels for backends: `POST /api/<method>` with an API key, compatible with Centrifugo's server API, so that
//! backends written for it work with this server. Responses have status 200, including errors, unless the request has
//! `X-Centrifugo-Error-Mode: transport`.
//!
//! | file | contents |
//! |---|---|
//! | `mod`, `authentication` | the routes, and the API key of a request |
//! | `dispatch`, `methods` | the methods by name, and their description for the OpenAPI document |
//! | `commands` | many commands in one request: `/api/batch` and `/api` |
//! | `publications`, `channels` | publications, logs, presence |
//! | `connections` | subscriptions, expiry and closing of connections |
//! | `nodes`, `rpc` | what all nodes serve; operations of the feed |
//! | `access`, `users` | tokens and users |

mod access;
mod answers;
mod authentication;
mod channels;
mod commands;
mod connections;
mod context;
mod dispatch;
mod json_data;
mod methods;
mod nodes;
mod publications;
mod rpc;
mod users;

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};

pub(super) use commands::MAX_COMMANDS;
pub(super) use context::ServerApi;
pub(super) use methods::{METHODS, Method, ServerError};

use super::answers::{MAX_BODY_BYTES, json_answer, problem};
use super::request_span;
use crate::telemetry::TraceSpan;
use answers::to_body;
pub(super) use authentication::authenticate;
use context::BackendCaller;

/// The maximal size of a request with many channels or commands, in bytes.
const MAX_LARGE_BODY_BYTES: usize = 16 * MAX_BODY_BYTES;

/// Serves `POST /api/<method>`.
pub(super) async fn serve(
    State(api): State<Arc<ServerApi>>,
    Path(method): Path<String>,
    request: Request,
) -> Response<Body> {
    let is_batch = method == "batch";
    let limit = if is_batch || method == "broadcast" { MAX_LARGE_BODY_BYTES } else { MAX_BODY_BYTES };
    let with_statuses = wants_statuses(request.headers());
    let (caller, body, span) = match receive(&api, request, &method, limit).await {
        Ok(received) => received,
        Err(response) => return response,
    };
    let response = answer(&api, &caller, &method, &body, with_statuses).await;
    request_span::end(span, &response);
    response
}

async fn answer(
    api: &ServerApi,
    caller: &BackendCaller,
    method: &str,
    body: &[u8],
    with_statuses: bool,
) -> Response<Body> {
    let is_batch = method == "batch";
    if !is_batch && !METHODS.iter().any(|known| known.name == method) {
        return problem(StatusCode::NOT_FOUND, "not_found", "there is no such method");
    }
    let answer = if is_batch {
        commands::batch(api, caller, body).await
    } else {
        dispatch::call(api, caller, method, body).await
    };
    match answer {
        // Its body has a form of its own.
        Ok(replies) if is_batch => json_answer(StatusCode::OK, replies),
        Err(error) if with_statuses => json_answer(error.status(), error.to_text()),
        answer => json_answer(StatusCode::OK, to_body(&answer)),
    }
}

/// Serves `POST /api`.
pub(super) async fn serve_sequence(State(api): State<Arc<ServerApi>>, request: Request) -> Response<Body> {
    let (caller, body, span) = match receive(&api, request, "batch", MAX_LARGE_BODY_BYTES).await {
        Ok(received) => received,
        Err(response) => return response,
    };
    let response = match commands::sequence(&api, &caller, &body).await {
        Some(replies) => json_answer(StatusCode::OK, replies),
        None => problem(StatusCode::BAD_REQUEST, "invalid", "the body is a sequence of commands"),
    };
    request_span::end(span, &response);
    response
}

/// Authenticates a request, begins its span, and reads its body.
async fn receive(
    api: &ServerApi,
    request: Request,
    method: &str,
    limit: usize,
) -> Result<(BackendCaller, Bytes, TraceSpan), Response<Body>> {
    let begun = Instant::now();
    let (parts, body) = request.into_parts();
    let mut caller = authenticate(&api.api_keys.get(), &parts).map_err(|refusal| *refusal)?;
    let span = request_span::begin(&api.feed.base.tracer, &parts, method, caller.origin, begun);
    caller.trace = span.context();
    let too_large =
        |_| problem(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "the body could not be read, or is too large");
    let body = to_bytes(body, limit).await.map_err(too_large)?;
    Ok((caller, body, span))
}

/// Whether the backend wants errors as HTTP statuses.
fn wants_statuses(headers: &HeaderMap) -> bool {
    headers.get("x-centrifugo-error-mode").is_some_and(|mode| mode == "transport")
}

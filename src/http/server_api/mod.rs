//! Channels for backends: `POST /api/<method>` with `X-API-Key`, compatible with Centrifugo's server API, so that
//! backends written for it work with this server. All responses have status 200, including errors.

mod access;
mod answers;
mod channels;
mod context;
mod methods;
mod publications;
mod users;

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{Response, StatusCode};

pub(super) use context::ServerApi;
pub(super) use methods::{METHODS, Method, ServerError};

use super::answers::{MAX_BODY_BYTES, json_answer, problem};
use answers::to_body;

/// The maximal size of a `broadcast` request, in bytes. It may name many channels.
const MAX_BROADCAST_BYTES: usize = 16 * MAX_BODY_BYTES;

/// Serves `POST /api/<method>`.
pub(super) async fn serve(
    State(api): State<Arc<ServerApi>>,
    Path(method): Path<String>,
    request: Request,
) -> Response<Body> {
    let key = request.headers().get("x-api-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
    if !api.api_keys.accept(key) {
        return problem(StatusCode::UNAUTHORIZED, "unauthorized", "send an API key as X-API-Key");
    }
    let limit = if method == "broadcast" { MAX_BROADCAST_BYTES } else { MAX_BODY_BYTES };
    let Ok(body) = to_bytes(request.into_body(), limit).await else {
        return problem(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "the body could not be read, or is too large");
    };
    let answer = match method.as_str() {
        "publish" => publications::publish(&api, &body).await,
        "broadcast" => return json_answer(StatusCode::OK, publications::broadcast(&api, &body).await),
        "presence" => channels::presence(&api, &body).await,
        "presence_stats" => channels::presence_stats(&api, &body).await,
        "history" => channels::history(&api, &body).await,
        "delete_user" => users::delete_user(&api, &body).await,
        "export_user" => users::export_user(&api, &body).await,
        method => match access::serve(&api, method, &body).await {
            Some(answer) => answer,
            None => return problem(StatusCode::NOT_FOUND, "not_found", "there is no such method"),
        },
    };
    json_answer(StatusCode::OK, to_body(answer).to_string())
}

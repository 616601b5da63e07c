//! The contract with clients: the OpenAPI document of all operations, and the AsyncAPI document of everything that is
//! pushed. Both are made from the table of operations and the types of the model.
//!
//! | file | contents |
//! |---|---|
//! | `openapi.rs` | the OpenAPI document |
//! | `operation.rs` | the description of one operation |
//! | `server_method.rs` | the description of one method of the server API |
//! | `events_poll.rs` | the description of the long poll of the outlet |
//! | `errors.rs` | errors: their codes, and the responses that have them |
//! | `sample.rs` | examples of requests and responses |
//! | `asyncapi.rs` | the AsyncAPI document: channels, their subscribers and messages |
//! | `events.rs`, `examples.rs` | the schemas of events, and an example of each |
//! | `schemas.rs` | collects the schemas of inputs and outputs, and gives each one name |

mod asyncapi;
mod errors;
mod events;
mod events_poll;
mod examples;
mod openapi;
mod operation;
mod sample;
mod schemas;
mod server_method;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Response, StatusCode};
use axum::routing::get;

use super::answers::json_answer;
use crate::api::operations::Operations;

/// The documents, each made once, for its first request.
struct Documents {
    operations: Arc<Operations>,
    openapi: OnceLock<Bytes>,
    asyncapi: OnceLock<Bytes>,
}

/// The routes `/api/openapi.json` and `/api/asyncapi.json`.
pub(super) fn routes(operations: Arc<Operations>) -> Router {
    let documents = Arc::new(Documents { operations, openapi: OnceLock::new(), asyncapi: OnceLock::new() });
    let same = Arc::clone(&documents);
    let openapi = move || async move { answer(&documents.openapi, || openapi::document(&documents.operations)) };
    let asyncapi = move || async move { answer(&same.asyncapi, asyncapi::document) };
    Router::new().route("/api/openapi.json", get(openapi)).route("/api/asyncapi.json", get(asyncapi))
}

fn answer(document: &OnceLock<Bytes>, make: impl FnOnce() -> serde_json::Value) -> Response<Body> {
    let body = document.get_or_init(|| Bytes::from(make().to_string())).clone();
    json_answer(StatusCode::OK, body)
}

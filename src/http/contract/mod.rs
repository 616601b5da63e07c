//! The contract with clients: the OpenAPI document of all operations, and the AsyncAPI document of everything that is
//! pushed. Both are made from the table of operations and the types of the model.
//!
//! | file | contents |
//! |---|---|
//! | `openapi.rs` | the OpenAPI document |
//! | `operation.rs` | the description of one operation |
//! | `server_method.rs` | the description of one method of the server API |
//! | `events_poll.rs`, `status.rs` | the descriptions of the long poll of the outlet, and of the deployment's state |
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
mod status;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use axum::routing::get;

use super::answers::json_answer;
use super::per_base_path::PerBasePath;
use crate::api::operations::Operations;
use crate::feed::LimitsConfig;
use crate::net::BasePath;

/// The documents, each made once for a base path, at its first request.
struct ContractDocuments {
    operations: Arc<Operations>,
    limits: LimitsConfig,
    openapi: PerBasePath<Bytes>,
    asyncapi: PerBasePath<Bytes>,
}

/// The routes `/api/openapi.json` and `/api/asyncapi.json`.
pub(super) fn routes(operations: Arc<Operations>, limits: LimitsConfig) -> Router {
    let documents =
        ContractDocuments { operations, limits, openapi: PerBasePath::default(), asyncapi: PerBasePath::default() };
    Router::new()
        .route("/api/openapi.json", get(openapi))
        .route("/api/asyncapi.json", get(asyncapi))
        .with_state(Arc::new(documents))
}

async fn openapi(State(documents): State<Arc<ContractDocuments>>, request: Request) -> Response<Body> {
    let ContractDocuments { operations, limits, openapi, .. } = &*documents;
    answer(openapi, &request, |base| openapi::document(operations, limits, base))
}

async fn asyncapi(State(documents): State<Arc<ContractDocuments>>, request: Request) -> Response<Body> {
    answer(&documents.asyncapi, &request, asyncapi::document)
}

fn answer(
    documents: &PerBasePath<Bytes>,
    request: &Request,
    make: impl FnOnce(&str) -> serde_json::Value,
) -> Response<Body> {
    let base = BasePath::of(request.extensions());
    let body = documents.get(&base).unwrap_or_else(|| {
        let made = Bytes::from(make(base.as_str()).to_string());
        documents.insert(base, made.clone());
        made
    });
    json_answer(StatusCode::OK, body)
}

//! The feed's operations over HTTP: their input from path, query and body.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::routing::{MethodFilter, MethodRouter, on};
use http_body_util::LengthLimitError;
use serde_json::{Map, Value};

use super::answers::{MAX_BODY_BYTES, json_answer};
use super::authentication::Authenticator;
use super::in_flight::{InFlight, Ticket};
use super::query::read_query;
use super::request_span;
use crate::api::Executor;
use crate::api::operations::{Access, Operation, Operations, Verb};
use crate::feed::FeedError;
use crate::metrics::Metrics;
use crate::telemetry::{TraceSpan, Tracer};

/// The operations, and the parts that run them.
pub(super) struct OperationsApi {
    pub(super) operations: Arc<Operations>,
    pub(super) executor: Arc<Executor>,
    pub(super) authenticator: Authenticator,
    /// Limits the concurrent requests of one caller.
    pub(super) in_flight: InFlight,
    pub(super) metrics: Arc<Metrics>,
    pub(super) tracer: Tracer,
}

/// The route of the operation at this index of the table.
pub(super) fn route(index: usize, operation: &Operation) -> MethodRouter<Arc<OperationsApi>> {
    let filter = match operation.verb {
        Verb::Get => MethodFilter::GET,
        Verb::Post => MethodFilter::POST,
        Verb::Put => MethodFilter::PUT,
        Verb::Patch => MethodFilter::PATCH,
        Verb::Delete => MethodFilter::DELETE,
    };
    on(filter, move |State(api): State<Arc<OperationsApi>>, request: Request| async move {
        serve(&api, index, request).await
    })
}

async fn serve(api: &Arc<OperationsApi>, index: usize, request: Request) -> Response<Body> {
    let operation = &api.operations.all()[index];
    let begun = Instant::now();
    let mut span = TraceSpan::none();
    let answer = run(api, operation, request, &mut span).await;
    let outcome = answer.as_ref().map_or_else(FeedError::code, |_| "ok");
    api.metrics.requests.operation(operation.name, outcome, begun.elapsed());
    let response = match answer.and_then(|(answer, ticket)| ticket.into_body(answer)) {
        Ok(body) => {
            let status = StatusCode::from_u16(operation.status).unwrap_or(StatusCode::OK);
            json_answer(status, body)
        }
        Err(error) => refuse(&error),
    };
    request_span::end(span, &response);
    response
}

pub(super) fn refuse(error: &FeedError) -> Response<Body> {
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = json_answer(status, error.to_json().to_string());
    if let Some(seconds) = error.retry_after() {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

async fn run(
    api: &Arc<OperationsApi>,
    operation: &Operation,
    request: Request,
    span: &mut TraceSpan,
) -> Result<(bytes::Bytes, Ticket), FeedError> {
    let begun = Instant::now();
    let (mut parts, body) = request.into_parts();
    api.authenticator.await_key(&parts).await?;
    let (caller, credential, origin) = match operation.access {
        Access::Open => api.authenticator.open_caller(&parts)?,
        Access::Reader | Access::User | Access::Backend => api.authenticator.caller(&parts)?,
    };
    *span = request_span::begin(&api.tracer, &parts, operation.name, origin, begun);
    let ticket = api.in_flight.admit(&caller, origin)?;
    let key = key(operation, &parts.headers)?;
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let mut input = read_query(&query)?;
    // A `DELETE` may have a body; its input may also be in the query.
    if operation.verb.has_body() || operation.verb == Verb::Delete {
        input.extend(read_body(body).await?);
    }
    // The path takes precedence: it names the object of the request.
    if let Ok(params) = RawPathParams::from_request_parts(&mut parts, &()).await {
        input.extend(params.iter().map(|(name, value)| (name.to_owned(), Value::from(value))));
    }
    let input = Value::Object(input);
    let trace = span.context();
    let asked = crate::api::Request { caller, credential, origin, client: None, key, input, trace };
    Ok((api.executor.run(operation, asked).await?, ticket))
}

/// The idempotency key of the request. Operations without one ignore the header.
fn key(operation: &Operation, headers: &HeaderMap) -> Result<Option<String>, FeedError> {
    let Some(key) = headers.get("idempotency-key").filter(|_| operation.takes_key()) else { return Ok(None) };
    let wrong = |_| FeedError::invalid("idempotency_key", "an idempotency key is printable ASCII");
    key.to_str().map(|key| Some(key.to_owned())).map_err(wrong)
}

async fn read_body(body: Body) -> Result<Map<String, Value>, FeedError> {
    let body = to_bytes(body, MAX_BODY_BYTES).await.map_err(|error| {
        let too_large = std::error::Error::source(&error).is_some_and(|source| source.is::<LengthLimitError>());
        if too_large {
            FeedError::TooLarge(MAX_BODY_BYTES)
        } else {
            FeedError::Invalid { field: None, message: "the body could not be read".into() }
        }
    })?;
    if body.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(&body) {
        Ok(Value::Object(input)) => Ok(input),
        // Some clients always send a body, with this value if it is empty.
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(FeedError::Invalid { field: None, message: "the body is a JSON object".into() }),
        Err(error) => Err(FeedError::Invalid { field: None, message: format!("the body is not JSON: {error}").into() }),
    }
}

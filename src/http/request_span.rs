//! The span of a request, named and described by the conventions of OpenTelemetry for HTTP.
//!
//! It begins once the caller is known: requests without valid credentials have none. It contains no address of the
//! client, no path with ids, and no header.

use std::time::Instant;

use axum::extract::MatchedPath;
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};

use crate::feed::Origin;
use crate::model::TraceParent;
use crate::telemetry::{NewTrace, TraceSpan, Tracer, Trust};

/// The header with the span of the caller.
const TRACEPARENT: &str = "traceparent";

/// Begins the span of a request for an operation or a method of the server API.
pub(super) fn begin(tracer: &Tracer, parts: &Parts, operation: &str, origin: Origin, begun: Instant) -> TraceSpan {
    let route = || parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
    let mut span = tracer.begin(|| NewTrace {
        name: format!("{} {}", parts.method, route()).into(),
        parent: parent(parts),
        trust: if origin == Origin::Backend { Trust::Backend } else { Trust::Client },
        begun,
    });
    if span.is_recorded() {
        span.set("http.request.method", parts.method.to_string());
        span.set("http.route", route().to_owned());
        span.set("feedline.operation", operation.to_owned());
    }
    span
}

/// Ends the span of a request with its response.
pub(super) fn end<T>(mut span: TraceSpan, response: &Response<T>) {
    let status = response.status();
    span.set("http.response.status_code", u64::from(status.as_u16()));
    if status >= StatusCode::INTERNAL_SERVER_ERROR {
        span.fail(status.to_string());
    }
    span.end();
}

/// The span of the caller; `None` if the header is missing, repeated or malformed.
fn parent(parts: &Parts) -> Option<TraceParent> {
    let mut headers = parts.headers.get_all(TRACEPARENT).iter();
    let (Some(header), None) = (headers.next(), headers.next()) else { return None };
    TraceParent::parse(header.to_str().ok()?)
}

//! HTTP streams and server-sent events, and the requests in which their clients send commands.
//!
//! | path | request | response |
//! |---|---|---|
//! | `/connection/http_stream` | POST: the first commands, as JSON or Protobuf | messages |
//! | `/connection/sse` | GET with `cf_connect`, or POST: the first commands, as JSON | events, each with a message |
//! | `/connection/uni_http_stream`, `/connection/uni_sse` | POST or GET with the parameters of `connect` | pushes |
//! | `/emulation` | POST: session, node, commands | 204 |

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, request};
use serde_json::Value;

use super::answers::problem;
use super::query::read_query;
use crate::gateway::accept::stream_opener::StreamOpener;
use crate::gateway::node::emulation::{Emulation, EmulationRefusal};
use crate::gateway::wire::message_format::MessageFormat;
use crate::net::ClientAddress;
use crate::protocol::{EmulatedData, Encoding};

/// The parts that these handlers use.
pub(super) struct StreamParts {
    pub(super) streams: Arc<StreamOpener>,
    pub(super) emulation: Arc<Emulation>,
}

type StreamAnswer = Result<Response<Body>, StreamRefusal>;

/// Why a request is not answered with a stream.
enum StreamRefusal {
    /// An `OPTIONS` request needs no answer, besides the headers that the layer for CORS adds.
    Options,
    /// The methods of the path are these.
    Method(&'static str),
    Problem(StatusCode, &'static str, &'static str),
}

impl From<StreamRefusal> for Response<Body> {
    fn from(refusal: StreamRefusal) -> Self {
        match refusal {
            StreamRefusal::Options => no_content(),
            StreamRefusal::Method(allow) => {
                let message = "this path takes other methods, see `allow`";
                let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
                response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
                response
            }
            StreamRefusal::Problem(status, code, message) => problem(status, code, message),
        }
    }
}

pub(super) async fn http_stream(State(parts): State<Arc<StreamParts>>, request: Request) -> Response<Body> {
    merged(async {
        let request = accept(request, &[Method::POST])?;
        let encoding = encoding_of(request.headers());
        let format = match encoding {
            Encoding::Json => MessageFormat::StreamJson,
            Encoding::Protobuf => MessageFormat::StreamProtobuf,
        };
        let (head, body) = received(request, parts.streams.message_bytes()).await?;
        open(&parts, head, format, &data_of(encoding, body)?)
    })
    .await
}

pub(super) async fn sse(State(parts): State<Arc<StreamParts>>, request: Request) -> Response<Body> {
    merged(json_stream(&parts, request, MessageFormat::Events)).await
}

pub(super) async fn uni_http_stream(State(parts): State<Arc<StreamParts>>, request: Request) -> Response<Body> {
    merged(json_stream(&parts, request, MessageFormat::UniStream)).await
}

pub(super) async fn uni_sse(State(parts): State<Arc<StreamParts>>, request: Request) -> Response<Body> {
    merged(json_stream(&parts, request, MessageFormat::UniEvents)).await
}

/// Opens a stream of JSON. The first message is the body, or in a GET request a parameter: browsers cannot send a body
/// with the request for events.
async fn json_stream(parts: &StreamParts, request: Request, format: MessageFormat) -> StreamAnswer {
    let request = accept(request, &[Method::GET, Method::POST])?;
    let limit = parts.streams.message_bytes();
    let (head, first) = if request.method() == Method::GET {
        let (head, _) = request.into_parts();
        let query = read_query(head.uri.query().unwrap_or_default());
        let query = query.map_err(|_| bad_request("the query is not percent-encoded UTF-8"))?;
        let first = query.get("cf_connect").and_then(Value::as_str).unwrap_or_default().to_owned();
        if first.len() > limit {
            return Err(too_large());
        }
        (head, EmulatedData::Text(first))
    } else {
        let (head, body) = received(request, limit).await?;
        (head, data_of(Encoding::Json, body)?)
    };
    // An anonymous client has nothing to say.
    let first = match first {
        first if first.is_empty() && format.is_unidirectional() => EmulatedData::Text("{}".into()),
        first => first,
    };
    open(parts, head, format, &first)
}

pub(super) async fn emulation(State(parts): State<Arc<StreamParts>>, request: Request) -> Response<Body> {
    merged(async {
        let request = accept(request, &[Method::POST])?;
        let encoding = encoding_of(request.headers());
        let client = request.extensions().get::<ClientAddress>();
        let address = client.map_or(Ipv4Addr::UNSPECIFIED.into(), |client| client.0);
        // As text in JSON, commands are longer: each quote and backslash is escaped.
        let limit = 2 * parts.emulation.message_bytes() + 1024;
        let (_, body) = received(request, limit).await?;
        let commands = encoding.decode_emulation(&body);
        let commands = commands.map_err(|_| bad_request("the body needs session, node and data"))?;
        match parts.emulation.pass(commands, address).await {
            Ok(()) => Ok(no_content()),
            Err(EmulationRefusal::Malformed) => Err(bad_request("the body needs session, node and data")),
            Err(EmulationRefusal::TooLarge) => Err(too_large()),
            Err(EmulationRefusal::UnknownNode) => {
                Err(StreamRefusal::Problem(StatusCode::NOT_FOUND, "not_found", "there is no such node"))
            }
            Err(EmulationRefusal::RateLimited) => {
                let message = "this address sends too many commands to other nodes, see rates.publications";
                Err(StreamRefusal::Problem(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message))
            }
            Err(EmulationRefusal::Failed) => {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                Err(StreamRefusal::Problem(status, "internal", "the node cannot be reached"))
            }
        }
    })
    .await
}

/// Refuses other methods.
fn accept(request: Request, methods: &[Method]) -> Result<Request, StreamRefusal> {
    if methods.contains(request.method()) {
        Ok(request)
    } else if request.method() == Method::OPTIONS {
        Err(StreamRefusal::Options)
    } else {
        Err(StreamRefusal::Method(if methods.contains(&Method::GET) { "GET, POST, OPTIONS" } else { "POST, OPTIONS" }))
    }
}

fn encoding_of(headers: &HeaderMap) -> Encoding {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/octet-stream") { Encoding::Protobuf } else { Encoding::Json }
}

/// Reads the body of a request.
async fn received(request: Request, limit: usize) -> Result<(request::Parts, Bytes), StreamRefusal> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, limit).await.map_err(|_| too_large())?;
    Ok((head, body))
}

fn data_of(encoding: Encoding, body: Bytes) -> Result<EmulatedData, StreamRefusal> {
    match encoding {
        Encoding::Json => match String::from_utf8(body.into()) {
            Ok(text) => Ok(EmulatedData::Text(text)),
            Err(_) => Err(bad_request("the body is not UTF-8")),
        },
        Encoding::Protobuf => Ok(EmulatedData::Binary(body)),
    }
}

fn open(parts: &StreamParts, head: request::Parts, format: MessageFormat, first: &EmulatedData) -> StreamAnswer {
    parts
        .streams
        .open(head, format, first)
        .map_err(|(status, message)| StreamRefusal::Problem(status, "invalid", message))
}

async fn merged(answer: impl Future<Output = StreamAnswer>) -> Response<Body> {
    answer.await.unwrap_or_else(Response::from)
}

fn no_content() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

fn bad_request(message: &'static str) -> StreamRefusal {
    StreamRefusal::Problem(StatusCode::BAD_REQUEST, "invalid", message)
}

fn too_large() -> StreamRefusal {
    StreamRefusal::Problem(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "the body could not be read, or is too large")
}

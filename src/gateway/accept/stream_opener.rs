//! Opens streams: HTTP responses that last as long as the connection of a client.
//!
//! A request for a stream is answered in two steps. The router returns a response with a `StreamStart` among its
//! extensions, so that all headers that belong to a response are added to it. The listener then takes the stream
//! from the HTTP server, and the connection writes the head of that response as its first frame.

use std::io::Write as _;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE};
use axum::http::{HeaderName, HeaderValue, Method, Response, StatusCode, request};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::admission::{Admission, AdmittedClient, ConnectionRefusal};
use crate::gateway::connection::Connection;
use crate::gateway::session::PingKind;
use crate::gateway::transport::Transport;
use crate::gateway::transport::stream::StreamTransport;
use crate::gateway::transport::stream_inbox::StreamInbox;
use crate::gateway::transport::stream_sessions::StreamSessions;
use crate::gateway::wire::framed::Framed;
use crate::gateway::wire::message_codec::{FrameData, decode};
use crate::gateway::wire::message_format::{Framing, MessageFormat};
use crate::net::ClientStream;
use crate::protocol::{Command, CommandBody, Disconnect, EmulatedData, Encoding};

/// Makes proxies such as nginx pass on what arrives at once.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Neither browsers nor proxies may keep a stream.
const NO_CACHE: HeaderValue = HeaderValue::from_static("private, no-cache, no-store, must-revalidate, max-age=0");

/// Opens streams.
pub struct StreamOpener {
    pub(crate) admission: Arc<Admission>,
    pub(crate) sessions: Arc<StreamSessions>,
    /// The name of this node.
    pub(crate) node: Arc<str>,
}

/// A granted stream, in the extensions of the response with its headers. It begins once.
#[derive(Clone)]
pub(crate) struct StreamStart(Arc<Mutex<Option<GrantedStream>>>);

/// A granted stream.
pub(crate) struct GrantedStream {
    opener: Arc<StreamOpener>,
    client: AdmittedClient,
    format: MessageFormat,
    commands: Vec<Command>,
}

impl StreamStart {
    /// Takes the stream, which then has to [`begin`](GrantedStream::begin).
    pub(crate) fn take(&self) -> Option<GrantedStream> {
        self.0.lock().take()
    }
}

impl StreamOpener {
    /// The largest first message of a client, in bytes.
    pub fn message_bytes(&self) -> usize {
        self.admission.message_bytes
    }

    /// Answers a request for a stream that contains the first commands of the client; a unidirectional client sends the
    /// parameters of `connect`.
    ///
    /// # Errors
    /// A status and a message, if it is not granted.
    pub fn open(
        self: &Arc<Self>,
        mut request: request::Parts,
        format: MessageFormat,
        first: &EmulatedData,
    ) -> Result<Response<Body>, ConnectionRefusal> {
        self.admission.check_stream(&request.headers)?;
        let first = match first {
            EmulatedData::Text(text) => FrameData::Text(text),
            EmulatedData::Binary(bytes) => FrameData::Binary(bytes),
        };
        let commands =
            decode(format, first).map_err(|_| (StatusCode::BAD_REQUEST, "the first message is not a command"))?;
        if request.method == Method::GET && !is_connect_alone(&commands) {
            return Err((StatusCode::BAD_REQUEST, "a GET request carries connect alone: send commands in a POST"));
        }
        let pings = if format.is_unidirectional() { PingKind::OneWay } else { PingKind::Message };
        let client = self.admission.admit(&request.headers, &mut request.extensions, pings)?;
        let granted = GrantedStream { opener: Arc::clone(self), client, format, commands };
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(StreamStart(Arc::new(Mutex::new(Some(granted)))));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(format)));
        headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
        headers.insert(CACHE_CONTROL, NO_CACHE);
        Ok(response)
    }
}

/// Whether the commands of a request are a single `connect`. A link must not run others: the browser that opens it adds
/// the cookies of its user.
fn is_connect_alone(commands: &[Command]) -> bool {
    matches!(commands, [Command { request: Some(CommandBody::Connect(_)), .. }])
}

fn content_type(format: MessageFormat) -> &'static str {
    match (format.framing(), format.encoding()) {
        (Framing::Events, _) => "text/event-stream",
        (_, Encoding::Protobuf) => "application/octet-stream",
        (_, Encoding::Json) => "application/json",
    }
}

impl GrantedStream {
    /// Serves the connection on the stream that arrives, beginning with the head of this response.
    pub(crate) fn begin(self, response: &Response<Body>, stream: oneshot::Receiver<ClientStream>) {
        let Self { opener, client: AdmittedClient { client, slot }, format, commands } = self;
        let head = head(response, format);
        let tasks = opener.admission.tasks.clone();
        tasks.spawn(async move {
            let Ok(stream) = stream.await else { return };
            let mut connection = {
                let Admission { connections, message_bytes, draining, .. } = &*opener.admission;
                let inbox = StreamInbox::new(*message_bytes);
                let session = opener.sessions.open(&client.id, &opener.node, inbox, !format.is_unidirectional());
                let transport = Transport::Stream(StreamTransport::new(stream, session));
                let mut connection = Connection::open(Arc::clone(connections), transport, client, format);
                connection.begin_with(head, commands);
                if draining.is_cancelled() {
                    connection.close_later(Disconnect::SHUTDOWN);
                }
                connection
            };
            drop(opener);
            connection.run().await;
            drop(slot);
        });
    }
}

/// The head of the response, and what precedes the first message.
fn head(response: &Response<Body>, format: MessageFormat) -> Framed {
    Framed::bare(512, |head| {
        head.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        for (name, value) in response.headers() {
            if *name != CONTENT_LENGTH && *name != CONNECTION && *name != DATE {
                append_header(head, name, value.as_bytes());
            }
        }
        if let Ok(now) = DateTimePrinter::new().timestamp_to_rfc9110_string(&Timestamp::now()) {
            append_header(head, &DATE, now.as_bytes());
        }
        append_header(head, &CONNECTION, b"close");
        head.extend_from_slice(b"\r\n");
        if format.framing() == Framing::Events {
            // Browsers report the stream as open once its body begins. No carriage return: version 2 of the npm package
            // `eventsource`, which the SDK's tests use, loses the events that it reads together with one.
            head.extend_from_slice(b"\n");
        }
    })
}

fn append_header(head: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    // Writing to a vector cannot fail.
    let _ = write!(head, "{name}: ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_has_all_headers_and_no_length() {
        let mut response = Response::new(Body::empty());
        for (name, value) in [("content-length", "0"), ("x-request-id", "a"), ("vary", "origin")] {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        let framed = head(&response, MessageFormat::Events);
        let text = String::from_utf8(framed.bytes().to_vec()).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\nx-request-id: a\r\nvary: origin\r\ndate: "), "{text}");
        assert!(text.ends_with(" GMT\r\nconnection: close\r\n\r\n\n"), "{text}");
    }
}

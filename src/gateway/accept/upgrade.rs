//! The WebSocket handshake.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::SEC_WEBSOCKET_PROTOCOL;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::admission::{Admission, AdmittedClient, ConnectionRefusal};
use super::listener::HttpStream;
use crate::gateway::connection::Connection;
use crate::gateway::session::{PingKind, SessionClient};
use crate::gateway::transport::Transport;
use crate::gateway::transport::stream_inbox::StreamInbox;
use crate::gateway::transport::stream_sessions::StreamSessions;
use crate::gateway::transport::websocket::WebSocketTransport;
use crate::gateway::wire::message_format::MessageFormat;
use crate::protocol::{Disconnect, Encoding};

/// The subprotocols, each with its encoding.
const SUBPROTOCOLS: [(&str, Encoding); 2] =
    [("centrifuge-json", Encoding::Json), ("centrifuge-protobuf", Encoding::Protobuf)];

/// tungstenite's buffers: small, because a hundred thousand idle connections have them too. Its defaults take 131 KB
/// each. Only control frames go through the write buffer, which must be larger than the size at which it is flushed.
const READ_BUFFER: usize = 256;
const WRITE_BUFFER: usize = 512;

/// Upgrades requests to WebSockets.
pub struct Upgrader {
    pub(crate) admission: Arc<Admission>,
    /// Where unidirectional clients are registered: backends name them by their session.
    pub(crate) sessions: Arc<StreamSessions>,
    /// The name of this node.
    pub(crate) node: Arc<str>,
}

impl Upgrader {
    /// Answers a request for a WebSocket, and serves the connection if it is granted.
    ///
    /// # Errors
    /// A status and a message, if it is not granted.
    pub fn upgrade(self: &Arc<Self>, request: Request<Body>) -> Result<Response<Body>, ConnectionRefusal> {
        self.admission.check(request.headers())?;
        let negotiated = Negotiated::from_request(request.uri().query().unwrap_or_default(), request.headers());
        self.accept(request, &negotiated)
    }

    /// The same for a client that sends one message, the parameters of `connect`, and receives pushes.
    ///
    /// # Errors
    /// A status and a message, if it is not granted.
    pub fn upgrade_unidirectional(
        self: &Arc<Self>,
        request: Request<Body>,
    ) -> Result<Response<Body>, ConnectionRefusal> {
        self.admission.check(request.headers())?;
        let format = MessageFormat::UniWebSocket;
        self.accept(request, &Negotiated { format, pings: PingKind::Frame, subprotocol: None })
    }

    fn accept(
        self: &Arc<Self>,
        request: Request<Body>,
        negotiated: &Negotiated,
    ) -> Result<Response<Body>, ConnectionRefusal> {
        let (mut parts, _) = request.into_parts();
        let upgrading = parts.extensions.remove::<OnUpgrade>();
        let mut extensions = std::mem::take(&mut parts.extensions);
        let handshake = Request::from_parts(parts, ());
        let (Ok(response), Some(upgrading)) = (create_response(&handshake), upgrading) else {
            return Err((StatusCode::BAD_REQUEST, "this address is for WebSockets"));
        };
        let AdmittedClient { client, slot } =
            self.admission.admit(handshake.headers(), &mut extensions, negotiated.pings)?;
        let mut response = response.map(|()| Body::empty());
        if let Some(subprotocol) = negotiated.subprotocol {
            response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol));
        }
        let upgrader = Arc::clone(self);
        let format = negotiated.format;
        self.admission.tasks.spawn(async move {
            // Boxed, and alone: a future that is moved holds its captures twice, and there are many of these.
            let Some(mut connection) = Box::pin(upgrader.open(upgrading, client, format)).await else {
                return;
            };
            connection.run().await;
            drop(slot);
        });
        Ok(response)
    }

    /// The connection, once hyper has released the stream.
    async fn open(
        self: Arc<Self>,
        upgrading: OnUpgrade,
        client: SessionClient,
        format: MessageFormat,
    ) -> Option<Box<Connection>> {
        let parts = upgrading.await.ok()?.downcast::<HttpStream>().ok()?;
        let stream = parts.io.into_inner().into_inner()?;
        let read = parts.read_buf.to_vec();
        let socket = WebSocketStream::from_partially_read(stream, read, Role::Server, Some(self.config())).await;
        let session = format.is_unidirectional().then(|| {
            let inbox = StreamInbox::new(self.admission.message_bytes);
            Box::new(self.sessions.open(&client.id, &self.node, inbox, false))
        });
        let transport = Transport::WebSocket(WebSocketTransport::new(socket, session));
        let connection = Connection::open(Arc::clone(&self.admission.connections), transport, client, format);
        if self.admission.draining.is_cancelled() {
            connection.close_later(Disconnect::SHUTDOWN);
        }
        Some(connection)
    }

    fn config(&self) -> WebSocketConfig {
        let mut config = WebSocketConfig::default();
        config.read_buffer_size = READ_BUFFER;
        config.write_buffer_size = WRITE_BUFFER;
        config.max_write_buffer_size = 16 * WRITE_BUFFER;
        config.max_message_size = Some(self.admission.message_bytes);
        config.max_frame_size = Some(self.admission.message_bytes);
        config
    }
}

/// What the handshake says about the messages of a connection.
#[derive(Debug, PartialEq, Eq)]
struct Negotiated {
    format: MessageFormat,
    pings: PingKind,
    /// The subprotocol of the answer. A browser closes a connection whose answer has none of those that it offered.
    subprotocol: Option<&'static str>,
}

impl Negotiated {
    /// The query takes precedence over the subprotocols, and the first known subprotocol over the others.
    fn from_request(query: &str, headers: &HeaderMap) -> Self {
        let asks = |parameter| query.split('&').any(|part| part == parameter);
        let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
        let offered = values.flat_map(|value| value.split(',')).map(str::trim);
        let known: Vec<_> =
            offered.filter_map(|name| SUBPROTOCOLS.into_iter().find(|(known, _)| *known == name)).collect();
        let first = known.first();
        let asks_for_protobuf = asks("format=protobuf") || asks("cf_protocol=protobuf");
        let encoding = if asks_for_protobuf {
            Encoding::Protobuf
        } else {
            first.map_or(Encoding::Json, |(_, encoding)| *encoding)
        };
        let subprotocol = known.iter().find(|(_, of)| *of == encoding).or(first).map(|(name, _)| *name);
        let pings = if asks("cf_ws_frame_ping_pong=true") { PingKind::Frame } else { PingKind::Message };
        let format = match encoding {
            Encoding::Json => MessageFormat::WebSocketJson,
            Encoding::Protobuf => MessageFormat::WebSocketProtobuf,
        };
        Self { format, pings, subprotocol }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_or_the_first_known_subprotocol_decides() {
        let json = "centrifuge-json";
        let protobuf = "centrifuge-protobuf";
        let cases = [
            ("", vec![], Encoding::Json, None),
            ("", vec!["other"], Encoding::Json, None),
            ("", vec![json], Encoding::Json, Some(json)),
            ("", vec!["other, centrifuge-protobuf"], Encoding::Protobuf, Some(protobuf)),
            ("", vec!["centrifuge-protobuf, centrifuge-json"], Encoding::Protobuf, Some(protobuf)),
            ("", vec![json, protobuf], Encoding::Json, Some(json)),
            ("format=json", vec![protobuf], Encoding::Protobuf, Some(protobuf)),
            ("a=1&format=protobuf", vec![], Encoding::Protobuf, None),
            ("cf_protocol=protobuf&b", vec![json, protobuf], Encoding::Protobuf, Some(protobuf)),
            ("cf_protocol=protobuf", vec![json], Encoding::Protobuf, Some(json)),
            ("xformat=protobuf&format=protobuf2", vec![], Encoding::Json, None),
        ];
        let format = |encoding| match encoding {
            Encoding::Json => MessageFormat::WebSocketJson,
            Encoding::Protobuf => MessageFormat::WebSocketProtobuf,
        };
        for (query, offered, encoding, subprotocol) in cases {
            let mut headers = HeaderMap::new();
            for value in &offered {
                headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(value));
            }
            let expected = Negotiated { format: format(encoding), pings: PingKind::Message, subprotocol };
            assert_eq!(Negotiated::from_request(query, &headers), expected, "{query} {offered:?}");
        }
        let pings = |query| Negotiated::from_request(query, &HeaderMap::new()).pings;
        assert_eq!(pings("a&cf_ws_frame_ping_pong=true"), PingKind::Frame);
        assert_eq!(pings("cf_ws_frame_ping_pong=false"), PingKind::Message);
    }
}

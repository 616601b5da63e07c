//! The WebSocket handshake.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::SEC_WEBSOCKET_PROTOCOL;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Connection, ConnectionShared};
use super::connection_counts::{CapReached, ConnectionSlot};
use super::listener::HttpStream;
use super::transport::Transport;
use crate::metrics::Metrics;
use crate::net::AllowedOrigins;
use crate::net::{ClientAddress, origin};
use crate::protocol::Disconnect;

/// The subprotocol of the encoding that this server supports.
const JSON: &str = "centrifuge-json";
const PROTOBUF: &str = "centrifuge-protobuf";

/// tungstenite's buffers: small, because a hundred thousand idle connections have them too. Its defaults take 131 KB
/// each. Only control frames go through the write buffer, which must be larger than the size at which it is flushed.
const READ_BUFFER: usize = 256;
const WRITE_BUFFER: usize = 512;

/// Upgrades requests to WebSockets.
pub struct Upgrader {
    pub(super) connections: Arc<ConnectionShared>,
    /// Browser origins that may connect besides the page's own host.
    pub(super) origins: AllowedOrigins,
    /// The largest message of a client, in bytes.
    pub(super) message_bytes: usize,
    pub(super) metrics: Arc<Metrics>,
    /// One task for each connection.
    pub(super) tasks: TaskTracker,
    /// Cancelled when a shutdown begins: no new connections are accepted.
    pub(super) draining: CancellationToken,
}

impl Upgrader {
    /// Answers a request for a WebSocket, and serves the connection if it is granted.
    ///
    /// # Errors
    /// A status and a message, if it is not granted.
    pub fn upgrade(self: &Arc<Self>, request: Request<Body>) -> Result<Response<Body>, (StatusCode, &'static str)> {
        if self.draining.is_cancelled() {
            return Err((StatusCode::SERVICE_UNAVAILABLE, "the server is going away"));
        }
        if !origin::allowed(&self.origins, request.headers()) {
            self.metrics.refused("origin");
            return Err((StatusCode::FORBIDDEN, "this origin may not connect, see server.origins"));
        }
        let offered = offered(request.headers());
        let query = request.uri().query().unwrap_or_default();
        let wants_protobuf = query.split('&').any(|part| matches!(part, "format=protobuf" | "cf_protocol=protobuf"));
        let only_protobuf = offered.contains(&PROTOBUF) && !offered.contains(&JSON);
        if wants_protobuf || only_protobuf {
            return Err((StatusCode::BAD_REQUEST, "this server speaks the protocol's JSON encoding"));
        }
        let json = offered.contains(&JSON);
        let (mut parts, _) = request.into_parts();
        let upgrading = parts.extensions.remove::<OnUpgrade>();
        let slot = parts.extensions.remove::<Arc<ConnectionSlot>>();
        let client = parts.extensions.remove::<ClientAddress>();
        let address = client.map_or(Ipv4Addr::UNSPECIFIED.into(), |client| client.0);
        let handshake = create_response(&Request::from_parts(parts, ()));
        let (Ok(response), Some(upgrading)) = (handshake, upgrading) else {
            return Err((StatusCode::BAD_REQUEST, "this address is for WebSockets"));
        };
        // The client of a connection through a proxy is known only now.
        if let (Some(slot), Some(ClientAddress(client))) = (&slot, client)
            && let Err(CapReached(reason)) = slot.assign(client)
        {
            self.metrics.refused(reason);
            tracing::debug!(%client, reason, "refused a connection");
            return Err((StatusCode::SERVICE_UNAVAILABLE, "too many connections"));
        }
        let mut response = response.map(|()| Body::empty());
        if json {
            response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(JSON));
        }
        let upgrader = Arc::clone(self);
        self.tasks.spawn(async move {
            // Boxed, and alone: a future that is moved holds its captures twice, and there are many of these.
            let Some(mut connection) = Box::pin(upgrader.accept(upgrading, address)).await else { return };
            connection.run().await;
            drop(slot);
        });
        Ok(response)
    }

    /// The connection, once hyper has released the stream.
    async fn accept(self: Arc<Self>, upgrading: OnUpgrade, address: IpAddr) -> Option<Box<Connection>> {
        let parts = upgrading.await.ok()?.downcast::<HttpStream>().ok()?;
        let (stream, read) = (parts.io.into_inner().into_inner(), parts.read_buf.to_vec());
        let socket = WebSocketStream::from_partially_read(stream, read, Role::Server, Some(self.config())).await;
        let connection = Connection::open(Arc::clone(&self.connections), Transport::new(socket), address);
        if self.draining.is_cancelled() {
            connection.close_later(Disconnect::SHUTDOWN);
        }
        Some(connection)
    }

    fn config(&self) -> WebSocketConfig {
        let mut config = WebSocketConfig::default();
        config.read_buffer_size = READ_BUFFER;
        config.write_buffer_size = WRITE_BUFFER;
        config.max_write_buffer_size = 16 * WRITE_BUFFER;
        config.max_message_size = Some(self.message_bytes);
        config.max_frame_size = Some(self.message_bytes);
        config
    }
}

fn offered(headers: &HeaderMap) -> Vec<&str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).collect()
}

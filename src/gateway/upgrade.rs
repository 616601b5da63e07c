//! The WebSocket handshake.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::SEC_WEBSOCKET_PROTOCOL;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::Gateway;
use super::connection::Connection;
use super::connection_counts::{CapReached, ConnectionSlot};
use super::listener::HttpStream;
use super::transport::Transport;
use crate::net::{ClientAddress, origin};

/// The name of the one encoding that is spoken here.
const JSON: &str = "centrifuge-json";
const PROTOBUF: &str = "centrifuge-protobuf";

/// Answers a request for a WebSocket, and serves the socket if it is granted.
///
/// # Errors
/// A status and a line that says why it is not.
pub fn upgrade(gateway: &Arc<Gateway>, request: Request<Body>) -> Result<Response<Body>, (StatusCode, &'static str)> {
    if gateway.is_draining() {
        return Err((StatusCode::SERVICE_UNAVAILABLE, "the server is going away"));
    }
    if !origin::allowed(&gateway.options.origins, request.headers()) {
        gateway.metrics.refused("origin");
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
    // Of a connection through a proxy the client is known only now.
    if let (Some(slot), Some(ClientAddress(client))) = (&slot, client)
        && let Err(CapReached(reason)) = slot.assign(client)
    {
        gateway.metrics.refused(reason);
        tracing::debug!(%client, reason, "refused a connection");
        return Err((StatusCode::SERVICE_UNAVAILABLE, "too many connections"));
    }
    let mut response = response.map(|()| Body::empty());
    if json {
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(JSON));
    }
    let task = Arc::clone(gateway);
    gateway.tasks.spawn(async move {
        // On the heap, and alone: what a future holds it holds twice where it is moved, and there are many of these.
        let Some(mut connection) = Box::pin(admit(task, upgrading, address)).await else { return };
        connection.run().await;
        drop(slot);
    });
    Ok(response)
}

/// The connection, once hyper has let go of the stream.
async fn admit(gateway: Arc<Gateway>, upgrading: OnUpgrade, address: IpAddr) -> Option<Box<Connection>> {
    let parts = upgrading.await.ok()?.downcast::<HttpStream>().ok()?;
    let (stream, read) = (parts.io.into_inner().into_inner(), parts.read_buf.to_vec());
    let config = Some(gateway.websocket());
    let socket = WebSocketStream::from_partially_read(stream, read, Role::Server, config).await;
    Some(gateway.admit(Transport::new(socket), address))
}

fn offered(headers: &HeaderMap) -> Vec<&str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).collect()
}

//! The WebSocket handshake.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{HOST, ORIGIN, SEC_WEBSOCKET_PROTOCOL};
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::Gateway;
use super::connection::Connection;
use super::listener::Counted;
use super::transport::Transport;
use crate::config::Origins;

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
    if !origin_allowed(&gateway.options.origins, request.headers()) {
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
    let counted = parts.extensions.remove::<Arc<Counted>>();
    let handshake = create_response(&Request::from_parts(parts, ()));
    let (Ok(response), Some(upgrading)) = (handshake, upgrading) else {
        return Err((StatusCode::BAD_REQUEST, "this address is for WebSockets"));
    };
    let mut response = response.map(|()| Body::empty());
    if json {
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(JSON));
    }
    let task = Arc::clone(gateway);
    gateway.tasks.spawn(async move {
        // On the heap, and alone: what a future holds it holds twice where it is moved, and there are many of these.
        let Some(mut connection) = Box::pin(admit(task, upgrading)).await else { return };
        connection.run().await;
        drop(counted);
    });
    Ok(response)
}

/// The connection, once hyper has let go of the stream.
async fn admit(gateway: Arc<Gateway>, upgrading: OnUpgrade) -> Option<Box<Connection>> {
    let parts = upgrading.await.ok()?.downcast::<TokioIo<TcpStream>>().ok()?;
    let (stream, read) = (parts.io.into_inner(), parts.read_buf.to_vec());
    let config = Some(gateway.websocket());
    let socket = WebSocketStream::from_partially_read(stream, read, Role::Server, config).await;
    Some(gateway.admit(Transport::new(socket)))
}

fn offered(headers: &HeaderMap) -> Vec<&str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).collect()
}

/// Browsers say where the page came from; others say nothing, and prove who they are by their token alone.
fn origin_allowed(allowed: &Origins, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let Ok(origin) = origin.to_str().map(str::to_ascii_lowercase) else { return false };
    match allowed {
        Origins::Any => true,
        Origins::Listed(list) => {
            let host = headers.get(HOST).and_then(|host| host.to_str().ok()).map(str::to_ascii_lowercase);
            let own = origin.split_once("://").map(|(_, host)| host.to_owned());
            (own.is_some() && own == host) || list.contains(&origin)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(origin: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("feed.example.org:8000"));
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
        }
        headers
    }

    #[test]
    fn a_page_of_another_origin_is_let_in_only_if_it_is_listed() {
        let listed = Origins::Listed(vec!["https://app.example.org".into()]);
        for origin in [None, Some("http://feed.example.org:8000"), Some("https://App.example.org")] {
            assert!(origin_allowed(&listed, &headers(origin)), "{origin:?}");
        }
        for origin in ["https://evil.example.org", "null", "http://feed.example.org", "feed.example.org:8000"] {
            assert!(!origin_allowed(&listed, &headers(Some(origin))), "{origin}");
            assert!(origin_allowed(&Origins::Any, &headers(Some(origin))), "{origin}");
        }
    }
}

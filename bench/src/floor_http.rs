//! The floor's HTTP interface: the least that a backend's request needs.
//!
//! The body is the message. `POST /publish` queues it for every socket, `POST /posts/<author>` for the followers of an
//! author; other paths only answer.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::floor_room::FloorRoom;

/// The path of publications to every socket.
pub(super) const PUBLISH: &str = "/publish";
/// The path of an author's posts, before the author.
pub(super) const POSTS: &str = "/posts/";

/// Answers the requests of one connection.
pub(super) async fn serve(stream: TcpStream, room: &Arc<FloorRoom>) -> Result<()> {
    let service = service_fn(|request| {
        let room = Arc::clone(room);
        async move { Ok::<_, Infallible>(answer(request, &room).await) }
    });
    Ok(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await?)
}

async fn answer(request: Request<Incoming>, room: &FloorRoom) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let message = body.collect().await.ok().and_then(|body| Utf8Bytes::try_from(body.to_bytes()).ok());
    let Some(message) = message else {
        let mut answer = Response::new(Full::default());
        *answer.status_mut() = StatusCode::BAD_REQUEST;
        return answer;
    };
    let path = parts.uri.path();
    if path == PUBLISH {
        room.broadcast(&message);
    } else if let Some(author) = path.strip_prefix(POSTS) {
        room.post(author, &message);
    }
    Response::new(Full::new(Bytes::from_static(b"{}")))
}

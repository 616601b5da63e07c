//! The accept loop: HTTP and WebSocket upgrades on one port.
//!
//! hyper reads the head of each request, with a timeout, so a client that sends one byte a minute costs a socket for
//! ten seconds and no more. After an upgrade the plain TCP stream goes to tokio-tungstenite.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::{Request, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

use crate::metrics::Metrics;

/// The bounds of the listener.
#[derive(Clone, Copy, Debug)]
pub struct ListenerOptions {
    /// How long the head of a request may take.
    pub header_timeout: Duration,
    /// Connections at once.
    pub connections: Option<usize>,
    /// Connections of one address at once.
    pub connections_per_address: Option<usize>,
}

/// Connections that wait to be accepted: a whole town may come back at once after a restart.
const BACKLOG: u32 = 16_384;

/// How many connections each address holds, and all of them.
#[derive(Debug, Default)]
struct Census {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// One connection's entry in the census.
pub struct Counted {
    census: Arc<Mutex<Census>>,
    address: IpAddr,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut census = self.census.lock();
        census.all -= 1;
        if let Some(count) = census.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                census.by_address.remove(&self.address);
            }
        }
    }
}

fn count(census: &Arc<Mutex<Census>>, address: IpAddr, options: &ListenerOptions) -> Result<Counted, &'static str> {
    let mut now = census.lock();
    if options.connections.is_some_and(|most| now.all >= most) {
        return Err("connections");
    }
    let held = now.by_address.entry(address).or_default();
    if options.connections_per_address.is_some_and(|most| *held >= most) {
        return Err("connections_per_address");
    }
    *held += 1;
    now.all += 1;
    drop(now);
    Ok(Counted { census: Arc::clone(census), address })
}

/// Opens the port.
///
/// # Errors
/// If the address cannot be had.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Takes connections until `stopping`; those that are there finish the request they are at.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    options: ListenerOptions,
    metrics: Arc<Metrics>,
    stopping: CancellationToken,
) {
    let census = Arc::<Mutex<Census>>::default();
    let tasks = TaskTracker::new();
    while let Some(accepted) = stopping.run_until_cancelled(listener.accept()).await {
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of files, most likely: some will close.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let address = peer.ip().to_canonical();
        match count(&census, address, &options) {
            Ok(counted) => {
                let connection = serve_one(stream, peer, router.clone(), options, counted, stopping.clone());
                tasks.spawn(connection);
            }
            Err(reason) => {
                metrics.refused(reason);
                tracing::debug!(%peer, reason, "refused a connection");
                tasks.spawn(refuse(stream));
            }
        }
    }
    drop(listener);
    tasks.close();
    if tokio::time::timeout(Duration::from_secs(5), tasks.wait()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

/// Says why, as far as that can be said without having read anything.
async fn refuse(mut stream: TcpStream) {
    const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 21\r\nconnection: close\r\nretry-after: 5\r\n\r\ntoo many connections\n";
    let _ = tokio::time::timeout(Duration::from_secs(1), async {
        stream.write_all(TOO_MANY).await?;
        stream.shutdown().await
    })
    .await;
}

async fn serve_one(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    options: ListenerOptions,
    counted: Counted,
    stopping: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "a connection ended before it began");
        return;
    }
    // An upgraded connection takes its entry along: it goes when the socket does.
    let counted = Arc::new(counted);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(Arc::clone(&counted));
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(options.header_timeout)
        .max_buf_size(32 * 1024)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "a connection ended");
    }
}

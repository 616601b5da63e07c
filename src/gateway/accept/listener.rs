//! The accept loop: HTTP, WebSocket upgrades and streams on one port or socket, over TLS if there is a certificate.
//!
//! hyper reads the head of each request. A client that sends one byte a minute costs a socket for ten seconds and no
//! more ([`HeadTimer`]), and as long before that for each of a PROXY header and a TLS handshake; between two requests a
//! connection may idle for longer. Bodies and responses fail once they make no progress
//! ([`progress`](crate::net::progress)). After an upgrade, or at the beginning of a stream, the stream goes to the
//! connection of the client, which has its own write timeout.
//!
//! The client's address is that of the other end, or what a trusted proxy says: a PROXY header before the first
//! request, `X-Forwarded-For` in each request. `X-Forwarded-Prefix` of a trusted proxy is passed on as [`BasePath`].

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONNECTION, STRICT_TRANSPORT_SECURITY};
use axum::http::{HeaderValue, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::{Request, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

use super::bound_listener::{AcceptedSocket, BACKLOG, BoundListener};
use super::connection_counts::{CapReached, ConnectionCounts, ConnectionSlot};
use super::listener_routes::ListenerRoutes;
use super::stream_opener::StreamStart;
use crate::metrics::Metrics;
use crate::net::head_timer::HeadTimer;
use crate::net::progress::{ProgressBody, ProgressStream, StallFlag};
use crate::net::takeover::Takeover;
use crate::net::{BasePath, ClientAddress, ClientStream, TrustedProxies, client_address, proxy_protocol};
use crate::supervisor::supervise;

/// The bounds of the listener.
#[derive(Clone)]
pub struct ListenerOptions {
    /// How long the head of a request may take, and a PROXY header.
    pub header_timeout: Duration,
    /// How long a connection may idle between two requests.
    pub keep_alive: Duration,
    /// How long a request body or a response may make no progress.
    pub stall_timeout: Duration,
    /// Whose word about the client's address is believed.
    pub trusted_proxies: Arc<TrustedProxies>,
    /// Whether connections of trusted proxies begin with a PROXY header.
    pub proxy_protocol: bool,
    /// Set if connections to ports begin with a TLS handshake.
    pub tls: Option<TlsAcceptor>,
    /// The value of `Strict-Transport-Security` in answers over TLS; `None`: they have none.
    pub hsts: Option<HeaderValue>,
}

/// Refused connections that are answered at once; more are closed without an answer.
const REFUSALS: usize = 64;

/// How long a connection stays open at a shutdown if the head of a request is expected on it.
const FIRST_HEAD: Duration = Duration::from_secs(1);

/// What an HTTP connection runs on; an upgrade takes the TCP stream out of it.
pub(crate) type HttpStream = TokioIo<ProgressStream<ClientStream>>;

/// The steps of a shutdown.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    /// The node leaves: load balancers are to use others, and each answer closes its connection.
    pub leaving: CancellationToken,
    /// The listeners close.
    pub stopping: CancellationToken,
}

/// What every connection of a listener shares.
struct HttpListener {
    routes: ListenerRoutes,
    options: ListenerOptions,
    counts: Arc<ConnectionCounts>,
    metrics: Arc<Metrics>,
    refusals: Arc<Semaphore>,
    shutdown: Shutdown,
}

/// Takes connections until the shutdown; those that are there finish the request they are at.
pub async fn serve(
    listener: BoundListener,
    routes: ListenerRoutes,
    options: ListenerOptions,
    counts: Arc<ConnectionCounts>,
    metrics: Arc<Metrics>,
    shutdown: Shutdown,
) {
    let refusals = Arc::new(Semaphore::new(REFUSALS));
    let stopping = shutdown.stopping.clone();
    let shared = Arc::new(HttpListener { routes, options, counts, metrics, refusals, shutdown });
    let tasks = TaskTracker::new();
    let accepting = Arc::new(AcceptLoop { listener, shared, tasks: tasks.clone() });
    supervise("accept", &stopping, accepting, |accepting| async move { accepting.run().await }).await;
    // The port is closed.
    tasks.close();
    if timeout(Duration::from_secs(5), tasks.wait()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

/// Takes connections, and starts a task for each.
struct AcceptLoop {
    listener: BoundListener,
    shared: Arc<HttpListener>,
    tasks: TaskTracker,
}

impl AcceptLoop {
    async fn run(&self) {
        let Self { listener, shared, tasks } = self;
        while let Some(accepted) = shared.shutdown.stopping.run_until_cancelled(listener.accept()).await {
            match accepted {
                Ok((stream, peer)) => shared.admit(stream, peer, tasks),
                Err(error) => {
                    // Out of files, most likely: some will close.
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
        // Closing the listener would reset the connections that the kernel has accepted already.
        for _ in 0..BACKLOG {
            match listener.accept_waiting() {
                Ok(Some((stream, peer))) => shared.admit(stream, peer, tasks),
                Ok(None) => break,
                Err(error) => tracing::debug!(%error, "a connection could not be accepted"),
            }
        }
    }
}

/// The other end of a connection, as the PROXY header names it.
#[derive(Clone, Copy)]
struct Peer {
    address: IpAddr,
    /// Whether forwarded headers may be from this peer. They are not if the peer is a proxy that forwards TCP and its
    /// PROXY header names no client: the headers are the client's own then, and `address` is the proxy's.
    may_forward: bool,
}

impl HttpListener {
    /// Serves an accepted connection in a task, or refuses it.
    fn admit(self: &Arc<Self>, stream: AcceptedSocket, peer: SocketAddr, tasks: &TaskTracker) {
        let is_proxy = self.options.trusted_proxies.contains(peer.ip());
        let admitted = self.counts.open().and_then(|slot| {
            // Of a proxied connection the client is known later.
            if is_proxy { Ok(slot) } else { slot.assign(peer.ip()).map(|()| slot) }
        });
        match admitted {
            Ok(slot) => {
                tasks.spawn(Arc::clone(self).serve(stream, peer, is_proxy, slot));
            }
            Err(reason) => self.refuse(stream, peer.ip(), reason, tasks),
        }
    }

    /// Closes a connection, and says why if there is time for it.
    fn refuse(&self, stream: AcceptedSocket, client: IpAddr, CapReached(reason): CapReached, tasks: &TaskTracker) {
        self.metrics.refused(reason);
        tracing::debug!(%client, reason, "refused a connection");
        // Over TLS the client could not read why, and a handshake is not worth it.
        let stream = match stream {
            AcceptedSocket::Tcp(stream) if self.options.tls.is_none() => ClientStream::Tcp(stream),
            AcceptedSocket::Tcp(_) => return,
            AcceptedSocket::Unix(stream) => ClientStream::from(stream),
        };
        if let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() {
            tasks.spawn(async move {
                answer_refused(stream).await;
                drop(permit);
            });
        }
    }

    async fn serve(self: Arc<Self>, stream: AcceptedSocket, peer: SocketAddr, is_proxy: bool, slot: ConnectionSlot) {
        let mut peer_of_http = Peer { address: peer.ip(), may_forward: true };
        let mut plain = match stream {
            AcceptedSocket::Tcp(stream) => match stream.set_nodelay(true) {
                Ok(()) => ClientStream::Tcp(stream),
                Err(error) => return tracing::debug!(%peer, %error, "a connection ended before it began"),
            },
            AcceptedSocket::Unix(stream) => ClientStream::from(stream),
        };
        if self.options.proxy_protocol && is_proxy {
            match self.proxied_client(&mut plain).await {
                Ok(Some(client)) => peer_of_http.address = client,
                Ok(None) => peer_of_http.may_forward = false,
                Err(error) => {
                    self.metrics.refused("proxy_protocol");
                    tracing::debug!(%peer, %error, "a proxy sent no PROXY header");
                    return;
                }
            }
            if let Err(CapReached(reason)) = slot.assign(peer_of_http.address) {
                self.metrics.refused(reason);
                tracing::debug!(%peer, client = %peer_of_http.address, reason, "refused a connection");
                if self.options.tls.is_none() {
                    answer_refused(plain).await;
                }
                return;
            }
        }
        let stream = match (plain, &self.options.tls) {
            (ClientStream::Tcp(stream), Some(tls)) => match self.handshake(tls, stream).await {
                Ok(stream) => stream,
                Err(error) => {
                    if !self.shutdown.stopping.is_cancelled() {
                        self.metrics.refused("tls");
                    }
                    return tracing::debug!(%peer, %error, "a TLS handshake failed");
                }
            },
            (stream, _) => stream,
        };
        if let Err(error) = self.serve_http(stream, peer_of_http, slot).await {
            tracing::debug!(%peer, client = %peer_of_http.address, %error, "a connection ended");
        }
    }

    async fn handshake(&self, tls: &TlsAcceptor, stream: TcpStream) -> io::Result<ClientStream> {
        let accepting = timeout(self.options.header_timeout, tls.accept(stream));
        let accepted = self.shortly_after_stopping(accepting).await;
        Ok(ClientStream::from(accepted.ok_or(io::ErrorKind::ConnectionAborted)???))
    }

    /// Awaits the beginning of a connection. A silent client does not delay a shutdown for longer than the others.
    async fn shortly_after_stopping<T>(&self, beginning: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            begun = beginning => Some(begun),
            () = async { self.shutdown.stopping.cancelled().await; sleep(FIRST_HEAD).await } => None,
        }
    }

    /// The client's address out of a PROXY header.
    async fn proxied_client(&self, stream: &mut ClientStream) -> io::Result<Option<IpAddr>> {
        let reading = timeout(self.options.header_timeout, proxy_protocol::read(stream));
        let read = self.shortly_after_stopping(reading).await;
        read.ok_or(io::ErrorKind::ConnectionAborted)??
    }

    async fn serve_http(&self, stream: ClientStream, peer: Peer, slot: ConnectionSlot) -> hyper::Result<()> {
        // An upgraded connection takes its slot along: it is given back when the socket goes.
        let slot = Arc::new(slot);
        let hsts = self.options.hsts.clone().filter(|_| stream.is_encrypted());
        let heads = HeadTimer::new(self.options.header_timeout);
        let stream = ProgressStream::new(stream, self.options.stall_timeout, heads.clone());
        let takeover = stream.takeover();
        let service = service_fn(|request: Request<Incoming>| {
            heads.request_began();
            let answering = self.request(request, peer, &slot, &takeover);
            let heads = heads.clone();
            let hsts = hsts.clone();
            async move {
                let mut answer = answering.await;
                heads.answer_began();
                if let (Ok(answer), Some(hsts)) = (&mut answer, hsts) {
                    answer.headers_mut().insert(STRICT_TRANSPORT_SECURITY, hsts);
                }
                answer
            }
        });
        let stream: HttpStream = TokioIo::new(stream);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.options.keep_alive.max(self.options.header_timeout))
            .max_buf_size(32 * 1024)
            .serve_connection(stream, service)
            .with_upgrades();
        let mut connection = pin!(connection);
        let mut is_stopping = false;
        let mut stopping = pin!(async {
            self.shutdown.stopping.cancelled().await;
            // A proxy sends a request at once on the connection that it has just opened, and repeats no POST whose
            // connection closes. The answer closes the connection: `leaving` comes before `stopping`.
            if heads.head_expected() {
                sleep(FIRST_HEAD).await;
            }
        });
        let mut expired = pin!(heads.expired());
        loop {
            tokio::select! {
                biased;
                served = connection.as_mut() => return served,
                () = stopping.as_mut(), if !is_stopping => {
                    is_stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = expired.as_mut() => return Ok(()),
            }
        }
    }

    /// Answers a request. If the answer is a stream, it takes over the connection, and nothing is returned.
    fn request(
        &self,
        request: Request<Incoming>,
        peer: Peer,
        slot: &Arc<ConnectionSlot>,
        takeover: &Takeover<ClientStream>,
    ) -> impl Future<Output = Result<Response<Body>, std::convert::Infallible>> + use<> {
        let client = match peer {
            Peer { address, may_forward: true } => {
                client_address(address, request.headers(), &self.options.trusted_proxies)
            }
            Peer { address, may_forward: false } => address,
        };
        let stalled = StallFlag::default();
        let mut request =
            request.map(|body| Body::new(ProgressBody::new(body, self.options.stall_timeout, stalled.clone())));
        request.extensions_mut().insert(ClientAddress(client));
        if peer.may_forward
            && self.options.trusted_proxies.contains(peer.address)
            && let Some(base) = BasePath::forwarded(request.headers())
        {
            request.extensions_mut().insert(base);
        }
        request.extensions_mut().insert(Arc::clone(slot));
        request.extensions_mut().insert(stalled);
        let answering = self.routes.current().call(request);
        let takeover = takeover.clone();
        let leaving = self.shutdown.leaving.clone();
        async move {
            let mut response = answering.await?;
            if let Some(granted) = response.extensions().get::<StreamStart>().and_then(StreamStart::take) {
                granted.begin(&response, takeover.request());
                // The HTTP server gives the stream away at the end of its turn.
                tokio::task::yield_now().await;
                std::future::pending::<()>().await;
            }
            if leaving.is_cancelled() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response)
        }
    }
}

/// Says why, as far as that can be said without having read anything.
async fn answer_refused(mut stream: ClientStream) {
    const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 21\r\nconnection: close\r\n\
        retry-after: 5\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\n\r\ntoo many connections\n";
    let _ = timeout(Duration::from_secs(1), async {
        stream.write_all(TOO_MANY).await?;
        stream.shutdown().await
    })
    .await;
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;

    use super::*;
    use crate::gateway::accept::connection_counts::ConnectionLimits;
    use crate::net::ListenAddress;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

    /// Serves a listener that is to stop already.
    async fn serve_while_stopping(listener: BoundListener) {
        let limit = Duration::from_secs(5);
        let trusted = Arc::new(TrustedProxies::default());
        let options = ListenerOptions {
            header_timeout: limit,
            keep_alive: limit,
            stall_timeout: limit,
            trusted_proxies: Arc::clone(&trusted),
            proxy_protocol: false,
            tls: None,
            hsts: None,
        };
        let counts = ConnectionCounts::new(ConnectionLimits { connections: None, per_address: None }, trusted);
        let routes = ListenerRoutes::new(Router::new().route("/", get(|| async { "here" })));
        let shutdown = Shutdown::default();
        shutdown.leaving.cancel();
        shutdown.stopping.cancel();
        serve(listener, routes, options, counts, Arc::new(Metrics::new()), shutdown).await;
    }

    async fn answered(mut stream: impl tokio::io::AsyncRead + Unpin) {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer, and the end");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer:?}");
    }

    #[tokio::test]
    async fn connections_that_wait_at_a_shutdown_are_answered() {
        let address = ListenAddress::parse("127.0.0.1:0").expect("an address");
        let listener = BoundListener::bind(&address).await.expect("a port").remove(0);
        let Ok(ListenAddress::Port { port, .. }) = listener.address() else { panic!("a port") };
        let mut waiting = Vec::new();
        for _ in 0..3 {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
            stream.write_all(REQUEST).await.expect("to write");
            waiting.push(stream);
        }
        serve_while_stopping(listener).await;
        for stream in waiting {
            answered(stream).await;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = BoundListener::bind(&ListenAddress::Socket(path.clone())).await.expect("a socket").remove(0);
        let mut stream = UnixStream::connect(&path).await.expect("a connection");
        stream.write_all(REQUEST).await.expect("to write");
        serve_while_stopping(listener).await;
        answered(stream).await;
    }
}

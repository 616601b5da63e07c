//! A local server that records requests and answers as a test demands.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use feedline::push::providers::endpoint::EndpointUrl;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::keys;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A response.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
    delay: Duration,
}

type Handler = Arc<dyn Fn(&Received) -> Reply + Send + Sync>;

/// A server with TLS on 127.0.0.1, HTTP/1.1 and 2. It ends with the test.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    handler: Mutex<Handler>,
    requests: Mutex<Vec<Received>>,
    connections: AtomicUsize,
    /// Whether each connection ends after one response.
    close: Mutex<bool>,
    /// A change ends all connections of HTTP/2 as a server does that shuts down.
    go_away: watch::Sender<()>,
    /// The maximum number of concurrent requests on a connection of HTTP/2.
    max_streams: u32,
    active: AtomicUsize,
    max_active: AtomicUsize,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Reply {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new(), delay: Duration::ZERO }
    }

    pub(crate) fn json(status: u16, body: &serde_json::Value) -> Self {
        Self { body: body.to_string(), ..Self::new(status) }
    }

    pub(crate) fn text(status: u16, body: impl Into<String>) -> Self {
        Self { body: body.into(), ..Self::new(status) }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

impl Server {
    pub(crate) async fn start(handler: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen("127.0.0.1:0", true, handler).await
    }

    /// A server that accepts the given number of concurrent requests on a connection.
    pub(crate) async fn start_limited(
        max_streams: u32,
        handler: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::listen_limited("127.0.0.1:0", true, max_streams, handler).await
    }

    /// A server without TLS.
    pub(crate) async fn start_plain(handler: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen("127.0.0.1:0", false, handler).await
    }

    pub(crate) async fn listen(
        address: &str,
        tls: bool,
        handler: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::listen_limited(address, tls, 1000, handler).await
    }

    async fn listen_limited(
        address: &str,
        tls: bool,
        max_streams: u32,
        handler: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            handler: Mutex::new(Arc::new(handler)),
            requests: Mutex::default(),
            connections: AtomicUsize::new(0),
            close: Mutex::new(false),
            go_away: watch::Sender::new(()),
            max_streams,
            active: AtomicUsize::new(0),
            max_active: AtomicUsize::new(0),
        });
        let task = tokio::spawn(accept(listener, tls.then(acceptor), Arc::clone(&state)));
        Self { address, state, task }
    }

    /// Answers differently from now on.
    pub(crate) fn answer(&self, handler: impl Fn(&Received) -> Reply + Send + Sync + 'static) {
        *self.state.handler.lock().unwrap() = Arc::new(handler);
    }

    /// Ends each connection after one response from now on.
    pub(crate) fn close_connections(&self) {
        *self.state.close.lock().unwrap() = true;
    }

    /// Sends GOAWAY on all connections.
    pub(crate) fn go_away(&self) {
        self.state.go_away.send_replace(());
    }

    /// The maximum number of requests that were served concurrently.
    pub(crate) fn max_active(&self) -> usize {
        self.state.max_active.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self, path: &str) -> EndpointUrl {
        EndpointUrl::parse(&format!("https://{}{path}", self.address)).unwrap()
    }

    /// All requests since the last call.
    pub(crate) fn requests(&self) -> Vec<Received> {
        std::mem::take(&mut *self.state.requests.lock().unwrap())
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Passes connections on, until it drops what those that are open carry without ending them.
pub(crate) struct BrokenPath {
    pub(crate) address: SocketAddr,
    cut: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl BrokenPath {
    pub(crate) async fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, target, cut) = (listener.local_addr().unwrap(), server.address, watch::Sender::new(()));
        let cuts = cut.subscribe();
        let task = tokio::spawn(async move {
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let mut cut = cuts.clone();
                cut.mark_unchanged();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(target).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        // Both stay open.
                        Ok(()) = cut.changed() => tokio::time::sleep(Duration::from_secs(60)).await,
                    }
                });
            }
        });
        Self { address, cut, task }
    }

    /// The open connections carry nothing any more.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(());
    }
}

impl Drop for BrokenPath {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn acceptor() -> TlsAcceptor {
    let (certificate, key) = keys::certificate();
    let certificate = CertificateDer::from_pem_slice(certificate).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, state: Arc<State>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        state.connections.fetch_add(1, Ordering::SeqCst);
        let (tls, state) = (tls.clone(), Arc::clone(&state));
        tokio::spawn(async move {
            let service = service_fn(|request| respond(request, Arc::clone(&state)));
            let Some(tls) = tls else {
                let connection =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                return drop(connection.await);
            };
            let Ok(stream) = tls.accept(stream).await else { return };
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let stream = TokioIo::new(stream);
            if is_http2 {
                let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                server.max_concurrent_streams(state.max_streams);
                let mut go_away = state.go_away.subscribe();
                let mut connection = pin!(server.serve_connection(stream, service));
                loop {
                    tokio::select! {
                        _ = connection.as_mut() => break,
                        Ok(()) = go_away.changed() => connection.as_mut().graceful_shutdown(),
                    }
                }
            } else {
                drop(hyper::server::conn::http1::Builder::new().serve_connection(stream, service).await);
            }
        });
    }
}

async fn respond(request: Request<Incoming>, state: Arc<State>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let received = Received {
        method: parts.method.to_string(),
        path: parts.uri.path_and_query().unwrap().to_string(),
        version: parts.version,
        headers: parts.headers,
        body: body.collect().await.unwrap().to_bytes(),
    };
    let handler = Arc::clone(&*state.handler.lock().unwrap());
    let reply = handler(&received);
    let is_http1 = received.version == Version::HTTP_11;
    state.requests.lock().unwrap().push(received);
    let active = state.active.fetch_add(1, Ordering::SeqCst) + 1;
    state.max_active.fetch_max(active, Ordering::SeqCst);
    tokio::time::sleep(reply.delay).await;
    state.active.fetch_sub(1, Ordering::SeqCst);
    let mut response = Response::new(Full::new(Bytes::from(reply.body)));
    *response.status_mut() = reply.status.try_into().unwrap();
    for (name, value) in reply.headers {
        response.headers_mut().insert(HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap());
    }
    if is_http1 && *state.close.lock().unwrap() {
        response.headers_mut().insert("connection", HeaderValue::from_static("close"));
    }
    Ok(response)
}

//! HTTP clients: no proxy from the environment, no redirects, a timeout for each request, bounded responses.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Response};

use super::clock::now;
use super::endpoint::{EndpointError, EndpointPolicy, EndpointUrl};
use super::resolver::{GuardedResolver, Lookup};
use super::{Outcome, ProviderError, Reason, Scope, retry_after};

/// The maximum size of the part of a response that is read, in bytes. Errors of providers have some hundred bytes.
const MAX_RESPONSE_BYTES: usize = 16 * 1024;

/// The time after which an idle connection of a client of many servers is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of idle connections to each server. HTTP/2 uses one for all requests.
const MAX_IDLE_PER_HOST: usize = 2;

/// The maximum time for the answer to a PING.
const MAX_PING_TIMEOUT: Duration = Duration::from_secs(10);

/// The minimum time between two replacements of the connections to a provider.
const MIN_RECONNECT_INTERVAL: Duration = Duration::from_secs(5);

/// What all clients share.
#[derive(Clone)]
pub struct HttpOptions {
    /// The time for a request, from resolving the name to the end of the response.
    pub timeout: Duration,
    /// The time for a connection, with TLS.
    pub connect_timeout: Duration,
    /// The interval of PINGs on connections to a provider.
    pub ping_interval: Duration,
    /// Certificates of private authorities, as PEM, in addition to those of the system.
    pub ca_certificates: Vec<u8>,
    /// Which endpoints may be contacted.
    pub policy: Arc<EndpointPolicy>,
    /// Resolves names.
    pub lookup: Arc<dyn Lookup>,
}

/// How a client uses its connections.
#[derive(Clone, Copy, Debug)]
pub(super) enum Connections {
    /// The given number of long-lived connections of HTTP/2 to one provider, with PINGs.
    Provider(usize),
    /// Short-lived connections to many servers, with HTTP/1.1 or 2.
    Many,
}

/// Sends requests.
pub(super) struct HttpClient {
    clients: RwLock<Arc<Clients>>,
    options: HttpOptions,
    connections: Connections,
    reconnected: Mutex<Option<Instant>>,
}

/// One client for each connection: a client sends all its requests to a server of HTTP/2 over one connection.
struct Clients {
    https: Vec<Client>,
    /// For `http`: reaches the allowed networks only.
    http: Vec<Client>,
    next: AtomicUsize,
}

/// A response whose body has been read.
#[derive(Debug)]
pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    /// At most [`MAX_RESPONSE_BYTES`].
    pub(super) body: Bytes,
}

/// There is no response.
#[derive(Debug)]
pub(super) enum HttpError {
    /// The endpoint may not be contacted.
    Endpoint(EndpointError),
    Timeout,
    /// No connection, or no TLS.
    Connect(String),
    /// The connection ended early, or the server violates the protocol.
    Transfer(String),
}

impl HttpClient {
    pub(super) fn new(options: HttpOptions, connections: Connections) -> Result<Self, ProviderError> {
        let clients = RwLock::new(Arc::new(Clients::new(&options, connections)?));
        Ok(Self { clients, options, connections, reconnected: Mutex::default() })
    }

    /// Sends a request. The endpoint is checked first.
    pub(super) async fn post(
        &self,
        endpoint: &EndpointUrl,
        headers: HeaderMap,
        body: impl Into<reqwest::Body>,
    ) -> Result<HttpResponse, HttpError> {
        self.options.policy.check(endpoint).map_err(HttpError::Endpoint)?;
        let client = self.clients.read().choose(endpoint);
        let request = client.post(endpoint.url().clone()).headers(headers).body(body);
        HttpResponse::read(request.send().await.map_err(HttpError::new)?).await
    }

    /// Uses new connections from now on; running requests end on the old ones. If that fails, the old ones stay.
    /// Does nothing shortly after the last time, because many requests fail together.
    pub(super) fn reconnect(&self) {
        {
            let mut reconnected = self.reconnected.lock();
            if reconnected.is_some_and(|at| at.elapsed() < MIN_RECONNECT_INTERVAL) {
                return;
            }
            *reconnected = Some(Instant::now());
        }
        match Clients::new(&self.options, self.connections) {
            Ok(clients) => *self.clients.write() = Arc::new(clients),
            Err(error) => tracing::warn!(%error, "the connections to a push provider could not be renewed"),
        }
    }
}

impl Clients {
    fn new(options: &HttpOptions, connections: Connections) -> Result<Self, ProviderError> {
        let count = match connections {
            Connections::Provider(count) => count.max(1),
            Connections::Many => 1,
        };
        let build = |tls| -> Result<Vec<Client>, ProviderError> {
            (0..count).map(|_| builder(options, connections, tls)?.build().map_err(invalid)).collect()
        };
        Ok(Self { https: build(true)?, http: build(false)?, next: AtomicUsize::new(0) })
    }

    fn choose(&self, endpoint: &EndpointUrl) -> Client {
        let clients = if endpoint.is_https() { &self.https } else { &self.http };
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        clients[next % clients.len()].clone()
    }
}

fn builder(options: &HttpOptions, connections: Connections, tls: bool) -> Result<ClientBuilder, ProviderError> {
    let policy = Arc::clone(&options.policy);
    let lookup = Arc::clone(&options.lookup);
    let mut builder = Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
        .https_only(tls)
        .dns_resolver(Arc::new(GuardedResolver { lookup, policy, tls }))
        .timeout(options.timeout)
        .connect_timeout(options.connect_timeout)
        .user_agent(concat!("feedline/", env!("CARGO_PKG_VERSION")));
    if !options.ca_certificates.is_empty() {
        let certificates = Certificate::from_pem_bundle(&options.ca_certificates).map_err(invalid)?;
        if certificates.is_empty() {
            return Err(ProviderError::new("push.ca_certificates", "contains no certificate in PEM"));
        }
        builder = builder.tls_certs_merge(certificates);
    }
    Ok(match connections {
        Connections::Provider(_) => builder
            .http2_prior_knowledge()
            .http2_keep_alive_interval(options.ping_interval)
            .http2_keep_alive_timeout(options.ping_interval.min(MAX_PING_TIMEOUT))
            .http2_keep_alive_while_idle(true)
            .pool_idle_timeout(None),
        Connections::Many => builder.pool_idle_timeout(IDLE_TIMEOUT).pool_max_idle_per_host(MAX_IDLE_PER_HOST),
    })
}

fn invalid(error: reqwest::Error) -> ProviderError {
    ProviderError::new("push.ca_certificates", describe(error))
}

impl HttpResponse {
    async fn read(mut response: Response) -> Result<Self, HttpError> {
        let status = response.status().as_u16();
        let headers = std::mem::take(response.headers_mut());
        let mut body = Vec::new();
        while body.len() < MAX_RESPONSE_BYTES {
            let Some(chunk) = response.chunk().await.map_err(HttpError::new)? else { break };
            let room = MAX_RESPONSE_BYTES - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        }
        Ok(Self { status, headers, body: body.into() })
    }

    /// The delay that the response demands.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        retry_after::from_headers(&self.headers, now())
    }

    /// The beginning of the body as text, for logs.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(1024)]).into_owned()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl HttpError {
    fn new(error: reqwest::Error) -> Self {
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(error) = cause.downcast_ref::<EndpointError>() {
                return Self::Endpoint(*error);
            }
            source = cause.source();
        }
        match &error {
            error if error.is_timeout() => Self::Timeout,
            error if error.is_connect() => Self::Connect(describe_source(error)),
            _ => Self::Transfer(describe(error)),
        }
    }

    /// The consequence for a message. `scope` is what the server stands for.
    pub(super) fn outcome(&self, scope: Scope) -> Outcome {
        match self {
            Self::Endpoint(error) => Outcome::rejected("endpoint_forbidden").with_detail(&error.to_string(), &[]),
            Self::Timeout => Outcome::retry(scope, Reason::new("timeout")),
            Self::Connect(detail) => Outcome::retry(scope, Reason::with_detail("connect", detail, &[])),
            Self::Transfer(detail) => Outcome::retry(scope, Reason::with_detail("transfer", detail, &[])),
        }
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint(error) => error.fmt(f),
            Self::Timeout => f.write_str("timed out"),
            Self::Connect(detail) | Self::Transfer(detail) => f.write_str(detail),
        }
    }
}

/// An error without its URL, which is a credential.
fn describe(error: reqwest::Error) -> String {
    describe_source(&error.without_url())
}

/// The innermost cause says most.
fn describe_source(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if cause.downcast_ref::<reqwest::Error>().is_some() { "the request failed".to_owned() } else { cause.to_string() }
}

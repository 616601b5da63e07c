//! `[server]`: the socket that Feedline listens on, its files and its logs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tracing::level_filters::LevelFilter;

use crate::gateway::accept::tls::TlsFiles;
use crate::net::origin::normalized;
use crate::net::{AllowedOrigins, BasePath, ListenAddress, TrustedProxies, own_paths};
use crate::settings::parse::{self, ParseResult};
use crate::settings::{ConfigValue, SectionReader, nearest};

/// `[server]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// The addresses for HTTP and WebSockets, at least one.
    pub listen: Vec<ListenAddress>,
    /// The certificate of the ports of [`listen`](Self::listen); `None`: they are not encrypted.
    pub tls: Option<TlsFiles>,
    /// For how long browsers are to use https alone; `None`: there is no such header.
    pub hsts: Option<Duration>,
    /// The addresses whose requests are redirected to https.
    pub redirect_listen: Vec<ListenAddress>,
    /// The path below which clients reach the server, at a proxy that keeps or removes it.
    pub base_path: BasePath,
    /// The folder for Feedline's own files: the SQLite ledger, the queue of likes, generated secrets.
    pub data_dir: PathBuf,
    /// The browser origins that may connect in addition to the server's own host.
    pub origins: AllowedOrigins,
    /// The maximum number of open connections; `None`: limited only by the number of open files.
    pub connections: Option<usize>,
    /// The maximum number of connections of one client address or IPv6 /64 network; `None`: no limit.
    pub connections_per_address: Option<usize>,
    /// The maximum time until the head of a request has arrived.
    pub header_timeout: Duration,
    /// The maximum time for which a connection may idle between two requests.
    pub keep_alive: Duration,
    /// The maximum time that a request body or a response may make no progress.
    pub stall_timeout: Duration,
    /// The proxies whose forwarded client addresses are trusted.
    pub trusted_proxies: TrustedProxies,
    /// Whether connections of trusted proxies start with a PROXY header.
    pub proxy_protocol: bool,
    /// A separate address for `/health`, `/ready` and `/metrics`; `None`: [`listen`](Self::listen) serves them.
    pub admin_listen: Option<SocketAddr>,
    /// How long a shutdown serves everything as before, while this node is not ready any more.
    pub drain_delay: Duration,
    /// The period over which a shutdown closes the open sockets.
    pub drain: Duration,
    /// The minimum level of the events that are logged.
    pub log_level: LevelFilter,
    /// The format of log lines.
    pub log_format: LogFormat,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Plain text
    Text,
    /// One JSON object for each line
    Json,
}

/// The schemes of pages. Applications with a web view have others.
const WEB_SCHEMES: [&str; 2] = ["http", "https"];

impl ServerConfig {
    pub(super) fn read(mut section: SectionReader<'_>) -> Self {
        const LEVELS: &[(&str, LevelFilter)] = &[
            ("error", LevelFilter::ERROR),
            ("warn", LevelFilter::WARN),
            ("info", LevelFilter::INFO),
            ("debug", LevelFilter::DEBUG),
            ("trace", LevelFilter::TRACE),
        ];
        let server = Self {
            listen: section.read("listen", listen),
            tls: tls_files(&mut section),
            hsts: section.read("hsts", optional_duration),
            redirect_listen: section.read("redirect_listen", addresses),
            base_path: section.read("base_path", base_path),
            data_dir: section.read("data_dir", parse::nonempty_text).into(),
            origins: section.read("origins", origins),
            connections: section.read("connections", parse::limit(10_000_000)),
            connections_per_address: section.read("connections_per_address", parse::limit(10_000_000)),
            header_timeout: section.read("header_timeout", parse::duration("100ms"..="10m")),
            keep_alive: section.read("keep_alive", parse::duration("1s"..="1h")),
            stall_timeout: section.read("stall_timeout", parse::duration("100ms"..="10m")),
            trusted_proxies: section.read("trusted_proxies", trusted_proxies),
            proxy_protocol: section.read("proxy_protocol", parse::boolean),
            admin_listen: section.read("admin_listen", parse::optional_address),
            drain_delay: section.read("drain_delay", parse::duration("0s"..="10m")),
            drain: section.read("drain", parse::duration("0s"..="10m")),
            log_level: section.read("log_level", parse::one_of(LEVELS)),
            log_format: section
                .read("log_format", parse::one_of(&[("text", LogFormat::Text), ("json", LogFormat::Json)])),
        };
        if server.proxy_protocol && server.trusted_proxies.is_empty() {
            section
                .problem(&["proxy_protocol"], "applies to no connection: name the proxies in server.trusted_proxies");
        }
        let admin = server.admin_listen.map(ListenAddress::from);
        let is_fixed = |address: &&ListenAddress| address.port() != Some(0);
        if server.listen.iter().filter(is_fixed).any(|address| Some(address) == admin.as_ref()) {
            section.problem(&["admin_listen"], "is the address of server.listen: expected another one");
        }
        let both = server.redirect_listen.iter().filter(is_fixed);
        if both.into_iter().any(|address| server.listen.contains(address) || Some(address) == admin.as_ref()) {
            section.problem(&["redirect_listen"], "is an address of server.listen or server.admin_listen");
        }
        let for_tls = [("hsts", server.hsts.is_some()), ("redirect_listen", !server.redirect_listen.is_empty())];
        for (key, _) in for_tls.into_iter().filter(|(_, is_set)| *is_set && server.tls.is_none()) {
            section.problem(&[key], "needs server.tls_certificate and server.tls_key");
        }
        server
    }
}

fn listen(value: &ConfigValue) -> ParseResult<Vec<ListenAddress>> {
    let addresses = addresses(value)?;
    if addresses.is_empty() { Err("must not be empty".into()) } else { Ok(addresses) }
}

/// Addresses to listen on, each once.
fn addresses(value: &ConfigValue) -> ParseResult<Vec<ListenAddress>> {
    let mut addresses = Vec::new();
    for text in parse::text_or_list(value)? {
        let address = ListenAddress::parse(&text).ok_or_else(|| {
            format!("expected an address and a port, such as 127.0.0.1:8000, or unix:/PATH, not {text:?}")
        })?;
        if addresses.contains(&address) && address.port() != Some(0) {
            return Err(format!("holds {address} twice"));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

/// The files of the certificate; one without the other is a problem.
fn tls_files(section: &mut SectionReader<'_>) -> Option<TlsFiles> {
    let certificate = section.read("tls_certificate", parse::optional_text);
    let key = section.read("tls_key", parse::optional_text);
    match (certificate, key) {
        (Some(certificate), Some(key)) => Some(TlsFiles { certificate: certificate.into(), key: key.into() }),
        (None, None) => None,
        (Some(_), None) => {
            section.problem(&["tls_key"], "is missing: server.tls_certificate is set");
            None
        }
        (None, Some(_)) => {
            section.problem(&["tls_certificate"], "is missing: server.tls_key is set");
            None
        }
    }
}

/// A duration; `None` if the text is empty.
fn optional_duration(value: &ConfigValue) -> ParseResult<Option<Duration>> {
    parse::optional_text(value)?.map(|_| parse::duration("1s"..="3650d")(value)).transpose()
}

fn base_path(value: &ConfigValue) -> ParseResult<BasePath> {
    let text = parse::text(value)?;
    let expected = "expected a path such as /feed, of letters, digits, and - . _ ~";
    let base = BasePath::parse(&text).ok_or_else(|| format!("{expected}, not {text:?}"))?;
    let first = base.as_str().split('/').nth(1).unwrap_or_default();
    if own_paths::is_own(first) {
        return Err(format!("/{first} is a path of the server itself: choose another one"));
    }
    Ok(base)
}

fn trusted_proxies(value: &ConfigValue) -> ParseResult<TrustedProxies> {
    TrustedProxies::parse(parse::text_list(value)?.iter().map(String::as_str))
}

fn origins(value: &ConfigValue) -> ParseResult<AllowedOrigins> {
    let origins = parse::text_list(value)?;
    if origins.iter().any(|origin| origin == "*") {
        return Ok(AllowedOrigins::Any);
    }
    origins.iter().map(|text| allowed_origin(text)).collect::<ParseResult<_>>().map(AllowedOrigins::Listed)
}

/// An origin as browsers send it. Anything else would match nothing.
fn allowed_origin(text: &str) -> ParseResult<String> {
    let expected = format!("expected origins such as https://app.example.org, or \"*\", not {text:?}");
    if text.contains('*') {
        return Err(format!("{expected}: patterns match nothing; write each origin"));
    }
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_slip = |scheme: &str| {
        !WEB_SCHEMES.contains(&scheme)
            && (["ws", "wss"].contains(&scheme) || nearest(scheme, WEB_SCHEMES.into_iter()).is_some())
    };
    match (scheme.as_deref(), normalized(text)) {
        (None, _) if text == "null" => Err(format!("{expected}: such pages have no origin")),
        (Some("file" | "data" | "about" | "blob"), _) => Err(format!("{expected}: such pages have no origin")),
        (Some(scheme), Some(origin)) if !is_slip(scheme) => Ok(origin),
        _ => Err(format!("{expected}{}", origin_hint(text))),
    }
}

/// The origin that a text probably stands for.
fn origin_hint(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("https", text));
    let scheme = if ["http", "ws"].contains(&scheme.to_ascii_lowercase().as_str()) { "http" } else { "https" };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default().rsplit('@').next().unwrap_or_default();
    let origin = normalized(&format!("{scheme}://{host}"));
    origin.map(|origin| format!("; did you mean {origin:?}?")).unwrap_or_default()
}

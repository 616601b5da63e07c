//! The sections of the configuration: what each key is, and which values it may have. What the keys mean to the user
//! is in `config.toml`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jsonwebtoken::DecodingKey;
use tracing::level_filters::LevelFilter;

use super::layers::{Section, Value};
use super::secrets::Secret;
use super::urls::{BrokerUrl, LedgerUrl};
use super::value::{self, Read};
use crate::ledger::Durability;
use crate::net::TrustedProxies;

/// `[server]`: the socket Feedline listens on, its files and its logs.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Where HTTP and WebSockets are served.
    pub listen: SocketAddr,
    /// The directory of Feedline's own files.
    pub data_dir: PathBuf,
    /// The browser origins that may connect besides the page's own host.
    pub origins: Origins,
    /// How many connections at once, if there is a cap.
    pub connections: Option<usize>,
    /// How many of one address, if there is a cap.
    pub connections_per_address: Option<usize>,
    /// How long the head of a request may take.
    pub header_timeout: Duration,
    /// How long a request body or a response may make no progress.
    pub stall_timeout: Duration,
    /// The proxies whose word about a client's address is believed.
    pub trusted_proxies: TrustedProxies,
    /// Whether connections of trusted proxies begin with a PROXY header.
    pub proxy_protocol: bool,
    /// Where `/health`, `/ready` and `/metrics` are served instead, if anywhere.
    pub admin_listen: Option<SocketAddr>,
    /// How long a shutdown spreads the closing of sockets over.
    pub drain: Duration,
    /// The least important lines that are logged.
    pub log_level: LevelFilter,
    /// How lines are logged.
    pub log_format: LogFormat,
}

/// Browser origins that may connect besides the page's own host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origins {
    /// Whichever.
    Any,
    /// These, each as a browser sends it: `scheme://host` or `scheme://host:port`, in lower case.
    Listed(Vec<String>),
}

/// How lines are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Server {
    pub(super) fn read(mut section: Section<'_>) -> Self {
        const LEVELS: &[(&str, LevelFilter)] = &[
            ("error", LevelFilter::ERROR),
            ("warn", LevelFilter::WARN),
            ("info", LevelFilter::INFO),
            ("debug", LevelFilter::DEBUG),
            ("trace", LevelFilter::TRACE),
        ];
        Self {
            listen: section.read("listen", value::address),
            data_dir: section.read("data_dir", value::nonempty_text).into(),
            origins: section.read("origins", origins),
            connections: section.read("connections", value::cap(10_000_000)),
            connections_per_address: section.read("connections_per_address", value::cap(10_000_000)),
            header_timeout: section.read("header_timeout", value::duration("100ms"..="10m")),
            stall_timeout: section.read("stall_timeout", value::duration("100ms"..="10m")),
            trusted_proxies: section.read("trusted_proxies", trusted_proxies),
            proxy_protocol: section.read("proxy_protocol", value::flag),
            admin_listen: section.read("admin_listen", value::optional_address),
            drain: section.read("drain", value::duration("0s"..="10m")),
            log_level: section.read("log_level", value::one_of(LEVELS)),
            log_format: section
                .read("log_format", value::one_of(&[("text", LogFormat::Text), ("json", LogFormat::Json)])),
        }
    }
}

fn trusted_proxies(value: &Value) -> Read<TrustedProxies> {
    TrustedProxies::parse(value::texts(value)?.iter().map(String::as_str))
}

fn origins(value: &Value) -> Read<Origins> {
    let origins = value::texts(value)?;
    if origins.iter().any(|origin| origin == "*") {
        return Ok(Origins::Any);
    }
    let origin = |text: String| match text.split_once("://") {
        Some((scheme, host)) if !scheme.is_empty() && !host.is_empty() && !host.contains('/') => {
            Ok(text.to_ascii_lowercase())
        }
        _ => Err(format!("expected origins such as https://app.example.org, or \"*\", not {text:?}")),
    };
    origins.into_iter().map(origin).collect::<Read<_>>().map(Origins::Listed)
}

/// `[client]`: the bounds of one client's connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// The largest message from a client, in bytes.
    pub message_bytes: usize,
    /// The most bytes that may wait for it.
    pub queue_bytes: usize,
    /// The most messages that may wait for it.
    pub queue_messages: usize,
    /// The time between pings; whole seconds, since that is how the client is told.
    pub ping_interval: Duration,
    /// The time a pong may take; less than the interval.
    pub pong_timeout: Duration,
    /// The time a connect command may take.
    pub connect_timeout: Duration,
    /// The time one write may take.
    pub write_timeout: Duration,
    /// The most channels it may subscribe to.
    pub channels: usize,
    /// The longest name of a channel, in bytes.
    pub channel_length: usize,
    /// How many commands a second, if there is a limit; bursts may be twice as many.
    pub commands_per_second: Option<u32>,
    /// The most publications of one history answer.
    pub history_limit: usize,
    /// The most publications of one recovery.
    pub recovery_limit: usize,
    /// The most clients of one presence answer.
    pub presence_limit: usize,
    /// How many connections one user may have on a node, if there is a limit.
    pub connections_per_user: Option<u32>,
}

impl Client {
    pub(super) fn read(mut section: Section<'_>) -> Self {
        let client = Self {
            message_bytes: section.read("message_bytes", value::whole(1024..=64 << 20)),
            queue_bytes: section.read("queue_bytes", value::whole(1024..=1 << 30)),
            queue_messages: section.read("queue_messages", value::whole(1..=10_000_000)),
            ping_interval: section.read("ping_interval", value::duration("1s"..="1h")),
            pong_timeout: section.read("pong_timeout", value::duration("100ms"..="1h")),
            connect_timeout: section.read("connect_timeout", value::duration("100ms"..="10m")),
            write_timeout: section.read("write_timeout", value::duration("100ms"..="10m")),
            channels: section.read("channels", value::whole(1..=1_000_000)),
            channel_length: section.read("channel_length", value::whole(1..=4096)),
            commands_per_second: section.read("commands_per_second", value::cap(1_000_000)),
            history_limit: section.read("history_limit", value::whole(1..=100_000)),
            recovery_limit: section.read("recovery_limit", value::whole(1..=100_000)),
            presence_limit: section.read("presence_limit", value::whole(1..=10_000)),
            connections_per_user: section.read("connections_per_user", value::cap(1_000_000)),
        };
        if client.ping_interval.subsec_nanos() != 0 {
            section.problem(&["ping_interval"], "expected whole seconds");
        }
        if client.pong_timeout >= client.ping_interval {
            section.problem(&["pong_timeout", "ping_interval"], "pong_timeout must be shorter than ping_interval");
        }
        client
    }
}

/// `[broker]`: where the live state is.
#[derive(Clone, Debug, PartialEq)]
pub struct Broker {
    /// Where it is.
    pub url: BrokerUrl,
    /// The time one call may take.
    pub timeout: Duration,
    /// What every key and channel in Redis begins with.
    pub prefix: String,
    /// The time between two probes of pub/sub.
    pub probe_interval: Duration,
}

impl Broker {
    pub(super) fn read(mut section: Section<'_>) -> Self {
        Self {
            url: section.read("url", BrokerUrl::read),
            timeout: section.read("timeout", value::duration("50ms"..="1m")),
            prefix: section.read("prefix", prefix),
            probe_interval: section.read("probe_interval", value::duration("100ms"..="1m")),
        }
    }
}

/// Braces would be hash tags to Redis Cluster, and the rest patterns or separators.
fn prefix(value: &Value) -> Read<String> {
    let prefix = value::text(value)?;
    let plain = prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    let fits = plain && (1..=64).contains(&prefix.len());
    fits.then(|| prefix.clone()).ok_or_else(|| format!("expected 1 to 64 of A-Z a-z 0-9 _ - ., not {prefix:?}"))
}

/// `[ledger]`: where the durable truth is.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    /// Where it is.
    pub url: LedgerUrl,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// The time one call may take.
    pub timeout: Duration,
    /// Connections to PostgreSQL.
    pub connections: usize,
}

impl Ledger {
    pub(super) fn read(mut section: Section<'_>, data_dir: &Path) -> Self {
        const WORDS: &[(&str, Durability)] = &[("full", Durability::Full), ("normal", Durability::Normal)];
        Self {
            url: section.read("url", |value| LedgerUrl::read(value, data_dir)),
            durability: section.read("durability", value::one_of(WORDS)),
            timeout: section.read("timeout", value::duration("50ms"..="1m")),
            connections: section.read("connections", value::whole(1..=1_000)),
        }
    }
}

/// `[auth]`: who may come in.
#[derive(Clone, Debug, PartialEq)]
pub struct Auth {
    /// What HS256 tokens are signed with, if configured; [`Secrets`](super::Secrets) may have made one.
    pub hmac_secret: Option<Secret>,
    /// What HS256 tokens may be signed with too.
    pub hmac_secret_previous: Option<Secret>,
    /// Whether these two may be shorter than 32 characters.
    pub allow_short_secret: bool,
    /// What Feedline signs its own sessions with, if configured; [`Secrets`](super::Secrets) may have made one.
    pub session_key: Option<Secret>,
    /// What RS256 tokens are verified with: PEM text that was found to be a key.
    pub rsa_public_key: Option<String>,
    /// What ES256 tokens are verified with: PEM text that was found to be a key.
    pub ecdsa_public_key: Option<String>,
    /// What a token's `aud` must hold, if anything.
    pub audience: Option<String>,
    /// What a token's `iss` must be, if anything.
    pub issuer: Option<String>,
    /// What backends may present, if configured; [`Secrets`](super::Secrets) may have made one.
    pub api_keys: Vec<Secret>,
    /// How long tokens that Feedline issues are valid.
    pub token_ttl: Duration,
    /// Whether a token must have an `exp`.
    pub require_exp: bool,
    /// How far the clocks of those who make tokens may differ from this one.
    pub leeway: Duration,
    /// How long a revocation without an end of its own is remembered.
    pub revocation_ttl: Duration,
    /// Whether clients may connect without a token.
    pub anonymous: bool,
}

impl Auth {
    pub(super) fn read(mut section: Section<'_>) -> Self {
        let auth = Self {
            hmac_secret: section.read("hmac_secret", value::optional_secret),
            hmac_secret_previous: section.read("hmac_secret_previous", value::optional_secret),
            allow_short_secret: section.read("allow_short_secret", value::flag),
            session_key: section.read("session_key", value::optional_secret),
            rsa_public_key: section.read("rsa_public_key", |value| public_key(value, KeyKind::Rsa)),
            ecdsa_public_key: section.read("ecdsa_public_key", |value| public_key(value, KeyKind::Ecdsa)),
            audience: section.read("audience", value::optional_text),
            issuer: section.read("issuer", value::optional_text),
            api_keys: section.read("api_keys", value::secrets),
            token_ttl: section.read("token_ttl", value::duration("1s"..="3650d")),
            require_exp: section.read("require_exp", value::flag),
            leeway: section.read("leeway", value::duration("0s"..="1h")),
            revocation_ttl: section.read("revocation_ttl", value::duration("1m"..="36500d")),
            anonymous: section.read("anonymous", value::flag),
        };
        auth.check_secrets(&mut section);
        auth
    }

    /// Notes secrets that are too short, or the same.
    fn check_secrets(&self, section: &mut Section<'_>) {
        let is_short = |secret: &Option<Secret>| secret.as_ref().is_some_and(Secret::is_short);
        if !self.allow_short_secret {
            let message = "expected 32 characters or more (auth.allow_short_secret accepts less)";
            for (key, secret) in
                [("hmac_secret", &self.hmac_secret), ("hmac_secret_previous", &self.hmac_secret_previous)]
            {
                if is_short(secret) {
                    section.problem(&[key], message);
                }
            }
        }
        if is_short(&self.session_key) {
            section.problem(&["session_key"], "expected 32 characters or more");
        }
        let others = [&self.hmac_secret, &self.hmac_secret_previous];
        if self.session_key.is_some() && others.contains(&&self.session_key) {
            section.problem(&["session_key"], "must differ from auth.hmac_secret: applications may know that one");
        }
    }

    /// Whether the application's own key for tokens is configured. A secret that Feedline made is none.
    pub fn has_token_key(&self) -> bool {
        let secret = self.hmac_secret.is_some() || self.hmac_secret_previous.is_some();
        secret || self.rsa_public_key.is_some() || self.ecdsa_public_key.is_some()
    }
}

#[derive(Clone, Copy)]
enum KeyKind {
    Rsa,
    Ecdsa,
}

/// Takes PEM text, or reads it from the file that is named.
fn public_key(value: &Value, kind: KeyKind) -> Read<Option<String>> {
    let Some(written) = value::optional_text(value)? else { return Ok(None) };
    let pem = if written.trim_start().starts_with("-----BEGIN") {
        written
    } else {
        std::fs::read_to_string(&written).map_err(|error| format!("the file {written:?} cannot be read: {error}"))?
    };
    let key = match kind {
        // As a verifying key, a private one is taken by the parser and then fits no signature.
        _ if pem.contains("PRIVATE KEY") => None,
        KeyKind::Rsa => DecodingKey::from_rsa_pem(pem.as_bytes()).ok(),
        KeyKind::Ecdsa => DecodingKey::from_ec_pem(pem.as_bytes()).ok().filter(is_p256),
    };
    let name = match kind {
        KeyKind::Rsa => "an RSA public key",
        KeyKind::Ecdsa => "a public key on the curve P-256",
    };
    key.map(|_| Some(pem)).ok_or_else(|| format!("expected {name} in PEM, or the path of one"))
}

/// Whether the point is one byte of form and two coordinates of 32 bytes.
fn is_p256(key: &DecodingKey) -> bool {
    key.try_get_as_bytes().is_ok_and(|point| point.len() == 65)
}

/// `[accounts]`: built-in accounts.
#[derive(Clone, Debug, PartialEq)]
pub struct Accounts {
    /// Whether there are any; `None`: unless a key for an application's tokens is configured.
    pub enabled: Option<bool>,
}

impl Accounts {
    pub(super) fn read(mut section: Section<'_>) -> Self {
        Self { enabled: section.read("enabled", value::flag_or_auto) }
    }
}

/// `[timeline]`: the inbox of a timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// How many entries it keeps, at least.
    pub length: u64,
    /// How many days it stays without its owner.
    pub idle_days: u32,
    /// The most posts that a follow brings in.
    pub follow_merge: usize,
}

impl Timeline {
    pub(super) fn read(mut section: Section<'_>) -> Self {
        Self {
            length: section.read("length", value::whole(1..=100_000)),
            idle_days: section.read("idle_days", value::whole(1..=3650)),
            follow_merge: section.read("follow_merge", value::whole(0..=10_000)),
        }
    }
}

/// `[fanout]`: how posts get to their readers.
#[derive(Clone, Debug, PartialEq)]
pub struct Fanout {
    /// The most followers whose inboxes are written to; the posts of authors with more are pulled.
    pub push_limit: u64,
    /// How many followers one step handles.
    pub page: usize,
    /// How many jobs run at once.
    pub workers: usize,
    /// The time after which a silent worker has lost its job.
    pub lease: Duration,
}

impl Fanout {
    pub(super) fn read(mut section: Section<'_>) -> Self {
        Self {
            push_limit: section.read("push_limit", value::whole(0..=1_000_000_000)),
            page: section.read("page", value::whole(1..=10_000)),
            workers: section.read("workers", value::whole(1..=256)),
            lease: section.read("lease", value::duration("100ms"..="10m")),
        }
    }
}

/// `[likes]`: how likes are taken and told.
#[derive(Clone, Debug, PartialEq)]
pub struct Likes {
    /// How many may wait to be settled.
    pub queue_length: u64,
    /// How many times a second the counts of one post are told at most.
    pub counts_per_second: u32,
}

impl Likes {
    pub(super) fn read(mut section: Section<'_>) -> Self {
        Self {
            queue_length: section.read("queue_length", value::whole(1..=100_000_000)),
            counts_per_second: section.read("counts_per_second", value::whole(1..=1000)),
        }
    }
}

/// `[limits]`: what one post or user may have.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The longest text of a post, in characters.
    pub text: usize,
    /// The most media of a post.
    pub media: usize,
    /// The most topics of a post.
    pub topics: usize,
    /// The largest `data` of a post, in bytes.
    pub data_bytes: usize,
    /// The most others a user may follow.
    pub follows: u64,
    /// The most favourites of one type a user may have.
    pub favourites: u64,
}

impl Limits {
    pub(super) fn read(mut section: Section<'_>) -> Self {
        Self {
            text: section.read("text", value::whole(1..=1_000_000)),
            media: section.read("media", value::whole(0..=1000)),
            topics: section.read("topics", value::whole(0..=1000)),
            data_bytes: section.read("data_bytes", value::whole(0..=1 << 20)),
            follows: section.read("follows", value::whole(1..=10_000_000)),
            favourites: section.read("favourites", value::whole(1..=1_000_000)),
        }
    }
}

/// `[rates]`: how often a minute, if there is a limit; bursts may be twice as many.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// Posts of a user.
    pub posts: Option<u32>,
    /// Comments of a user.
    pub comments: Option<u32>,
    /// Likes of a user.
    pub likes: Option<u32>,
    /// Edges of a user.
    pub follows: Option<u32>,
    /// All other writes of a user.
    pub writes: Option<u32>,
    /// Users mentioned by a user.
    pub mentions: Option<u32>,
    /// Units of reading of a user.
    pub reads: Option<u32>,
    /// KiB that a user publishes to channels.
    pub publications: Option<u32>,
    /// Accounts made from an address.
    pub accounts: Option<u32>,
    /// Attempts to sign in from an address.
    pub sessions: Option<u32>,
}

impl Rates {
    pub(super) fn read(mut section: Section<'_>) -> Self {
        let mut rate = |key| section.read(key, value::cap(1_000_000));
        Self {
            posts: rate("posts"),
            comments: rate("comments"),
            likes: rate("likes"),
            follows: rate("follows"),
            writes: rate("writes"),
            mentions: rate("mentions"),
            reads: rate("reads"),
            publications: rate("publications"),
            accounts: rate("accounts"),
            sessions: rate("sessions"),
        }
    }
}

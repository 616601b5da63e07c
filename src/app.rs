//! Builds the parts of the server, starts them in order, and stops them in reverse order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api::Executor;
use crate::api::operations::Operations;
use crate::auth::{ApiKeys, Passwords, RevocationList, SessionIssuer, Verifier};
use crate::broker::{Broker, DurableQueue, Flush, InboxOptions, Journal, MemoryBroker, RedisBroker, RedisOptions};
use crate::config::{BrokerUrl, Config, Durability, LedgerUrl, Secret, Secrets};
use crate::feed::{FanoutOptions, Feed, FeedOptions, LikesOptions, LimitOptions, RateOptions};
use crate::gateway::channels::Channels;
use crate::gateway::connection_counts::{ConnectionCounts, ConnectionLimits, connections_for};
use crate::gateway::listener::{self, ListenerOptions};
use crate::gateway::outbox::Bounds;
use crate::gateway::session::SessionOptions;
use crate::gateway::{Gateway, GatewayOptions, GatewayParts};
use crate::http::{HttpParts, ProbeParts, admin_router, probe_routes, router};
use crate::ledger::{Ledger, LedgerError, PostgresLedger, PostgresOptions, SqliteLedger, SqliteOptions};
use crate::metrics::Metrics;
use crate::model::Retention;

/// A running server.
pub struct App {
    address: SocketAddr,
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    feed: Arc<Feed>,
    gateway: Gateway,
    admin_address: Option<SocketAddr>,
    serving: Vec<JoinHandle<()>>,
    stopping: CancellationToken,
    drain: Duration,
}

impl App {
    /// Opens the stores, then the listeners.
    ///
    /// # Errors
    /// If a store cannot be opened, a key is invalid, or an address cannot be bound.
    pub async fn start(config: &Config, secrets: &Secrets) -> anyhow::Result<Self> {
        warn_of_risks(config);
        let (broker, queue) = open_broker(config).await?;
        let ledger = open_ledger(config).await?;
        let metrics = Arc::new(Metrics::new());
        let revocations = Arc::new(RevocationList::default());
        let parts = crate::feed::FeedParts {
            ledger: Arc::clone(&ledger),
            broker: Arc::clone(&broker),
            queue,
            passwords: Passwords::new(),
            issuer: SessionIssuer::new(&config.auth, secrets),
            revocations: Arc::clone(&revocations),
            metrics: Arc::clone(&metrics),
        };
        let feed = Feed::new(parts, &feed_options(config));
        let operations = Arc::new(Operations::new());
        let executor = Arc::new(Executor::new(Arc::clone(&feed)));
        let sessions = Arc::new(session_options(config, secrets, revocations)?);
        let parts = GatewayParts {
            feed: Arc::clone(&feed),
            broker: Arc::clone(&broker),
            operations: Arc::clone(&operations),
            executor: Arc::clone(&executor),
            sessions: Arc::clone(&sessions),
            metrics: Arc::clone(&metrics),
        };
        let gateway = Gateway::new(&parts, gateway_options(config));
        feed.start().await.context("the stores cannot be compared, or the broker gives this node no number")?;
        executor.start();
        let (listener, address) = listen(config.server.listen, "server.listen")?;
        let admin = config.server.admin_listen.map(|address| listen(address, "server.admin_listen")).transpose()?;
        let options = listener_options(config);
        let probes = probe_routes(ProbeParts {
            feed: Arc::clone(&feed),
            metrics: Arc::clone(&metrics),
            gauges: Arc::clone(gateway.gauges()),
            draining: gateway.draining().clone(),
        });
        let parts = HttpParts {
            upgrader: Arc::clone(gateway.upgrader()),
            operations,
            executor,
            verifier: Verifier::new(&config.auth, secrets)?,
            api_keys: ApiKeys::new(&secrets.api_keys)?,
            origins: config.server.origins.clone(),
            trusted: Arc::clone(&options.trusted_proxies),
            sessions,
            broker: Arc::clone(&broker),
            logs: Arc::clone(gateway.logs()),
            feed: Arc::clone(&feed),
            metrics: Arc::clone(&metrics),
        };
        let stopping = CancellationToken::new();
        let serve = |listener, router, limits, proxy_protocol| {
            let options = ListenerOptions { proxy_protocol, ..options.clone() };
            let counts = ConnectionCounts::new(limits, Arc::clone(&options.trusted_proxies));
            tokio::spawn(listener::serve(listener, router, options, counts, Arc::clone(&metrics), stopping.clone()))
        };
        let admin_address = admin.as_ref().map(|(_, address)| *address);
        let mut serving = Vec::new();
        let public = match admin {
            Some((listener, _)) => {
                let limits = ConnectionLimits { connections: Some(ADMIN_CONNECTIONS), per_address: None };
                serving.push(serve(listener, admin_router(probes), limits, false));
                router(parts, axum::Router::new())
            }
            None => router(parts, probes),
        };
        serving.push(serve(listener, public, connection_limits(config)?, options.proxy_protocol));
        let drain = config.server.drain;
        Ok(Self { address, admin_address, broker, ledger, feed, gateway, serving, stopping, drain })
    }

    /// The address of `server.listen`, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of `server.admin_listen`; `None`: metrics and health are served at [`address`](Self::address).
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// The displayed names of the broker and the ledger.
    pub fn stores(&self) -> (String, String) {
        (self.broker.name(), self.ledger.name())
    }

    /// Stops the server. First `/ready` fails, new sockets are refused, and open sockets are closed over the drain
    /// period with a code that makes clients reconnect to another node. Then the listeners close, the feed hands over
    /// its work, and the ledger closes.
    pub async fn stop(self) {
        self.gateway.drain(self.drain).await;
        self.stopping.cancel();
        for serving in self.serving {
            if serving.await.is_err() {
                tracing::error!("the accept loop had failed");
            }
        }
        self.feed.stop().await;
        self.ledger.close().await;
    }
}

/// The maximum number of connections of `server.admin_listen`, for a few metrics collectors and load balancers. Their
/// files are among the reserved ones.
const ADMIN_CONNECTIONS: usize = 64;

fn listen(address: SocketAddr, key: &str) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = listener::bind(address).with_context(|| format!("cannot listen on {address} ({key})"))?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn listener_options(config: &Config) -> ListenerOptions {
    let server = &config.server;
    if server.proxy_protocol && server.trusted_proxies.is_empty() {
        tracing::warn!("server.proxy_protocol has no effect: server.trusted_proxies is empty");
    }
    if server.trusted_proxies.trusts_everyone() {
        tracing::warn!("server.trusted_proxies holds every address: every client can invent its own");
    }
    ListenerOptions {
        header_timeout: server.header_timeout,
        stall_timeout: server.stall_timeout,
        trusted_proxies: Arc::new(server.trusted_proxies.clone()),
        proxy_protocol: server.proxy_protocol,
    }
}

/// The connection limits of the public listener. They never exceed the number of available file descriptors.
fn connection_limits(config: &Config) -> anyhow::Result<ConnectionLimits> {
    let (files, _) = rlimit::getrlimit(rlimit::Resource::NOFILE).context("the limit of open files cannot be read")?;
    let possible = connections_for(files, config.ledger.connections);
    let connections = match config.server.connections {
        Some(configured) if configured > possible => {
            tracing::warn!(configured, possible, files, "too few open files for server.connections");
            possible
        }
        configured => configured.unwrap_or(possible),
    };
    tracing::debug!(connections, files, "capped connections");
    let per_address = config.server.connections_per_address;
    Ok(ConnectionLimits { connections: Some(connections), per_address })
}

/// Logs warnings for valid settings that are risky.
fn warn_of_risks(config: &Config) {
    let auth = &config.auth;
    if config.accounts_enabled() && auth.has_token_key() {
        tracing::warn!(
            "accounts are enabled beside a key for an application's tokens: an id belongs to the first user, so \
             people can sign up with ids that the application has not used yet"
        );
    }
    if [&auth.hmac_secret, &auth.hmac_secret_previous].into_iter().flatten().any(Secret::is_short) {
        tracing::warn!("a secret for tokens has less than 32 characters (auth.allow_short_secret): it can be guessed");
    }
}

/// The broker, and the queue of deferred ledger writes. Redis serves as both; in a single process, the queue is a
/// folder of files.
async fn open_broker(config: &Config) -> anyhow::Result<(Arc<dyn Broker>, Arc<dyn DurableQueue>)> {
    let idle = Duration::from_secs(u64::from(config.timeline.idle_days) * 24 * 3_600);
    let inbox = InboxOptions { length: config.timeline.length, idle };
    Ok(match &config.broker.url {
        BrokerUrl::Memory => {
            let flush = match config.ledger.durability {
                Durability::Full => Flush::Always,
                Durability::Normal => Flush::Never,
            };
            let queue = Journal::open(config.server.data_dir.join("likes"), flush).await;
            let queue = queue.context("cannot use the queue of likes (server.data_dir)")?;
            (Arc::new(MemoryBroker::new(inbox)), Arc::new(queue))
        }
        BrokerUrl::Redis(url) => {
            let options = RedisOptions {
                url: url.clone(),
                timeout: config.broker.timeout,
                prefix: config.broker.prefix.clone(),
                inbox,
                probe_every: config.broker.probe_interval,
            };
            let broker = RedisBroker::connect(options).await;
            let broker = broker.with_context(|| format!("cannot use {} (broker.url)", config.broker.url))?;
            let broker = Arc::new(broker);
            (Arc::clone(&broker) as Arc<dyn Broker>, broker as Arc<dyn DurableQueue>)
        }
    })
}

/// Opens the configured ledger and migrates its schema.
///
/// # Errors
/// If it cannot be opened.
pub async fn open_ledger(config: &Config) -> anyhow::Result<Arc<dyn Ledger>> {
    let (durability, timeout) = (config.ledger.durability, config.ledger.timeout);
    let opened: Result<Arc<dyn Ledger>, LedgerError> = match &config.ledger.url {
        LedgerUrl::Sqlite(path) => {
            let options = SqliteOptions { durability, timeout, ..SqliteOptions::new(path.clone()) };
            SqliteLedger::open(options).await.map(|ledger| Arc::new(ledger) as _)
        }
        LedgerUrl::Postgres(url) => {
            let connections = config.ledger.connections;
            let options = PostgresOptions { durability, timeout, connections, ..PostgresOptions::new(url.clone()) };
            PostgresLedger::open(options).await.map(|ledger| Arc::new(ledger) as _)
        }
    };
    opened.context("cannot use the ledger (ledger.url)")
}

fn feed_options(config: &Config) -> FeedOptions {
    let idle = Duration::from_secs(u64::from(config.timeline.idle_days) * 24 * 3_600);
    FeedOptions {
        timeline_length: config.timeline.length as usize,
        timeline_idle: idle,
        follow_merge: config.timeline.follow_merge,
        recovery_limit: config.client.recovery_limit,
        session_ttl: config.auth.token_ttl,
        leeway: config.auth.leeway,
        revocation_ttl: config.auth.revocation_ttl,
        erasure_log: Some(config.server.data_dir.join("erasures.log")),
        limits: LimitOptions {
            text: config.limits.text,
            media: config.limits.media,
            topics: config.limits.topics,
            data_bytes: config.limits.data_bytes,
            follows: config.limits.follows,
            favourites: config.limits.favourites,
        },
        rates: RateOptions {
            posts: config.rates.posts,
            comments: config.rates.comments,
            likes: config.rates.likes,
            follows: config.rates.follows,
            writes: config.rates.writes,
            mentions: config.rates.mentions,
            reads: config.rates.reads,
            publications: config.rates.publications,
            accounts: config.rates.accounts,
            sessions: config.rates.sessions,
        },
        trusted_proxies: Arc::new(config.server.trusted_proxies.clone()),
        fanout: FanoutOptions {
            push_limit: config.fanout.push_limit,
            page: config.fanout.page,
            workers: config.fanout.workers,
            lease: config.fanout.lease,
        },
        likes: LikesOptions {
            queue_length: config.likes.queue_length,
            counts_per_second: config.likes.counts_per_second,
        },
    }
}

fn session_options(
    config: &Config,
    secrets: &Secrets,
    revocations: Arc<RevocationList>,
) -> anyhow::Result<SessionOptions> {
    let idle = Duration::from_secs(u64::from(config.timeline.idle_days) * 24 * 3_600);
    Ok(SessionOptions {
        verifier: Verifier::new(&config.auth, secrets)?,
        revocations,
        channels: Channels::new(&config.namespaces, Retention::notifications(idle)),
        anonymous: config.auth.anonymous,
        max_channels: config.client.channels,
        channel_length: config.client.channel_length,
        commands_per_second: config.client.commands_per_second,
        history_limit: config.client.history_limit,
        presence_limit: config.client.presence_limit,
        ping_interval: config.client.ping_interval,
        pong_timeout: config.client.pong_timeout,
        connect_timeout: config.client.connect_timeout,
    })
}

fn gateway_options(config: &Config) -> GatewayOptions {
    GatewayOptions {
        message_bytes: config.client.message_bytes,
        outbox: Bounds { bytes: config.client.queue_bytes, messages: config.client.queue_messages },
        write_timeout: config.client.write_timeout,
        origins: config.server.origins.clone(),
        connections_per_user: config.client.connections_per_user,
        recovery_limit: config.client.recovery_limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stopped_server_frees_its_parts() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().display();
        let env = [
            ("FEEDLINE__SERVER__LISTEN".to_owned(), "127.0.0.1:0".to_owned()),
            ("FEEDLINE__SERVER__DATA_DIR".to_owned(), data.to_string()),
            ("FEEDLINE__SERVER__DRAIN".to_owned(), "0s".to_owned()),
            ("FEEDLINE__LEDGER__URL".to_owned(), format!("sqlite://{data}/feedline.db")),
        ];
        let config = Config::parse("", env.into_iter()).unwrap();
        let secrets = Secrets::load(&config).unwrap();
        let app = App::start(&config, &secrets).await.unwrap();
        let (feed, broker) = (Arc::downgrade(&app.feed), Arc::downgrade(&app.broker));
        let ledger = Arc::downgrade(&app.ledger);
        app.stop().await;
        // Tasks that are cancelled free their parts a moment later.
        for _ in 0..100 {
            if feed.strong_count() + broker.strong_count() + ledger.strong_count() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let counts = (feed.strong_count(), broker.strong_count(), ledger.strong_count());
        panic!("references to the feed, the broker and the ledger are left: {counts:?}");
    }
}

//! Builds the parts of the server, starts them in order, and stops them in reverse order.

mod doctor;
mod fingerprints;
mod listeners;
mod options;
mod reload;
mod stores;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;

use crate::api::Executor;
use crate::api::operations::Operations;
use crate::auth::{ApiKeys, Passwords, RevocationList, SessionIssuer};
use crate::broker::Broker;
use crate::config::{BrokerUrl, Config, Secret, Secrets};
use crate::feed::{Feed, JoinError};
use crate::gateway::accept::listener::Shutdown;
use crate::gateway::accept::tls::ServerCertificate;
use crate::gateway::{Gateway, GatewayParts};
use crate::hooks::Hooks;
use crate::http::{HttpParts, ProbeParts, admin_router, probe_routes, router};
use crate::jwks::KeyFetchers;
use crate::ledger::{Ledger, NodeDetails};
use crate::metrics::Metrics;
use crate::outlet::{OutletTargets, OutletWorkers};
pub use crate::push::push_providers;
use crate::push::{PushBridge, PushConfig};
use crate::reloadable::Reloadable;
use crate::telemetry::Tracer;

pub use self::doctor::{Finding, examine, expired_certificate};
use self::fingerprints::fingerprints;
pub use self::listeners::ServerAddresses;
use self::listeners::{Listeners, ServedListeners, Serving};
use self::options::{
    connection_limits, feed_options, listener_options, node_description, node_name, session_options, token_verifier,
};
use self::reload::ReloadableParts;
pub use self::stores::{adopt_stores, deployment_status, open_broker, open_ledger, open_paired_stores};

/// A running server.
pub struct App {
    addresses: ServerAddresses,
    reloadable: ReloadableParts,
    broker: Arc<dyn Broker>,
    ledger: Arc<dyn Ledger>,
    feed: Arc<Feed>,
    gateway: Gateway,
    serving: ServedListeners,
    shutdown: Shutdown,
    drain_delay: Duration,
    drain: Duration,
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Serves clients and does all background work.
    Everything,
    /// Sends pushes and webhooks, and serves probes and metrics only.
    Push,
}

impl Role {
    /// # Errors
    /// If the configuration does not permit the role.
    fn check(self, config: &Config) -> anyhow::Result<()> {
        if self == Self::Push {
            let sends = config.push.enabled || config.outlet.stream || !config.outlet.webhooks.is_empty();
            anyhow::ensure!(sends, "--only push sends nothing: push.enabled is false");
            let is_memory = matches!(config.broker.url, BrokerUrl::Memory);
            anyhow::ensure!(!is_memory, "--only push needs a broker that processes share: broker.url is \"memory:\"");
        }
        Ok(())
    }
}

impl App {
    /// Opens the stores, binds the listeners, starts the background work, then serves.
    ///
    /// # Errors
    /// If a store cannot be opened, a key is invalid, or an address cannot be bound.
    pub async fn start(config: &Config, secrets: &Secrets, role: Role) -> anyhow::Result<Self> {
        role.check(config)?;
        warn_of_risks(config);
        let (broker, queue) = open_broker(config).await?;
        let ledger = open_ledger(config).await?;
        let ledger_id = ledger.identity().await.context("cannot use the ledger (ledger.url)")?.id;
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
            tracer: Tracer::start(&config.telemetry, &node_name(config))?,
            node: NodeDetails { fingerprints: fingerprints(config, secrets, &ledger_id), ..node_description(config) },
        };
        let feed = Feed::new(parts, feed_options(config));
        let operations = Arc::new(Operations::new());
        let executor = Arc::new(Executor::new(Arc::clone(&feed)));
        let verifier = token_verifier(config, secrets)?;
        let shutdown = Shutdown::default();
        let key_fetchers = KeyFetchers::new(shutdown.stopping.clone());
        let key_fetchers = key_fetchers.context("the keys of issuers cannot be fetched")?;
        key_fetchers.follow(&verifier);
        let verifier = Reloadable::new(verifier);
        let origins = Reloadable::new(config.server.origins.clone());
        let sessions = Arc::new(session_options(config, verifier.clone(), revocations));
        let parts = GatewayParts {
            feed: Arc::clone(&feed),
            operations: Arc::clone(&operations),
            executor: Arc::clone(&executor),
            sessions: Arc::clone(&sessions),
            hooks: hooks(config)?,
            origins: origins.clone(),
            node_name: node_name(config),
        };
        let gateway = Gateway::new(&parts);
        let listeners = Listeners::bind(&config.server).await?;
        let addresses = listeners.addresses.clone();
        let certificate = config.server.tls.as_ref().map(ServerCertificate::load).transpose()?.map(Arc::new);
        let mut options = listener_options(config);
        options.tls = certificate.clone().map(ServerCertificate::acceptor).transpose()?;
        let limits = connection_limits(config)?;
        let api_keys = Reloadable::new(ApiKeys::new(&secrets.api_keys)?);
        let trusted = Arc::clone(&options.trusted_proxies);
        let serving = Serving { options, limits, metrics, shutdown: shutdown.clone() };
        let serving = listeners.serve(serving);
        // Last of all that can fail: the node takes leases, which a failed start gives back.
        let bridge = match start_background(config, role, &feed, &executor).await {
            Ok(bridge) => bridge,
            Err(error) => {
                shutdown.stopping.cancel();
                feed.stop().await;
                return Err(error);
            }
        };
        let reloadable = ReloadableParts {
            feed: Arc::clone(&feed),
            ledger_id,
            verifier: verifier.clone(),
            key_fetchers,
            api_keys: api_keys.clone(),
            origins: origins.clone(),
            certificate,
            bridge,
        };
        let probes = probe_routes(ProbeParts {
            feed: Arc::clone(&feed),
            gauges: Arc::clone(gateway.gauges()),
            leaving: shutdown.leaving.clone(),
        });
        let parts = HttpParts {
            gateway: &gateway,
            base_path: config.server.base_path.clone(),
            transports: config.transports,
            operations,
            executor,
            verifier,
            api_keys,
            origins: origins.clone(),
            trusted,
            sessions,
            feed: Arc::clone(&feed),
        };
        let (public, admin) = match (role, serving.has_admin()) {
            (Role::Everything, true) => (router(parts, Router::new()), Some(admin_router(probes))),
            (Role::Everything, false) => (router(parts, probes), None),
            (Role::Push, true) => (Router::new(), Some(admin_router(probes))),
            (Role::Push, false) => (admin_router(probes), None),
        };
        serving.start(public, admin);
        let drain_delay = config.server.drain_delay;
        let drain = config.server.drain;
        Ok(Self { addresses, reloadable, broker, ledger, feed, gateway, serving, shutdown, drain_delay, drain })
    }

    /// The addresses of the server, with the actual ports.
    pub fn addresses(&self) -> &ServerAddresses {
        &self.addresses
    }

    /// Replaces what [`Config::reloaded`] takes, and the certificate. Open sockets stay.
    ///
    /// # Errors
    /// If a key, a certificate or a credential cannot be used. Nothing is replaced then.
    pub fn reload(&self, config: &Config, secrets: &Secrets) -> anyhow::Result<()> {
        self.reloadable.reload(config, secrets)
    }

    /// The displayed names of the broker and the ledger.
    pub fn stores(&self) -> (String, String) {
        (self.broker.name(), self.ledger.name())
    }

    /// Waits until this node cannot go on with its stores, and returns the reason: other nodes have moved to other ones
    /// while it was paused. The process is to end then.
    pub async fn refused(&self) -> JoinError {
        self.feed.refused().await
    }

    /// Stops the server. First only `/ready` fails, for the drain delay. Then new sockets are refused, and open sockets
    /// are closed over the drain period with a code that makes clients reconnect to another node. Then the listeners
    /// close, the feed hands over its work, and the ledger closes.
    pub async fn stop(self) {
        self.shutdown.leaving.cancel();
        tokio::time::sleep(self.drain_delay).await;
        self.feed.drain();
        self.gateway.drain(self.drain).await;
        self.shutdown.stopping.cancel();
        self.serving.stopped().await;
        self.feed.stop().await;
        self.feed.base.tracer.stop().await;
        self.ledger.close().await;
    }
}

/// Starts the background work of a role. Returns the push bridge, if it sends pushes.
async fn start_background(
    config: &Config,
    role: Role,
    feed: &Arc<Feed>,
    executor: &Executor,
) -> anyhow::Result<Option<Arc<PushBridge>>> {
    if role == Role::Push {
        feed.unregister_work();
    }
    let bridge = push_bridge(&config.push, feed)?;
    let outlet = OutletWorkers::new(&config.outlet, outlet_targets(config)?, feed);
    feed.join().await?;
    match role {
        Role::Everything => {
            feed.start().await?;
            executor.start();
        }
        Role::Push => feed.start_for_pushes().await?,
    }
    if let Some(bridge) = &bridge {
        bridge.start();
    }
    outlet.start();
    Ok(bridge)
}

/// The push bridge; `None` if it is disabled.
fn push_bridge(config: &PushConfig, feed: &Arc<Feed>) -> anyhow::Result<Option<Arc<PushBridge>>> {
    if !config.enabled {
        return Ok(None);
    }
    let (providers, texts) = push_providers(config)?;
    Ok(Some(PushBridge::new(Arc::clone(feed), providers, texts, config.clone())))
}

/// The webhooks of a configuration. Checks settings, and makes no request.
///
/// # Errors
/// The first setting that is not valid.
pub fn outlet_targets(config: &Config) -> anyhow::Result<OutletTargets> {
    let is_memory = matches!(config.broker.url, BrokerUrl::Memory);
    anyhow::ensure!(!(config.outlet.stream && is_memory), "outlet.stream needs Redis: broker.url is \"memory:\"");
    crate::outlet::outlet_targets(&config.outlet, &config.push)
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
    if config.client.insecure {
        tracing::warn!(
            "client.insecure is on: clients need no token, and may do everything on channels of the application; a \
             proxy in front of this server would open it to everybody"
        );
    }
    if let Some(expired) = expired_certificate(config) {
        tracing::warn!("{expired}; renew it, and send SIGHUP");
    }
    if auth.hmac_secrets().into_iter().flatten().any(Secret::is_short) {
        tracing::warn!("a secret for tokens has less than 32 characters (auth.allow_short_secret): it can be guessed");
    }
}

/// The hooks of a configuration; `None` if it has none.
fn hooks(config: &Config) -> anyhow::Result<Option<Arc<Hooks>>> {
    let hooks = Hooks::new(&config.hooks, &config.server.trusted_proxies).context("the hooks cannot be used")?;
    Ok(hooks.map(Arc::new))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use feedline_test_support::redis_server::RedisServer;
    use feedline_test_support::server::{PATIENCE, Server};

    use super::*;

    fn configure(folder: &Path, broker: &str) -> (Config, Secrets) {
        let data = folder.display();
        let env = [
            ("FEEDLINE__SERVER__LISTEN".to_owned(), "127.0.0.1:0".to_owned()),
            ("FEEDLINE__SERVER__DATA_DIR".to_owned(), data.to_string()),
            ("FEEDLINE__SERVER__DRAIN".to_owned(), "0s".to_owned()),
            ("FEEDLINE__LEDGER__URL".to_owned(), format!("sqlite://{data}/feedline.db")),
            ("FEEDLINE__BROKER__URL".to_owned(), broker.to_owned()),
        ];
        let config = Config::parse("", env.into_iter()).unwrap();
        let secrets = Secrets::load(&config).unwrap();
        (config, secrets)
    }

    #[tokio::test]
    async fn node_numbers_are_leased_behind_open_ports_and_released() {
        let folder = tempfile::tempdir().unwrap();
        let redis = RedisServer::start();
        let (mut config, secrets) = configure(folder.path(), &redis.url());
        let has_number = || redis.ask_all("KEYS feedline:node:*").contains("feedline:node:");

        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        config.server.listen = vec![taken.local_addr().unwrap().into()];
        assert!(App::start(&config, &secrets, Role::Everything).await.is_err());
        assert_eq!(redis.ask("EXISTS feedline:nodes"), ":0", "no number was leased");
        config.server.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];

        let app = App::start(&config, &secrets, Role::Everything).await.unwrap();
        assert!(has_number());
        app.stop().await;
        assert!(!has_number(), "it is released at a stop");

        // The push providers are set up behind the lease.
        config.push.enabled = true;
        config.push.webhook_secrets = secrets.api_keys.clone();
        config.push.ca_certificates = "no certificate".into();
        let leases = redis.calls("evalsha");
        assert!(App::start(&config, &secrets, Role::Everything).await.is_err());
        assert!(redis.calls("evalsha") > leases && !has_number(), "and when a start fails");
    }

    #[tokio::test]
    async fn a_start_without_a_free_node_number_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let redis = RedisServer::start();
        let (config, secrets) = configure(folder.path(), &redis.url());
        redis.ask(r#"EVAL "for n = 0, 254 do redis.call('SET', 'feedline:node:' .. n, 'x', 'EX', 60) end" 0"#);
        let error = App::start(&config, &secrets, Role::Everything).await.err().expect("no number is left");
        assert!(format!("{error:#}").contains("all 255 node numbers are taken"), "{error:#}");
        assert_eq!(redis.ask("HLEN feedline:identity"), ":2", "the node is not among the live ones");
        redis.ask("DEL feedline:node:17");
        let app = App::start(&config, &secrets, Role::Everything).await.unwrap();
        app.stop().await;
        assert_eq!(redis.ask("EXISTS feedline:node:17"), ":0");
    }

    #[tokio::test]
    async fn ready_fails_while_a_task_is_away() {
        const TASK: &str = "test_app";
        let folder = tempfile::tempdir().unwrap();
        let (config, secrets) = configure(folder.path(), "memory:");
        let app = App::start(&config, &secrets, Role::Everything).await.unwrap();
        let port = app.addresses().public[0].port().unwrap();
        let get = async |path: &str| Server::request_at(port, "GET", path, &[], "").await.expect("an answer");
        let fails = Arc::new((AtomicBool::new(true), app.feed.base.runtime.clone()));
        app.feed.base.runtime.supervise(TASK, &fails, |fails| async move {
            assert!(!fails.0.load(Ordering::Relaxed), "a bug");
            fails.1.stopped().await;
        });
        // Tasks of other tests of this process may be away, too.
        let until_away = async |is_away: bool| {
            let deadline = Instant::now() + PATIENCE;
            loop {
                let answer = get("/ready").await;
                let message = answer.body["error"]["message"].as_str().unwrap_or_default();
                if message.contains(TASK) == is_away {
                    return answer;
                }
                assert!(Instant::now() < deadline, "{answer:?}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let answer = until_away(true).await;
        assert_eq!((answer.status.as_u16(), &answer.body["error"]["code"]), (503, &"tasks_away".into()));
        assert_eq!(get("/health").await.status, 200, "the process runs");
        fails.0.store(false, Ordering::Relaxed);
        until_away(false).await;
        tokio::time::timeout(PATIENCE, app.stop()).await.expect("a supervised task does not hold up the stop");
    }

    #[tokio::test]
    async fn a_stopped_server_frees_its_parts() {
        let folder = tempfile::tempdir().unwrap();
        let (config, secrets) = configure(folder.path(), "memory:");
        let app = App::start(&config, &secrets, Role::Everything).await.unwrap();
        let feed = Arc::downgrade(&app.feed);
        let broker = Arc::downgrade(&app.broker);
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

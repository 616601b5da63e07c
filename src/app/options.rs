//! The options of each part, from the configuration.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::http::HeaderValue;

use crate::auth::{RevocationList, Verifier};
use crate::config::{BrokerUrl, Config, Secrets, ServerConfig};
use crate::feed::{FeedOptions, PushOptions, now};
use crate::gateway::accept::connection_counts::{ConnectionLimits, connections_for};
use crate::gateway::accept::listener::ListenerOptions;
use crate::gateway::channels::Channels;
use crate::gateway::session::SessionOptions;
use crate::hooks::HookPolicy;
use crate::ledger::{NodeDetails, PushPlan};
use crate::net::{AllowedOrigins, ListenAddress, OwnHosts};
use crate::push::{RegistrationPolicy, vapid_public_key};
use crate::reloadable::Reloadable;

pub(super) fn listener_options(config: &Config) -> ListenerOptions {
    let server = &config.server;
    if server.trusted_proxies.trusts_everyone() {
        tracing::warn!("server.trusted_proxies holds every address: every client can invent its own");
    }
    ListenerOptions {
        header_timeout: server.header_timeout,
        keep_alive: server.keep_alive,
        stall_timeout: server.stall_timeout,
        trusted_proxies: Arc::new(server.trusted_proxies.clone()),
        proxy_protocol: server.proxy_protocol,
        tls: None,
        hsts: server.hsts.and_then(|age| HeaderValue::from_str(&format!("max-age={}", age.as_secs())).ok()),
    }
}

/// The connection limits of the public listener. They never exceed the number of available file descriptors.
pub(super) fn connection_limits(config: &Config) -> anyhow::Result<ConnectionLimits> {
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

pub(super) fn feed_options(config: &Config) -> FeedOptions {
    FeedOptions {
        timeline: config.timeline,
        recovery_limit: config.client.recovery_limit,
        auth: Arc::new(config.auth.clone()),
        erasure_log: Some(config.server.data_dir.join("erasures.log")),
        limits: config.limits,
        rates: config.rates,
        trusted_proxies: Arc::new(config.server.trusted_proxies.clone()),
        own_hosts: Arc::new(own_hosts(&config.server)),
        fanout: config.fanout,
        likes: config.likes,
        notifications: config.notifications,
        pushes: push_options(config),
        target_validator: Arc::new(RegistrationPolicy::new(&config.push)),
        outlet: config.outlet.clone(),
        channel_events: config.namespaces.iter().any(|namespace| namespace.events),
        vapid_public_key: vapid_public_key(&config.push),
    }
}

fn push_options(config: &Config) -> PushOptions {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let push = &config.push;
    let plan = PushPlan { grace: millis(push.grace), digest: millis(push.digest) };
    PushOptions {
        plan: push.enabled.then_some(plan),
        time_to_live: push.ttl,
        device_idle: push.device_idle,
        several_nodes: !matches!(config.broker.url, BrokerUrl::Memory),
    }
}

/// Verifies the tokens of clients and of requests.
pub(super) fn token_verifier(config: &Config, secrets: &Secrets) -> anyhow::Result<Verifier> {
    let verifier = Verifier::new(&config.auth, secrets)?;
    Ok(if config.client.insecure { verifier.without_required_exp() } else { verifier })
}

pub(super) fn session_options(
    config: &Config,
    verifier: Reloadable<Verifier>,
    revocations: Arc<RevocationList>,
) -> SessionOptions {
    let channels = Channels::new(&config.namespaces, config.timeline.notification_log());
    let channels = if config.client.user_personal_channel { channels.with_personal_channels() } else { channels };
    SessionOptions {
        verifier,
        revocations,
        channels: if config.client.insecure { channels.open_to_everybody() } else { channels },
        anonymous: config.auth.anonymous || config.client.insecure,
        client: config.client.clone(),
        hooks: HookPolicy::new(&config.hooks),
    }
}

/// The hosts and the base path of this server that its configuration names.
fn own_hosts(server: &ServerConfig) -> OwnHosts {
    let listen: Vec<String> = server.listen.iter().map(ListenAddress::to_string).collect();
    let origins: &[String] = match &server.origins {
        AllowedOrigins::Any => &[],
        AllowedOrigins::Listed(origins) => origins,
    };
    let hosts = OwnHosts::new(origins.iter().map(String::as_str).chain(listen.iter().map(String::as_str)));
    hosts.note_base_path(&server.base_path);
    hosts
}

/// This node, as others see it.
pub(super) fn node_description(config: &Config) -> NodeDetails {
    NodeDetails {
        name: node_name(config),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: now(),
        ..NodeDetails::default()
    }
}

/// The name of this node in answers to backends: the host and the first port, or the name of the first socket.
pub(super) fn node_name(config: &Config) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|host| !host.is_empty()).unwrap_or("feedline");
    match &config.server.listen[..] {
        [ListenAddress::Port { port, .. }, ..] => format!("{host}_{port}"),
        [ListenAddress::Socket(path), ..] => {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            format!("{host}_{}", name.replace(|c: char| !c.is_ascii_alphanumeric(), "_"))
        }
        [] => host.to_owned(),
    }
}

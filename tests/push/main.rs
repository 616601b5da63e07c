//! The transports of pushes, and the bridge of the real server, against local servers that speak the protocols of the
//! providers.

mod apns;
mod bridge;
mod browser;
mod fcm;
mod hostile_endpoints;
mod keys;
mod providers;
mod secrecy;
mod server;
mod webhook;
mod webpush;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use feedline::push::providers::{Outcome, ProvidersConfig, Push, PushKind, Scope, Target, Urgency};
use feedline::shares::SourceId;
use uuid::Uuid;

/// The current Unix time in milliseconds.
fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// An alert that expires in an hour.
fn alert(target: Target) -> Push {
    Push {
        id: Uuid::new_v4(),
        user: SourceId::of("ann"),
        device: "phone".into(),
        target,
        kind: PushKind::Alert,
        title: "Alice replied to you".into(),
        body: "see you at 8".into(),
        data: BTreeMap::from([("post".into(), "17".into())]),
        collapse_key: Some("reply:17".into()),
        thread: Some("post:17".into()),
        expires_at: now() + 3_600_000,
        urgency: Urgency::High,
        badge: Some(3),
    }
}

/// An alert for a device of another user than all others of this number.
fn alert_for(number: usize, target: Target) -> Push {
    Push { user: SourceId::of(&number), ..alert(target) }
}

/// A silent message that withdraws a thread.
fn clear(target: Target) -> Push {
    Push { kind: PushKind::Clear, title: String::new(), body: String::new(), ..alert(target) }
}

/// Settings that allow the local servers and trust their certificate.
fn config() -> ProvidersConfig {
    ProvidersConfig {
        timeout: Duration::from_secs(2),
        connect_timeout: Duration::from_secs(2),
        allow_networks: vec!["127.0.0.1/32".parse().unwrap()],
        ca_certificates: keys::certificate().0.clone(),
        ..ProvidersConfig::default()
    }
}

/// What a test expects of an outcome: its name, the code of its reason, its scope.
fn summary(outcome: &Outcome) -> (&'static str, &'static str, Option<Scope>) {
    let scope = match outcome {
        Outcome::Retry { scope, .. } | Outcome::Misconfigured { scope, .. } => Some(*scope),
        _ => None,
    };
    (outcome.name(), outcome.reason().map_or("", |reason| reason.code), scope)
}

/// The delay that an outcome demands.
fn demanded(outcome: &Outcome) -> Option<Duration> {
    if let Outcome::Retry { after, .. } = outcome { *after } else { None }
}

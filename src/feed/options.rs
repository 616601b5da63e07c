//! The options of the feed: its sections of the configuration (`config.rs`), and what the other parts decide.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::config::{FanoutConfig, LikesConfig, LimitsConfig, NotificationsConfig, RatesConfig, TimelineConfig};
use super::devices::target_validator::TargetValidator;
use super::outlet::OutletConfig;
use crate::auth::AuthConfig;
use crate::ledger::PushPlan;
use crate::net::{OwnHosts, TrustedProxies};

/// The options of the feed.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// The inboxes of users.
    pub timeline: TimelineConfig,
    /// The maximum number of missed entries that are recovered at once; a client that missed more reloads the timeline
    /// (`client.recovery_limit`).
    pub recovery_limit: usize,
    /// The lifetimes of tokens, which revocations depend on.
    pub auth: Arc<AuthConfig>,
    /// The path of the erasure log, a file beside the backups; `None`: no log is written.
    pub erasure_log: Option<PathBuf>,
    /// Maximum sizes and numbers. Errors name the limit that an input exceeds.
    pub limits: LimitsConfig,
    /// Rate limits.
    pub rates: RatesConfig,
    /// The proxies in front of this server. Each of their addresses stands for many clients, so they are exempt from
    /// limits by address.
    pub trusted_proxies: Arc<TrustedProxies>,
    /// The hosts of this server.
    pub own_hosts: Arc<OwnHosts>,
    /// The fan-out of posts.
    pub fanout: FanoutConfig,
    /// The intake and settling of likes.
    pub likes: LikesConfig,
    /// The lists of notifications.
    pub notifications: NotificationsConfig,
    /// Pushes to devices (`push.*`).
    pub pushes: PushOptions,
    /// Decides which addresses of devices may be registered.
    pub target_validator: Arc<dyn TargetValidator>,
    /// What happened, for consumers outside of Feedline.
    pub outlet: OutletConfig,
    /// Whether subscriptions to channels of the application cause events of the outlet (`events` of a namespace).
    pub channel_events: bool,
    /// The public key of Web Push in base64url; `None`: there is no Web Push.
    pub vapid_public_key: Option<String>,
}

/// Pushes to devices (`push.*`).
#[derive(Clone, Copy, Debug, Default)]
pub struct PushOptions {
    /// How notifications are queued for devices; `None`: they are not.
    pub plan: Option<PushPlan>,
    /// How long after its notification a push is of use (`push.ttl`).
    pub time_to_live: Duration,
    /// How long a device is kept without a registration or a connection of its user (`push.device_idle`); `None`: for
    /// ever.
    pub device_idle: Option<Duration>,
    /// Whether users may have sockets at other nodes.
    pub several_nodes: bool,
}

//! The settings of the transports. The section `[push]` of the configuration becomes them.

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use super::endpoint::{EndpointPolicy, EndpointUrl};
use super::hosts::HostRules;
use super::http::HttpOptions;
use super::{ApnsEnvironment, Lookup, SystemLookup};
use crate::breaker::BreakerOptions;
use crate::settings::Secret;

/// The number of users that a server must refuse before it is left alone.
const REFUSED_USERS: usize = 2;

/// The settings of all transports. A transport without settings is disabled.
#[derive(Clone)]
pub struct ProvidersConfig {
    /// The time for a request.
    pub timeout: Duration,
    /// The time for a connection, with TLS.
    pub connect_timeout: Duration,
    /// The interval of PINGs on the connections to FCM and APNs, also idle ones: a connection that died silently is
    /// replaced before a message needs it.
    pub ping_interval: Duration,
    /// Private and local networks that endpoints of devices may be in, also without TLS.
    pub allow_networks: Vec<IpNet>,
    /// The hosts of endpoints that users register.
    pub hosts: HostRules,
    /// Certificates of private authorities, as PEM. Empty: those of the system only.
    pub ca_certificates: Vec<u8>,
    /// Circuit breakers.
    pub breaker: BreakerOptions,
    /// The pause of a provider or server whose settings or keys are wrong.
    pub misconfigured_pause: Duration,
    /// Resolves names.
    pub lookup: Arc<dyn Lookup>,
    /// Firebase Cloud Messaging.
    pub fcm: Option<FcmSettings>,
    /// Apple Push Notification service.
    pub apns: Option<ApnsSettings>,
    /// Web Push and UnifiedPush.
    pub web_push: Option<WebPushSettings>,
    /// Webhooks.
    pub webhook: Option<WebhookSettings>,
    /// Replaces all transports by one that sends nothing.
    pub dry_run: Option<DryRunSettings>,
}

/// The settings of FCM: `push.fcm_…`.
#[derive(Clone, Debug)]
pub struct FcmSettings {
    /// The JSON of the service account, as the Google Cloud console provides it.
    pub service_account: Secret,
    /// The address of the service.
    pub url: EndpointUrl,
    /// The number of connections.
    pub connections: usize,
    /// The maximum number of concurrent requests.
    pub concurrency: usize,
}

/// The settings of APNs: `push.apns_…`.
#[derive(Clone, Debug)]
pub struct ApnsSettings {
    /// The signing key (`AuthKey_….p8`), as PEM.
    pub key: Secret,
    /// The id of the key: 10 characters.
    pub key_id: String,
    /// The id of the team: 10 characters.
    pub team_id: String,
    /// The bundle id of devices that registered without one.
    pub topic: String,
    /// The environment of devices that registered without one.
    pub environment: ApnsEnvironment,
    /// The address of the production environment.
    pub production_url: EndpointUrl,
    /// The address of the sandbox.
    pub sandbox_url: EndpointUrl,
    /// The number of connections to each environment.
    pub connections: usize,
    /// The maximum number of concurrent requests.
    pub concurrency: usize,
}

/// The settings of Web Push: `push.vapid_…`.
#[derive(Clone, Debug)]
pub struct WebPushSettings {
    /// The private key of VAPID: 32 bytes in base64url, or PEM.
    pub private_key: Secret,
    /// How push services reach the operator: a `mailto:` or `https:` URL.
    pub subject: String,
    /// The maximum size of an encrypted message, in bytes.
    pub max_body: usize,
    /// The maximum number of concurrent requests.
    pub concurrency: usize,
}

/// The settings of webhooks: `push.webhook_…`.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// The secrets of the signature. Every request has a signature of each, so that a secret can be replaced.
    pub secrets: Vec<Secret>,
    /// The maximum number of concurrent requests.
    pub concurrency: usize,
}

/// The settings of the transport that sends nothing: `push.dry_run…`.
#[derive(Clone, Debug)]
pub struct DryRunSettings {
    /// The time after which a message counts as accepted.
    pub latency: Duration,
    /// The maximum number of concurrent messages.
    pub concurrency: usize,
}

impl Default for ProvidersConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            ping_interval: Duration::from_secs(15),
            allow_networks: Vec::new(),
            hosts: HostRules::default(),
            ca_certificates: Vec::new(),
            breaker: BreakerOptions { sources: REFUSED_USERS, ..BreakerOptions::default() },
            misconfigured_pause: Duration::from_secs(60),
            lookup: Arc::new(SystemLookup::default()),
            fcm: None,
            apns: None,
            web_push: None,
            webhook: None,
            dry_run: None,
        }
    }
}

impl ProvidersConfig {
    /// Which endpoints of Web Push and UnifiedPush, which users register, may be contacted.
    pub fn endpoint_policy(&self) -> EndpointPolicy {
        self.webhook_policy().with_hosts(self.hosts.clone())
    }

    /// Which webhooks, which backends register, may be contacted.
    pub fn webhook_policy(&self) -> EndpointPolicy {
        EndpointPolicy::new(self.allow_networks.clone())
    }

    /// The clients of providers whose URLs the operator configured.
    pub fn http(&self) -> HttpOptions {
        self.http_with(EndpointPolicy::of_operator())
    }

    /// The clients of endpoints that a policy decides about.
    pub fn http_with(&self, policy: EndpointPolicy) -> HttpOptions {
        HttpOptions {
            timeout: self.timeout,
            connect_timeout: self.connect_timeout,
            ping_interval: self.ping_interval,
            ca_certificates: self.ca_certificates.clone(),
            policy: Arc::new(policy),
            lookup: Arc::clone(&self.lookup),
        }
    }
}

//! The configured transports, behind their breakers and concurrency limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::apns::Apns;
use super::device_pauses::DevicePauses;
use super::dry_run::DryRun;
use super::fcm::Fcm;
use super::outcome::{BREAKER_OPEN, STOPPING};
use super::webhook::Webhook;
use super::webpush::WebPush;
use super::{Outcome, Platform, Provider, ProviderError, ProvidersConfig, Push, Reason, Scope};
use crate::breaker::{BreakerKey, Breakers, Verdict};

/// The requests that one send makes at most, one after the other: an access token, a message, both again.
const MAX_REQUESTS: u32 = 4;

/// All transports.
pub struct Providers {
    transports: HashMap<Platform, Transport>,
    breakers: Breakers,
    pauses: DevicePauses,
    webhook: Option<Arc<Webhook>>,
    public_key: Option<String>,
    misconfigured_pause: Duration,
    deadline: Duration,
}

/// A request that a provider may have. It ends with the value.
#[derive(Debug)]
pub struct RequestSlot(#[expect(dead_code, reason = "held until the request is done")] OwnedSemaphorePermit);

#[derive(Clone)]
struct Transport {
    provider: Arc<dyn Provider>,
    permits: Arc<Semaphore>,
}

impl Transport {
    fn new(provider: Arc<dyn Provider>, concurrency: usize) -> Self {
        Self { provider, permits: Arc::new(Semaphore::new(concurrency.max(1))) }
    }
}

impl Providers {
    /// Builds the configured transports. Checks keys and settings, and makes no request: `check-config` uses it, too.
    ///
    /// # Errors
    /// The first setting that is not valid.
    pub fn new(config: &ProvidersConfig) -> Result<Self, ProviderError> {
        let mut transports = HashMap::new();
        let (mut public_key, mut webhook) = (None, None);
        if let Some(settings) = &config.fcm {
            let provider = Arc::new(Fcm::new(settings, config.http())?);
            transports.insert(Platform::Fcm, Transport::new(provider, settings.concurrency));
        }
        if let Some(settings) = &config.apns {
            let provider = Arc::new(Apns::new(settings, config.http())?);
            transports.insert(Platform::Apns, Transport::new(provider, settings.concurrency));
        }
        if let Some(settings) = &config.web_push {
            let provider = WebPush::new(settings, config.http_with(config.endpoint_policy()))?;
            public_key = Some(provider.public_key().to_owned());
            let transport = Transport::new(Arc::new(provider), settings.concurrency);
            transports.insert(Platform::WebPush, transport.clone());
            transports.insert(Platform::UnifiedPush, transport);
        }
        if let Some(settings) = &config.webhook {
            let provider = Arc::new(Webhook::new(settings, config.http_with(config.webhook_policy()))?);
            webhook = Some(Arc::clone(&provider));
            transports.insert(Platform::Webhook, Transport::new(provider, settings.concurrency));
        }
        if let Some(settings) = &config.dry_run {
            let transport = Transport::new(Arc::new(DryRun::new(settings.clone())), settings.concurrency);
            transports = Platform::ALL.into_iter().map(|platform| (platform, transport.clone())).collect();
        }
        Ok(Self {
            transports,
            breakers: Breakers::new(config.breaker.clone()),
            pauses: DevicePauses::new(),
            webhook,
            public_key,
            misconfigured_pause: config.misconfigured_pause,
            deadline: config.timeout * MAX_REQUESTS,
        })
    }

    /// Waits while a provider has as many requests as it may have. `None`: the platform is not configured.
    pub async fn reserve(&self, platform: Platform) -> Option<RequestSlot> {
        let transport = self.transports.get(&platform)?;
        Some(RequestSlot(Arc::clone(&transport.permits).acquire_owned().await.ok()?))
    }

    /// Sends a message. Waits as [`reserve`](Self::reserve) does.
    pub async fn send(&self, push: &Push) -> Outcome {
        let slot = self.reserve(push.target.platform()).await;
        self.send_reserved(push, slot).await
    }

    /// Sends a message with a slot of its platform. The breaker answers instead of a provider that fails, and a pause
    /// instead of a device that receives too much.
    pub async fn send_reserved(&self, push: &Push, slot: Option<RequestSlot>) -> Outcome {
        let platform = push.target.platform();
        let Some(transport) = self.transports.get(&platform) else {
            let reason = Reason::new("not_configured");
            return Outcome::Misconfigured { scope: Scope::Provider, reason };
        };
        if slot.is_none() {
            return Outcome::retry(Scope::Provider, Reason::new(STOPPING));
        }
        if let Some(wait) = self.pauses.remaining(&push.target, Instant::now()) {
            return Outcome::Retry { after: Some(wait), scope: Scope::Device, reason: Reason::new("device_paused") };
        }
        let origin = push.target.origin();
        let key = origin.map_or(BreakerKey::Service(platform.name()), |origin| BreakerKey::Origin(origin.to_owned()));
        let scope = if origin.is_some() { Scope::Origin } else { Scope::Provider };
        let permit = match self.breakers.admit(key) {
            Ok(permit) => permit,
            Err(wait) => return Outcome::Retry { after: Some(wait), scope, reason: Reason::new(BREAKER_OPEN) },
        };
        let sent = timeout(self.deadline, transport.provider.send(push)).await;
        let outcome = sent.unwrap_or_else(|_| Outcome::retry(scope, Reason::new("timeout")));
        permit.settle(self.verdict(&outcome));
        self.pauses.observe(&push.target, &outcome, Instant::now());
        outcome
    }

    /// What an outcome shows about the provider or server.
    fn verdict(&self, outcome: &Outcome) -> Verdict {
        match outcome {
            // It answered for this device, which must not be able to pause others.
            Outcome::Retry { scope: Scope::Device, .. } | Outcome::Misconfigured { scope: Scope::Device, .. } => {
                Verdict::Success
            }
            Outcome::Retry { after, reason, .. } if reason.is_throttling() => Verdict::Throttled { after: *after },
            Outcome::Retry { after, .. } => Verdict::Failure { after: *after },
            Outcome::Misconfigured { .. } => Verdict::Failure { after: Some(self.misconfigured_pause) },
            _ => Verdict::Success,
        }
    }

    /// Whether devices of a platform can be reached.
    pub fn supports(&self, platform: Platform) -> bool {
        self.transports.contains_key(&platform)
    }

    /// The transport of webhooks, for events that are not messages to devices.
    pub fn webhook(&self) -> Option<&Arc<Webhook>> {
        self.webhook.as_ref()
    }

    /// The public key of VAPID in base64url, if Web Push is configured: browsers need it to subscribe.
    pub fn vapid_public_key(&self) -> Option<&str> {
        self.public_key.as_deref()
    }

    /// The breakers, for metrics.
    pub fn breakers(&self) -> &Breakers {
        &self.breakers
    }
}

//! The configured transports, behind their breakers and concurrency limits.
//!
//! A provider has a number of concurrent requests (`push.concurrency`). An origin, which is the server of a webhook or
//! the push service of a browser, has a quarter of those of its transport, so that a slow one leaves room for others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::apns::Apns;
use super::device_pauses::DevicePauses;
use super::dry_run::DryRun;
use super::fcm::Fcm;
use super::outcome::{BREAKER_OPEN, DEVICE_PAUSED, STOPPING};
use super::webhook::Webhook;
use super::webpush::WebPush;
use super::{Outcome, Platform, Provider, ProviderError, ProvidersConfig, Push, Reason, Scope, Target};
use crate::breaker::{BreakerKey, BreakerVerdict, Breakers};

/// The requests that one send makes at most, one after the other: an access token, a message, both again.
const MAX_REQUESTS: u32 = 4;

/// The part of the requests of a transport that one origin may have.
const ORIGIN_PART: usize = 4;

/// The number of origins above which those without requests are forgotten.
const MAX_IDLE_ORIGINS: usize = 1_024;

/// All transports.
pub struct Providers {
    transports: HashMap<Platform, ProviderTransport>,
    breakers: Breakers,
    pauses: DevicePauses,
    webhook: Option<Arc<Webhook>>,
    misconfigured_pause: Duration,
    deadline: Duration,
}

/// A request that a provider may have. It ends with the value.
#[derive(Debug)]
pub struct RequestSlot {
    #[expect(dead_code, reason = "held until the request is done")]
    permit: OwnedSemaphorePermit,
    #[expect(dead_code, reason = "held until the request is done")]
    of_origin: Option<OwnedSemaphorePermit>,
}

#[derive(Clone)]
struct ProviderTransport {
    provider: Arc<dyn Provider>,
    permits: Arc<Semaphore>,
    /// The requests that one origin may have.
    origin_concurrency: usize,
    origins: Arc<Mutex<HashMap<String, Arc<Semaphore>>>>,
}

impl ProviderTransport {
    fn new(provider: Arc<dyn Provider>, concurrency: usize) -> Self {
        let concurrency = concurrency.max(1);
        let origin_concurrency = concurrency.div_ceil(ORIGIN_PART);
        let permits = Arc::new(Semaphore::new(concurrency));
        Self { provider, permits, origin_concurrency, origins: Arc::default() }
    }

    /// The semaphore of an origin.
    fn origin(&self, origin: &str) -> Arc<Semaphore> {
        let mut origins = self.origins.lock();
        if let Some(semaphore) = origins.get(origin) {
            return Arc::clone(semaphore);
        }
        if origins.len() >= MAX_IDLE_ORIGINS {
            origins.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let semaphore = Arc::new(Semaphore::new(self.origin_concurrency));
        origins.insert(origin.to_owned(), Arc::clone(&semaphore));
        semaphore
    }
}

impl Providers {
    /// Builds the configured transports. Checks keys and settings, and makes no request: `check-config` uses it, too.
    ///
    /// # Errors
    /// The first setting that is not valid.
    pub fn new(config: &ProvidersConfig) -> Result<Self, ProviderError> {
        let mut transports = HashMap::new();
        let mut webhook = None;
        if let Some(settings) = &config.fcm {
            let provider = Arc::new(Fcm::new(settings, config.http())?);
            transports.insert(Platform::Fcm, ProviderTransport::new(provider, settings.concurrency));
        }
        if let Some(settings) = &config.apns {
            let provider = Arc::new(Apns::new(settings, config.http())?);
            transports.insert(Platform::Apns, ProviderTransport::new(provider, settings.concurrency));
        }
        if let Some(settings) = &config.web_push {
            let provider = Arc::new(WebPush::new(settings, config.http_with(config.endpoint_policy()))?);
            let transport = ProviderTransport::new(provider, settings.concurrency);
            transports.insert(Platform::WebPush, transport.clone());
            transports.insert(Platform::UnifiedPush, transport);
        }
        if let Some(settings) = &config.webhook {
            let provider = Arc::new(Webhook::new(settings, config.http_with(config.webhook_policy()))?);
            webhook = Some(Arc::clone(&provider));
            transports.insert(Platform::Webhook, ProviderTransport::new(provider, settings.concurrency));
        }
        if let Some(settings) = &config.dry_run {
            let transport = ProviderTransport::new(Arc::new(DryRun::new(settings.clone())), settings.concurrency);
            transports = Platform::ALL.into_iter().map(|platform| (platform, transport.clone())).collect();
        }
        Ok(Self {
            transports,
            breakers: Breakers::new(config.breaker.clone()),
            pauses: DevicePauses::new(),
            webhook,
            misconfigured_pause: config.misconfigured_pause,
            deadline: config.timeout * MAX_REQUESTS,
        })
    }

    /// Waits while the provider of a device, or the origin of its endpoint, has as many requests as it may have.
    /// `None`: the platform is not configured.
    pub async fn reserve(&self, target: &Target) -> Option<RequestSlot> {
        let transport = self.transports.get(&target.platform())?;
        // Those that wait for an origin hold no request of the transport.
        let of_origin = match target.origin() {
            Some(origin) => Some(transport.origin(origin).acquire_owned().await.ok()?),
            None => None,
        };
        let permit = Arc::clone(&transport.permits).acquire_owned().await.ok()?;
        Some(RequestSlot { permit, of_origin })
    }

    /// Gets what the next message to a platform needs besides itself. Ends within the time for a send.
    pub async fn prepare(&self, platform: Platform) {
        if let Some(transport) = self.transports.get(&platform) {
            // The message reports what is missing.
            let _ = timeout(self.deadline, transport.provider.prepare()).await;
        }
    }

    /// Sends a message. Waits as [`reserve`](Self::reserve) does.
    pub async fn send(&self, push: &Push) -> Outcome {
        let slot = self.reserve(&push.target).await;
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
            return Outcome::Retry { after: Some(wait), scope: Scope::Device, reason: Reason::new(DEVICE_PAUSED) };
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
    fn verdict(&self, outcome: &Outcome) -> BreakerVerdict {
        match outcome {
            // It answered for this device, which must not be able to pause others.
            Outcome::Retry { scope: Scope::Device, .. } | Outcome::Misconfigured { scope: Scope::Device, .. } => {
                BreakerVerdict::Success
            }
            Outcome::Retry { after, reason, .. } if reason.is_throttling() => {
                BreakerVerdict::Throttled { after: *after }
            }
            Outcome::Retry { after, .. } => BreakerVerdict::Failure { after: *after },
            Outcome::Misconfigured { .. } => BreakerVerdict::Failure { after: Some(self.misconfigured_pause) },
            _ => BreakerVerdict::Success,
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

    /// The breakers, for metrics.
    pub fn breakers(&self) -> &Breakers {
        &self.breakers
    }
}

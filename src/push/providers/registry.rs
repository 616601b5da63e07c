//! The configured transports, behind their breakers and concurrency limits.
//!
//! A provider has a number of concurrent requests (`push.concurrency`). An origin, which is the server of a webhook or
//! the push service of a browser, has a quarter of those of its transport, so that a slow one leaves room for others. A
//! user, who may register any endpoints, has a tenth.
//!
//! What an origin refuses concerns the device first, which is paused. Its breaker opens if it refuses several users.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{self, timeout, timeout_at};

use super::apns::Apns;
use super::device_pauses::DevicePauses;
use super::dry_run::DryRun;
use super::fcm::Fcm;
use super::outcome::{BREAKER_OPEN, BUSY, DEVICE_PAUSED, STOPPING};
use super::webhook::Webhook;
use super::webpush::WebPush;
use super::{Outcome, Provider, ProviderError, ProvidersConfig, Push, Reason, Scope, Target};
use crate::breaker::{BreakerKey, BreakerVerdict, Breakers};
use crate::model::Platform;
use crate::shares::{Shares, SourceId};

/// The requests that one send makes at most, one after the other: an access token, a message, both again.
const MAX_REQUESTS: u32 = 4;

/// The part of the requests of a transport that one origin may have.
const ORIGIN_PART: usize = 4;

/// The part of them that the devices of one user may have.
const USER_PART: usize = 10;

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
    shares: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

/// How long to wait for a request.
#[derive(Clone, Copy, Debug)]
pub struct SlotPatience {
    /// Until when to wait for the share of the user.
    pub share: time::Instant,
    /// Until when to wait for all.
    pub slot: time::Instant,
}

/// The provider, the origin or the user had as many requests as it may have, for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

#[derive(Clone)]
struct ProviderTransport {
    provider: Arc<dyn Provider>,
    permits: Arc<Semaphore>,
    origins: Arc<Shares>,
    users: Arc<Shares>,
}

impl ProviderTransport {
    fn new(provider: Arc<dyn Provider>, concurrency: usize) -> Self {
        let permits = Arc::new(Semaphore::new(concurrency.max(1)));
        let origins = Arc::new(Shares::part(concurrency, ORIGIN_PART));
        Self { provider, permits, origins, users: Arc::new(Shares::part(concurrency, USER_PART)) }
    }

    /// Those that wait for their share, or that of their origin, hold no request of the transport.
    async fn reserve(&self, target: &Target, user: SourceId, patience: SlotPatience) -> Option<RequestSlot> {
        let share = patience.share.min(patience.slot);
        let of_user = timeout_at(share, self.users.acquire(user)).await.ok()??;
        let slot = async {
            let of_origin = match target.origin() {
                Some(origin) => Some(self.origins.acquire(SourceId::of(origin)).await?),
                None => None,
            };
            let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
            Some(RequestSlot { permit, shares: (of_user, of_origin) })
        };
        timeout_at(patience.slot, slot).await.ok()?
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
            transports.insert(Platform::Webpush, transport.clone());
            transports.insert(Platform::Unifiedpush, transport);
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

    /// Waits while the provider of a device, the origin of its endpoint, or its user has as many requests as it may
    /// have. `None`: the platform is not configured.
    ///
    /// # Errors
    /// If there is no request in time.
    pub async fn reserve(
        &self,
        target: &Target,
        user: SourceId,
        patience: SlotPatience,
    ) -> Result<Option<RequestSlot>, Busy> {
        let Some(transport) = self.transports.get(&target.platform()) else { return Ok(None) };
        transport.reserve(target, user, patience).await.map(Some).ok_or(Busy)
    }

    /// Gets what the next message to a platform needs besides itself. Ends within the time for a send.
    pub async fn prepare(&self, platform: Platform) {
        if let Some(transport) = self.transports.get(&platform) {
            // The message reports what is missing.
            let _ = timeout(self.deadline, transport.provider.prepare()).await;
        }
    }

    /// Sends a message. Waits for a request as long as a send takes.
    pub async fn send(&self, push: &Push) -> Outcome {
        let until = time::Instant::now() + self.deadline;
        match self.reserve(&push.target, push.user, SlotPatience { share: until, slot: until }).await {
            Ok(slot) => self.send_reserved(push, slot).await,
            Err(Busy) => Outcome::retry(Scope::Provider, Reason::new(BUSY)),
        }
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
        let key = origin.map_or(BreakerKey::Service(platform.as_str()), |origin| BreakerKey::Origin(origin.to_owned()));
        let scope = if origin.is_some() { Scope::Origin } else { Scope::Provider };
        let permit = match self.breakers.admit(key, push.user) {
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
            // A user chose the endpoint: what it demands concerns the device, until it refuses others as well.
            Outcome::Retry { after, scope: Scope::Origin, .. } => BreakerVerdict::Refused { after: *after },
            Outcome::Misconfigured { scope: Scope::Origin, .. } => BreakerVerdict::Refused { after: None },
            Outcome::Retry { after, reason, .. } if reason.is_throttling() => BreakerVerdict::Refused { after: *after },
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

//! The consumers of the outlet that this process serves: webhooks, and the copy in a Redis Stream.
//!
//! The log of the outlet is in the ledger (`feed/outlet/` fills it). Each consumer is a partition of work
//! (`feed/work/`), so that one process at a time works for it; any number of processes can run all of them.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the consumers that a configuration asks for |
//! | `webhook.rs` | a webhook: its batches, the events of each owner in order, and each attempt |
//! | `stream.rs` | copies the log to Redis |

mod stream;
mod webhook;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use self::stream::StreamWorker;
use self::webhook::{WebhookTarget, WebhookWorker};
use crate::breaker::{BreakerOptions, Breakers};
use crate::feed::{Feed, OutletConfig, OutletWebhook, Runtime, webhook_consumer};
use crate::push::PushConfig;
use crate::push::providers::ProvidersConfig;
use crate::push::providers::endpoint::EndpointUrl;
use crate::push::providers::retry::RetryPolicy;
use crate::push::providers::settings::WebhookSettings;
use crate::push::providers::webhook::Webhook;

/// The delays between attempts at one event.
const MIN_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(3600);

/// The longest time that the breaker of a webhook stays open, unless the receiver demands more.
const MAX_OPEN: Duration = Duration::from_secs(60);

/// The webhooks of a configuration, ready to send.
pub struct OutletTargets(Vec<WebhookTarget>);

/// Builds the webhooks. Checks URLs, and makes no request.
///
/// # Errors
/// The first setting that is not valid.
pub fn outlet_targets(outlet: &OutletConfig, push: &PushConfig) -> anyhow::Result<OutletTargets> {
    let http = ProvidersConfig {
        timeout: outlet.timeout,
        allow_networks: outlet.allow_networks.clone(),
        ca_certificates: push.ca_certificates.clone().into_bytes(),
        ..ProvidersConfig::default()
    };
    let policy = http.webhook_policy();
    let retry =
        RetryPolicy { min_delay: MIN_DELAY, max_delay: MAX_DELAY.min(outlet.give_up), give_up_after: outlet.give_up };
    let target = |webhook: &OutletWebhook| {
        let name = &webhook.name;
        let place = || format!("the url of the webhook {name:?} ([[outlet.webhooks]]) is not usable");
        let url = EndpointUrl::parse(&webhook.url).with_context(place)?;
        policy.check(&url).with_context(place)?;
        let settings = WebhookSettings { secrets: webhook.secrets.clone(), concurrency: outlet.concurrency };
        let transport = Webhook::new(&settings, http.http_with(policy.clone()))
            .with_context(|| format!("the webhook {name:?} ([[outlet.webhooks]]) cannot be used"))?;
        let types: HashSet<String> = webhook.types.iter().cloned().collect();
        let breakers = Breakers::new(BreakerOptions { max_open: MAX_OPEN, ..BreakerOptions::default() });
        Ok(WebhookTarget { consumer: webhook_consumer(name), url, types, transport, retry: retry.clone(), breakers })
    };
    outlet.webhooks.iter().map(target).collect::<anyhow::Result<_>>().map(OutletTargets)
}

/// The workers of all webhooks and of the stream.
pub struct OutletWorkers {
    runtime: Arc<Runtime>,
    webhooks: Vec<WebhookWorker>,
    stream: Option<StreamWorker>,
}

impl OutletWorkers {
    /// The workers of a configuration. To be called before the feed starts: it names their partitions. Each is a kind
    /// of its own, since not every process sends the same ones while a configuration changes.
    pub fn new(outlet: &OutletConfig, targets: OutletTargets, feed: &Feed) -> Self {
        let partition = |name: &str| {
            let partition = feed.base.owner.partition(name, name);
            feed.outlet.wake_with(&partition);
            partition
        };
        let webhook = |target: WebhookTarget| {
            feed.base.metrics.outlet.expose_target(&target.consumer, &["server_error", "timeout"]);
            WebhookWorker {
                base: feed.base.clone(),
                partition: partition(&target.consumer),
                waits: feed.webhook_waits.clone(),
                target,
                concurrency: outlet.concurrency,
                give_up: outlet.give_up,
            }
        };
        let webhooks = targets.0.into_iter().map(webhook).collect();
        let stream = outlet.stream.then(|| {
            feed.base.metrics.outlet.expose_target(stream::CONSUMER, &["unavailable"]);
            StreamWorker {
                base: feed.base.clone(),
                partition: partition("stream"),
                waits: feed.stream_waits.clone(),
                length: outlet.stream_length,
            }
        });
        Self { runtime: feed.base.runtime.clone(), webhooks, stream }
    }

    /// Works until the feed stops.
    pub fn start(self) {
        for worker in self.webhooks {
            self.runtime.supervise("webhooks", &Arc::new(worker), |worker| async move { worker.run().await });
        }
        if let Some(worker) = self.stream {
            self.runtime.supervise("outlet_stream", &Arc::new(worker), |worker| async move { worker.run().await });
        }
    }
}

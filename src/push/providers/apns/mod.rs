//! Apple Push Notification service, HTTP/2 with provider tokens.
//!
//! | file | contents |
//! |---|---|
//! | `token.rs` | the provider token: its age, and when it may be replaced |
//! | `message.rs` | the headers and the payload |
//! | `errors.rs` | the consequence of a response |

mod errors;
mod message;
mod token;

use async_trait::async_trait;

use super::clock::now;
use super::endpoint::EndpointUrl;
use super::http::{Connections, HttpClient, HttpOptions, HttpResponse};
use super::settings::ApnsSettings;
use super::{ApnsEnvironment, Outcome, Provider, ProviderError, Push, Reason, Scope, Target};
use crate::settings::Secret;
use token::ProviderTokens;

/// The transport to APNs.
pub struct Apns {
    http: HttpClient,
    tokens: ProviderTokens,
    topic: String,
    environment: ApnsEnvironment,
    production: EndpointUrl,
    sandbox: EndpointUrl,
}

/// A device, as its registration names it.
struct ApnsDevice<'a> {
    token: &'a Secret,
    topic: Option<&'a str>,
}

impl Apns {
    /// Checks the settings. Makes no request.
    ///
    /// # Errors
    /// If the key cannot sign, an id or the topic has an impossible form, or an address may not be contacted.
    pub fn new(settings: &ApnsSettings, options: HttpOptions) -> Result<Self, ProviderError> {
        if !super::target::is_topic(&settings.topic) {
            return Err(ProviderError::new("push.apns_topic", "is not a bundle id"));
        }
        let endpoints = [("push.apns_url", &settings.production_url), ("push.apns_sandbox_url", &settings.sandbox_url)];
        for (place, url) in endpoints {
            options.policy.check(url).map_err(|error| ProviderError::new(place, error))?;
        }
        Ok(Self {
            tokens: ProviderTokens::new(settings)?,
            http: HttpClient::new(options, Connections::Provider(settings.connections))?,
            topic: settings.topic.clone(),
            environment: settings.environment,
            production: settings.production_url.clone(),
            sandbox: settings.sandbox_url.clone(),
        })
    }

    /// Sends a message in one environment. A provider token that expired, for example on the way, is replaced once.
    async fn attempt(&self, push: &Push, device: &ApnsDevice<'_>, environment: ApnsEnvironment) -> Outcome {
        let mut response = None;
        for _ in 0..2 {
            let token = match self.tokens.current(now()) {
                Ok(token) => token,
                Err(detail) => {
                    let reason = Reason::with_detail("provider_token", &detail, &[]);
                    return Outcome::Misconfigured { scope: Scope::Provider, reason };
                }
            };
            let answer = match self.post(push, device, environment, &token.value).await {
                Ok(answer) => answer,
                Err(outcome) => return outcome,
            };
            let expired = errors::reason(&answer) == "ExpiredProviderToken";
            response = Some(answer);
            // If the clocks differ, another token has the same age.
            if !expired || !token.is_outdated(now()) {
                break;
            }
        }
        let Some(response) = response else { return Outcome::rejected("no_response") };
        if errors::needs_reconnect(&response) {
            self.http.reconnect();
        }
        errors::outcome(&response, device.token, device.topic.is_some())
    }

    async fn post(
        &self,
        push: &Push,
        device: &ApnsDevice<'_>,
        environment: ApnsEnvironment,
        token: &Secret,
    ) -> Result<HttpResponse, Outcome> {
        let base = match environment {
            ApnsEnvironment::Production => &self.production,
            ApnsEnvironment::Sandbox => &self.sandbox,
        };
        let url = base.join(&format!("3/device/{}", device.token.reveal()));
        let url = url.map_err(|_| Outcome::rejected("invalid_token"))?;
        let request = message::encode(push, device.topic.unwrap_or(&self.topic), token, now())?;
        let sent = self.http.post(&url, request.headers, request.body).await;
        sent.map_err(|error| error.outcome(Scope::Provider))
    }
}

#[async_trait]
impl Provider for Apns {
    async fn send(&self, push: &Push) -> Outcome {
        let Target::Apns { token, topic, environment } = &push.target else {
            return Outcome::rejected("wrong_platform");
        };
        let device = ApnsDevice { token, topic: topic.as_deref() };
        if let Some(environment) = environment {
            return self.attempt(push, &device, *environment).await;
        }
        // Each environment refuses the tokens of the other. A token whose environment is unknown is bad only if both
        // refuse it.
        let first = self.attempt(push, &device, self.environment).await;
        if !errors::may_be_other_environment(&first) {
            return first;
        }
        errors::of_both(first, self.attempt(push, &device, self.environment.other()).await)
    }
}

//! Firebase Cloud Messaging, HTTP v1.
//!
//! | file | contents |
//! |---|---|
//! | `account.rs` | the service account and its signed assertions |
//! | `oauth.rs` | the cached access token |
//! | `pacing.rs` | the pace of messages |
//! | `message.rs` | the request |
//! | `errors.rs` | the consequence of a response |

mod account;
mod errors;
mod message;
mod oauth;
mod pacing;

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};

use super::clock::now;
use super::endpoint::EndpointUrl;
use super::http::{Connections, HttpClient, HttpOptions, HttpResponse};
use super::settings::FcmSettings;
use super::{Outcome, Provider, ProviderError, Push, Scope, Target};
use crate::settings::Secret;
use account::ServiceAccount;
use oauth::TokenSource;
use pacing::Pacing;

/// The transport to FCM.
pub struct Fcm {
    http: Arc<HttpClient>,
    tokens: TokenSource,
    url: EndpointUrl,
    pacing: Pacing,
}

impl Fcm {
    /// Checks the settings. Makes no request.
    ///
    /// # Errors
    /// If the service account is malformed, its key is not usable, or an address may not be contacted.
    pub fn new(settings: &FcmSettings, options: HttpOptions) -> Result<Self, ProviderError> {
        let account = ServiceAccount::parse(settings.service_account.reveal())?;
        let url = settings.url.join(&format!("v1/projects/{}/messages:send", account.project_id()));
        let url = url.map_err(|error| ProviderError::new("push.fcm_url", error))?;
        let policy = Arc::clone(&options.policy);
        policy.check(&url).map_err(|error| ProviderError::new("push.fcm_url", error))?;
        policy.check(account.token_uri()).map_err(|error| ProviderError::new(account::PLACE, error))?;
        let http = Arc::new(HttpClient::new(options, Connections::Provider(settings.connections))?);
        Ok(Self { tokens: TokenSource::new(account, Arc::clone(&http)), http, url, pacing: Pacing::new() })
    }

    async fn post(&self, token: &Secret, body: &str) -> Result<HttpResponse, Outcome> {
        let mut headers = HeaderMap::new();
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
            .map_err(|_| Outcome::retry(Scope::Provider, super::Reason::new("oauth_response")))?;
        authorization.set_sensitive(true);
        headers.insert(AUTHORIZATION, authorization);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let response = self.http.post(&self.url, headers, body.to_owned()).await;
        response.map_err(|error| error.outcome(Scope::Provider))
    }
}

#[async_trait]
impl Provider for Fcm {
    async fn prepare(&self) {
        // The source remembers a failure: the message reports it.
        let _ = self.tokens.token().await;
    }

    async fn send(&self, push: &Push) -> Outcome {
        let Target::Fcm { token: device } = &push.target else { return Outcome::rejected("wrong_platform") };
        let body = match message::encode(push, device, now()) {
            Ok(body) => body,
            Err(outcome) => return outcome,
        };
        let send = async || {
            let token = self.tokens.token().await?;
            self.pacing.wait().await;
            Ok((self.post(&token, &body).await?, token))
        };
        let sent: Result<_, Outcome> = async {
            let (response, token) = send().await?;
            // A token can be revoked before it expires. A new one is tried once.
            if !errors::is_unauthenticated(&response) || !self.tokens.invalidate(&token) {
                return Ok(response);
            }
            Ok(send().await?.0)
        }
        .await;
        match sent {
            Ok(response) => errors::outcome(&response, device),
            Err(outcome) => outcome,
        }
    }
}

//! The access token of OAuth 2: cached, refreshed ahead of its end by one caller while the others use the old one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::account::ServiceAccount;
use crate::backoff::Backoff;
use crate::push::providers::clock::now;
use crate::push::providers::http::{HttpClient, HttpResponse};
use crate::push::providers::{Outcome, Reason, Scope};
use crate::settings::Secret;

/// The part of a token's lifetime, at its end, in which it is refreshed: 10 minutes of an hour.
const REFRESH_AHEAD: u32 = 6;

/// The part of a token's lifetime, at its end, in which it is no longer used: a minute of an hour.
const UNUSED: u32 = 60;

/// The delays between failed attempts to get a token.
const MIN_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(60);

/// The time for which the replacement of a refused token is kept, even if it is refused as well.
const REPLACEMENT_KEPT: Duration = Duration::from_secs(60);

/// Provides access tokens.
pub(super) struct TokenSource {
    account: ServiceAccount,
    http: Arc<HttpClient>,
    cached: RwLock<Option<AccessToken>>,
    /// Held by the caller that gets a new token: one request at a time.
    refresh: Mutex<RefreshState>,
    /// Whether FCM refused the last token.
    refused: AtomicBool,
}

#[derive(Clone)]
struct AccessToken {
    value: Arc<Secret>,
    refresh_at: Instant,
    unusable_at: Instant,
    /// Set if the token replaced a refused one.
    keep_until: Option<Instant>,
}

struct RefreshState {
    backoff: Backoff,
    /// The last failure, and when the next attempt is due.
    failure: Option<(Outcome, Instant)>,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: Secret,
    /// Seconds.
    expires_in: u32,
}

#[derive(Deserialize)]
struct OauthFailure {
    error: String,
    #[serde(default)]
    error_description: String,
}

impl TokenSource {
    pub(super) fn new(account: ServiceAccount, http: Arc<HttpClient>) -> Self {
        let refresh = RefreshState { backoff: Backoff::new(MIN_RETRY, MAX_RETRY), failure: None };
        Self { account, http, cached: RwLock::default(), refresh: Mutex::new(refresh), refused: AtomicBool::new(false) }
    }

    /// A valid token.
    pub(super) async fn token(&self) -> Result<Arc<Secret>, Outcome> {
        let Some(token) = self.usable() else {
            let mut state = self.refresh.lock().await;
            // Another caller may have got one meanwhile.
            return match self.usable() {
                Some(token) => Ok(token.value),
                None => self.request(&mut state).await,
            };
        };
        if Instant::now() >= token.refresh_at
            && let Ok(mut state) = self.refresh.try_lock()
        {
            match self.request(&mut state).await {
                Ok(fresh) => return Ok(fresh),
                // The old token works until its end.
                Err(outcome) => tracing::debug!(?outcome, "the access token of fcm could not be refreshed yet"),
            }
        }
        Ok(token.value)
    }

    /// Forgets a token that FCM refused. Returns whether another one may work: the replacement of a refused token is
    /// not replaced at once, so that a wrong service account does not cause a request for a token with every message.
    pub(super) fn invalidate(&self, refused: &Arc<Secret>) -> bool {
        let mut cached = self.cached.write();
        match cached.as_ref() {
            Some(token) if Arc::ptr_eq(&token.value, refused) => {
                let replaceable = token.keep_until.is_none_or(|keep_until| Instant::now() >= keep_until);
                if replaceable {
                    *cached = None;
                    self.refused.store(true, Ordering::Relaxed);
                }
                replaceable
            }
            _ => true,
        }
    }

    fn usable(&self) -> Option<AccessToken> {
        self.cached.read().clone().filter(|token| Instant::now() < token.unusable_at)
    }

    /// Gets a token, unless the last failure is too recent.
    async fn request(&self, state: &mut RefreshState) -> Result<Arc<Secret>, Outcome> {
        if let Some((outcome, due)) = &state.failure
            && Instant::now() < *due
        {
            return Err(outcome.clone());
        }
        match self.fetch().await {
            Ok(token) => {
                state.backoff.reset();
                state.failure = None;
                let value = Arc::clone(&token.value);
                *self.cached.write() = Some(token);
                Ok(value)
            }
            Err(outcome) => {
                let demanded = if let Outcome::Retry { after, .. } = &outcome { *after } else { None };
                let delay = state.backoff.next_delay().max(demanded.unwrap_or_default());
                state.failure = Some((outcome.clone(), Instant::now() + delay));
                Err(outcome)
            }
        }
    }

    async fn fetch(&self) -> Result<AccessToken, Outcome> {
        let started = Instant::now();
        let assertion = self.account.assertion(now()).map_err(|_| misconfigured("oauth_key", ""))?;
        let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
        let form = format!("{grant}&assertion={}", assertion.reveal());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let response = self.http.post(self.account.token_uri(), headers, form).await;
        let response = response.map_err(|error| error.outcome(Scope::Provider))?;
        if response.status != 200 {
            return Err(refusal(&response));
        }
        let token: TokenResponse = serde_json::from_slice(&response.body)
            .map_err(|_| Outcome::retry(Scope::Provider, Reason::new("oauth_response")))?;
        let lifetime = Duration::from_secs(u64::from(token.expires_in));
        Ok(AccessToken {
            value: Arc::new(token.access_token),
            refresh_at: started + (lifetime - lifetime / REFRESH_AHEAD),
            unusable_at: started + (lifetime - lifetime / UNUSED),
            keep_until: self.refused.swap(false, Ordering::Relaxed).then_some(started + REPLACEMENT_KEPT),
        })
    }
}

/// The consequence of a refused request for a token.
fn refusal(response: &HttpResponse) -> Outcome {
    match response.status {
        408 | 429 | 500..=599 => Outcome::Retry {
            after: response.retry_after(),
            scope: Scope::Provider,
            reason: Reason::new("oauth_unavailable"),
        },
        _ => {
            let error: Option<OauthFailure> = serde_json::from_slice(&response.body).ok();
            let detail = error.map(|error| format!("{} {}", error.error, error.error_description));
            misconfigured("oauth_refused", detail.as_deref().unwrap_or("unknown error"))
        }
    }
}

fn misconfigured(code: &'static str, detail: &str) -> Outcome {
    Outcome::Misconfigured { scope: Scope::Provider, reason: Reason::with_detail(code, detail, &[]) }
}

//! Hooks: questions about clients to an HTTP endpoint of the application's backend, in the form of Centrifugo's proxy
//! protocol.
//!
//! A question waits at most `hooks.timeout` for its slot, and then as long for the answer. Each hook has an equal part
//! of `hooks.concurrency`, of which one client has a part: see `slots`. Waiting for a slot does not count as a failure.
//!
//! An endpoint that fails five times in a row, for several clients, is left alone for a while; questions to it fail at
//! once meanwhile. Only no answer, 5xx and 429 count: a client can cause all other failures. What a failed question
//! means for the client is for the gateway to say.

mod config;
mod kind;
mod messages;
mod policy;
mod slots;

use std::time::Duration;

use axum::http::HeaderMap;
use bytes::Bytes;
use reqwest::Client;
use reqwest::redirect::Policy;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};

pub use config::HooksConfig;
pub use kind::HookKind;
pub use messages::{
    ConnectAnswer, ConnectQuestion, HookClientInfo, HookDisconnect, HookError, MalformedAnswer, PublishAnswer,
    RefreshAnswer, RpcAnswer, SessionQuestion, SubscribeAnswer, expiry, json_of,
};
pub use policy::HookPolicy;
pub use slots::HookClient;

use crate::breaker::{BreakerKey, BreakerOptions, BreakerVerdict, Breakers};
use crate::model::without_nulls;
use crate::net::TrustedProxies;
use messages::WireAnswer;
use slots::{HookSlots, HookSource};

/// The largest answer that is read.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// Failures in a row after which an endpoint is left alone, the number of clients that they need, and for how long.
const FAILURES: u32 = 5;
const FAILING_CLIENTS: usize = 2;
const MIN_OPEN: Duration = Duration::from_secs(1);
const MAX_OPEN: Duration = Duration::from_secs(30);

/// The answer to a question.
#[derive(Debug)]
pub enum HookAnswer<T> {
    /// The result.
    Result(T),
    /// The client receives this error.
    Error(HookError),
    /// The client is disconnected.
    Disconnect(HookDisconnect),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookFailure {
    /// The endpoint is not configured.
    #[error("no endpoint")]
    NotConfigured,
    /// The endpoint failed often, and is left alone.
    #[error("the endpoint is left alone after failures")]
    Open,
    /// There was no answer in time.
    #[error("no answer in time")]
    Timeout,
    /// Too many questions were running for the whole time.
    #[error("too many questions at once")]
    Busy,
    /// The connection failed.
    #[error("{0}")]
    Connection(String),
    /// The answer has another status than 200.
    #[error("status {0}")]
    Status(u16),
    /// The answer is too large, or not of the protocol.
    #[error("malformed answer")]
    Malformed,
}

impl HookFailure {
    /// Whether it says that the endpoint does not work. A redirect, another status or a malformed answer may concern
    /// this question alone.
    fn is_of_endpoint(&self) -> bool {
        match self {
            Self::Timeout | Self::Connection(_) => true,
            Self::Status(status) => matches!(status, 429 | 500..=599),
            Self::NotConfigured | Self::Open | Self::Busy | Self::Malformed => false,
        }
    }
}

/// The address of a hook, and the questions that it may be asked at once.
struct HookEndpoint {
    url: String,
    slots: HookSlots,
}

/// Asks the application's backend.
pub struct Hooks {
    client: Client,
    endpoints: [Option<HookEndpoint>; HookKind::COUNT],
    timeout: Duration,
    breakers: Breakers,
    proxies: TrustedProxies,
}

impl Hooks {
    /// Hooks as configured. `None` if no endpoint is.
    ///
    /// # Errors
    /// If the HTTP client cannot be built.
    pub fn new(config: &HooksConfig, proxies: &TrustedProxies) -> anyhow::Result<Option<Self>> {
        let HooksConfig { connect, refresh, subscribe, publish, sub_refresh, rpc, .. } = config.clone();
        let urls = [connect, refresh, subscribe, publish, sub_refresh, rpc];
        let number = urls.iter().flatten().count();
        if number == 0 {
            return Ok(None);
        }
        let client = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(config.timeout)
            .timeout(config.timeout)
            .pool_max_idle_per_host(config.concurrency.min(64))
            .build()?;
        let options = BreakerOptions {
            failures: FAILURES,
            sources: FAILING_CLIENTS,
            min_open: MIN_OPEN,
            max_open: MAX_OPEN,
            max_keys: HookKind::COUNT,
        };
        let part = config.concurrency.div_ceil(number);
        Ok(Some(Self {
            client,
            endpoints: urls.map(|url| url.map(|url| HookEndpoint { url, slots: HookSlots::new(part) })),
            timeout: config.timeout,
            breakers: Breakers::new(options),
            proxies: proxies.clone(),
        }))
    }

    /// Whether the backend is asked such questions.
    pub fn asks(&self, kind: HookKind) -> bool {
        self.endpoints[kind as usize].is_some()
    }

    /// Asks a question about a client. Its headers go along.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        kind: HookKind,
        client: &HookClient<'_>,
        headers: Option<&HeaderMap>,
        question: &impl Serialize,
    ) -> Result<HookAnswer<T>, HookFailure> {
        let answered = self.answer(kind, HookSource::new(kind, client, &self.proxies), headers, question).await;
        if let Err(failure) = &answered {
            tracing::warn!(hook = kind.as_str(), %failure, "a hook failed");
        }
        answered
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        kind: HookKind,
        from: HookSource,
        headers: Option<&HeaderMap>,
        question: &impl Serialize,
    ) -> Result<HookAnswer<T>, HookFailure> {
        let HookEndpoint { url, slots } = self.endpoints[kind as usize].as_ref().ok_or(HookFailure::NotConfigured)?;
        let body = serde_json::to_vec(question).map_err(|_| HookFailure::Malformed)?;
        let deadline = Instant::now() + self.timeout;
        let key = BreakerKey::Service(kind.as_str());
        if self.breakers.is_open(&key) {
            return Err(HookFailure::Open);
        }
        // The slot comes first: waiting for it is no failure of the endpoint, and takes no probe.
        let slot = timeout_at(deadline, slots.acquire(from)).await;
        let Ok(Some(_turn)) = slot else { return Err(HookFailure::Busy) };
        let permit = self.breakers.admit(key, from.source).map_err(|_| HookFailure::Open)?;
        let exchange = async { parse(&self.exchange(url, headers, body).await?) };
        // An endpoint is judged by a full timeout, so that a late slot does not make it fail.
        let answered = timeout(self.timeout, exchange).await.unwrap_or(Err(HookFailure::Timeout));
        permit.settle(match &answered {
            Err(failure) if failure.is_of_endpoint() => BreakerVerdict::Failure { after: None },
            _ => BreakerVerdict::Success,
        });
        answered
    }

    async fn exchange(&self, endpoint: &str, headers: Option<&HeaderMap>, body: Vec<u8>) -> Result<Bytes, HookFailure> {
        let failed = |error: reqwest::Error| match error.is_timeout() {
            true => HookFailure::Timeout,
            // The address may contain a secret.
            false => HookFailure::Connection(error.without_url().to_string()),
        };
        let mut request = self.client.post(endpoint).body(body);
        if let Some(headers) = headers {
            request = request.headers(headers.clone());
        }
        let request = request.header("content-type", "application/json");
        let mut response = request.send().await.map_err(failed)?;
        if response.status() != 200 {
            return Err(HookFailure::Status(response.status().as_u16()));
        }
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if answer.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(HookFailure::Malformed);
            }
            answer.extend_from_slice(&chunk);
        }
        Ok(answer.into())
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<HookAnswer<T>, HookFailure> {
    let body = std::str::from_utf8(body).map_err(|_| HookFailure::Malformed)?;
    let answer = serde_json::from_str(&without_nulls(body)).map_err(|_| HookFailure::Malformed)?;
    let WireAnswer { result, error, disconnect } = answer;
    match (disconnect, error, result) {
        (Some(disconnect), _, _) => Ok(HookAnswer::Disconnect(disconnect)),
        (None, Some(error), _) => Ok(HookAnswer::Error(error)),
        (None, None, Some(result)) => Ok(HookAnswer::Result(result)),
        (None, None, None) => Err(HookFailure::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_results_errors_or_disconnects() {
        let parsed = |body: &str| parse::<RefreshAnswer>(body.as_bytes());
        assert!(matches!(
            parsed(r#"{"result":{"expire_at":7,"expired":null,"other":1}}"#),
            Ok(HookAnswer::Result(RefreshAnswer { expired: false, expire_at: 7 }))
        ));
        assert!(
            matches!(parsed(r#"{"result":{},"error":{"code":400}}"#), Ok(HookAnswer::Error(error)) if error.code == 400)
        );
        let both = r#"{"error":{"code":400},"disconnect":{"code":4500,"reason":"x"}}"#;
        assert!(matches!(parsed(both), Ok(HookAnswer::Disconnect(close)) if close.code == 4500));
        let null = r#"{"result":{"expire_at":null,"expired":null},"error":null,"disconnect":null}"#;
        assert!(matches!(parsed(null), Ok(HookAnswer::Result(RefreshAnswer { expired: false, expire_at: 0 }))));
        let [text, negative] = [r#"{"result":{"expire_at":"x"}}"#, r#"{"result":{"expire_at":-5}}"#];
        for malformed in ["", "{}", "[]", "null", r#"{"result":null}"#, text, negative, "<html>"] {
            assert!(matches!(parsed(malformed), Err(HookFailure::Malformed)), "{malformed}");
        }
    }

    #[test]
    fn null_is_absent_in_every_answer() {
        let options = r#"{"expire_at":null,"info":null,"b64info":null,"data":null,"b64data":null,"override":{
            "presence":{"value":null},"join_leave":null,"force_push_join_leave":null}}"#;
        let connect = format!(
            r#"{{"result":{{"user":null,"expire_at":null,"info":null,"b64info":null,"data":{{"a":null}},"b64data":null,
                "channels":null,"subs":{{"a":{options},"b":null}},"meta":null}},"error":null,"disconnect":null}}"#
        );
        let Ok(HookAnswer::Result(answer)) = parse::<ConnectAnswer>(connect.as_bytes()) else { panic!("an answer") };
        assert_eq!(
            (answer.subs.len(), answer.data.map(|data| data.get().to_owned())),
            (1, Some(r#"{"a":null}"#.into()))
        );
        let subscribe = format!(r#"{{"result":{options}}}"#);
        assert!(matches!(parse::<SubscribeAnswer>(subscribe.as_bytes()), Ok(HookAnswer::Result(_))));
        let publish = br#"{"result":{"data":null,"b64data":null,"skip_history":null}}"#;
        assert!(matches!(parse::<PublishAnswer>(publish), Ok(HookAnswer::Result(_))));
        let rpc = br#"{"result":{"data":null,"b64data":null}}"#;
        assert!(matches!(parse::<RpcAnswer>(rpc), Ok(HookAnswer::Result(_))));
        let error = br#"{"result":null,"error":{"code":400,"message":null,"temporary":null}}"#;
        assert!(matches!(parse::<RpcAnswer>(error), Ok(HookAnswer::Error(_))));
        let close = br#"{"disconnect":{"code":4000,"reason":null}}"#;
        assert!(matches!(parse::<RpcAnswer>(close), Ok(HookAnswer::Disconnect(_))));
    }

    #[tokio::test]
    async fn waiting_for_a_turn_does_not_open_a_breaker() {
        let env = [("CONNECT", "http://127.0.0.1:9/"), ("TIMEOUT", "10ms"), ("CONCURRENCY", "1")];
        let env = env.into_iter().map(|(key, value)| (format!("FEEDLINE__HOOKS__{key}"), value.to_owned()));
        let config = crate::config::Config::parse("", env).unwrap();
        let hooks = Hooks::new(&config.hooks, &config.server.trusted_proxies).unwrap().unwrap();
        let client = |host: u8| HookClient { user: None, address: [192, 0, 2, host].into() };
        let slots = &hooks.endpoints[HookKind::Connect as usize].as_ref().unwrap().slots;
        let slot = slots.acquire(HookSource::new(HookKind::Connect, &client(0), &hooks.proxies)).await;
        for host in 0..=FAILURES as u8 {
            let asked = hooks.ask::<ConnectAnswer>(HookKind::Connect, &client(host), None, &()).await;
            assert!(matches!(asked, Err(HookFailure::Busy)), "{asked:?}");
        }
        drop(slot);
        assert!(hooks.breakers.is_empty());
    }

    #[test]
    fn only_failures_of_the_endpoint_count() {
        let counts = [HookFailure::Timeout, HookFailure::Connection(String::new())];
        let alone = [HookFailure::Malformed, HookFailure::Busy, HookFailure::Open, HookFailure::NotConfigured];
        assert!(counts.iter().all(HookFailure::is_of_endpoint) && !alone.iter().any(HookFailure::is_of_endpoint));
        for (status, expected) in [
            (201, false),
            (204, false),
            (302, false),
            (400, false),
            (401, false),
            (404, false),
            (408, false),
            (429, true),
            (500, true),
            (503, true),
            (599, true),
        ] {
            assert_eq!(HookFailure::Status(status).is_of_endpoint(), expected, "{status}");
        }
    }

    #[test]
    fn codes_of_answers_are_checked() {
        let error = |code| HookError { code, message: String::new(), temporary: false }.code();
        assert_eq!(
            [error(0), error(399), error(400), error(1999), error(2000)],
            [None, None, Some(400), Some(1999), None]
        );
        let close = |code, reason: &str| HookDisconnect { code, reason: reason.into() }.close();
        assert_eq!([close(0, ""), close(2999, ""), close(5000, ""), close(70_000, "")], [None, None, None, None]);
        assert_eq!(close(4500, "x"), Some((4500, "x".into())));
        assert_eq!(close(4500, &"é".repeat(100)).map(|(_, reason)| reason.len()), Some(122));
    }
}

//! Hooks: questions about clients to an HTTP endpoint of the application's backend, in the form of Centrifugo's proxy
//! protocol.
//!
//! A question waits at most `hooks.timeout` for its turn, since at most `hooks.concurrency` questions run at once, and
//! then as long for the answer. Waiting for a turn does not count as a failure. An endpoint that fails five times in a
//! row is left alone for a while; questions to it fail at once meanwhile. What a failed question means for the client
//! is for the gateway to say.

mod messages;
mod policy;

use std::time::Duration;

use axum::http::HeaderMap;
use bytes::Bytes;
use reqwest::Client;
use reqwest::redirect::Policy;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

pub use messages::{
    ConnectAnswer, ConnectQuestion, HookClientInfo, HookDisconnect, HookError, MalformedAnswer, PublishAnswer,
    RefreshAnswer, RpcAnswer, SessionQuestion, SubscribeAnswer, expiry, json_of,
};
pub use policy::HookPolicy;

use crate::breaker::{BreakerKey, BreakerOptions, BreakerVerdict, Breakers};
use crate::config::HooksConfig;
use crate::model::without_nulls;
use messages::WireAnswer;

/// The largest answer that is read.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// Failures in a row after which an endpoint is left alone, and for how long.
const FAILURES: u32 = 5;
const MIN_OPEN: Duration = Duration::from_secs(1);
const MAX_OPEN: Duration = Duration::from_secs(30);

/// What the backend is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookKind {
    /// Who a client without a token is.
    Connect,
    /// Whether a connection goes on.
    Refresh,
    /// Whether a client may subscribe.
    Subscribe,
    /// Whether a client may publish.
    Publish,
    /// Whether a subscription goes on.
    SubRefresh,
    /// What the reply to an unknown method is.
    Rpc,
}

impl HookKind {
    const COUNT: usize = 6;

    /// The name of its configuration key.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Refresh => "refresh",
            Self::Subscribe => "subscribe",
            Self::Publish => "publish",
            Self::SubRefresh => "sub_refresh",
            Self::Rpc => "rpc",
        }
    }
}

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

/// Asks the application's backend.
pub struct Hooks {
    client: Client,
    endpoints: [Option<String>; HookKind::COUNT],
    timeout: Duration,
    turns: Semaphore,
    breakers: Breakers,
}

impl Hooks {
    /// Hooks as configured. `None` if no endpoint is.
    ///
    /// # Errors
    /// If the HTTP client cannot be built.
    pub fn new(config: &HooksConfig) -> anyhow::Result<Option<Self>> {
        let HooksConfig { connect, refresh, subscribe, publish, sub_refresh, rpc, .. } = config.clone();
        let endpoints = [connect, refresh, subscribe, publish, sub_refresh, rpc];
        if endpoints.iter().all(Option::is_none) {
            return Ok(None);
        }
        let client = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(config.timeout)
            .timeout(config.timeout)
            .pool_max_idle_per_host(config.concurrency.min(64))
            .build()?;
        let options =
            BreakerOptions { failures: FAILURES, min_open: MIN_OPEN, max_open: MAX_OPEN, max_keys: HookKind::COUNT };
        Ok(Some(Self {
            client,
            endpoints,
            timeout: config.timeout,
            turns: Semaphore::new(config.concurrency),
            breakers: Breakers::new(options),
        }))
    }

    /// Whether the backend is asked such questions.
    pub fn asks(&self, kind: HookKind) -> bool {
        self.endpoints[kind as usize].is_some()
    }

    /// Asks a question. The client's headers go along.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        kind: HookKind,
        headers: Option<&HeaderMap>,
        question: &impl Serialize,
    ) -> Result<HookAnswer<T>, HookFailure> {
        let answered = self.answer(kind, headers, question).await;
        if let Err(failure) = &answered {
            tracing::warn!(hook = kind.as_str(), %failure, "a hook failed");
        }
        answered
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        kind: HookKind,
        headers: Option<&HeaderMap>,
        question: &impl Serialize,
    ) -> Result<HookAnswer<T>, HookFailure> {
        let endpoint = self.endpoints[kind as usize].as_deref().ok_or(HookFailure::NotConfigured)?;
        let body = serde_json::to_vec(question).map_err(|_| HookFailure::Malformed)?;
        let deadline = Instant::now() + self.timeout;
        let key = BreakerKey::Service(kind.as_str());
        if self.breakers.is_open(&key) {
            return Err(HookFailure::Open);
        }
        // The turn comes first: waiting for it is no failure of the endpoint, and takes no probe.
        let turn = timeout_at(deadline, self.turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else { return Err(HookFailure::Busy) };
        let permit = self.breakers.admit(key).map_err(|_| HookFailure::Open)?;
        let exchange = async { parse(&self.exchange(endpoint, headers, body).await?) };
        // An endpoint is judged by a full timeout, so that a late turn does not make it fail.
        let answered = timeout(self.timeout, exchange).await.unwrap_or(Err(HookFailure::Timeout));
        permit.settle(match &answered {
            Ok(_) => BreakerVerdict::Success,
            Err(_) => BreakerVerdict::Failure { after: None },
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
        for malformed in ["", "{}", "[]", "null", r#"{"result":null}"#, r#"{"result":{"expire_at":"x"}}"#, "<html>"] {
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
        let hooks = Hooks::new(&config.hooks).unwrap().unwrap();
        let turn = hooks.turns.acquire().await.unwrap();
        for _ in 0..=FAILURES {
            let asked = hooks.ask::<ConnectAnswer>(HookKind::Connect, None, &()).await;
            assert!(matches!(asked, Err(HookFailure::Busy)), "{asked:?}");
        }
        drop(turn);
        assert!(hooks.breakers.is_empty());
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

//! Which questions the backend is asked. Sessions use it; it knows no endpoint.

use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::HookKind;
use crate::config::HooksConfig;

/// The maximum number of headers of one client that are kept, and of bytes in them.
const MAX_HEADERS: usize = 32;
const MAX_HEADER_BYTES: usize = 8 * 1024;

/// The schemes of `Authorization` whose credentials browsers keep and send by themselves.
const KEPT_BY_BROWSERS: [&str; 4] = ["basic", "digest", "negotiate", "ntlm"];

/// Which questions the backend is asked; by default none.
#[derive(Clone, Debug, Default)]
pub struct HookPolicy {
    asked: [bool; HookKind::COUNT],
    namespaces: Vec<String>,
    headers: Vec<HeaderName>,
}

impl HookPolicy {
    /// The policy of a configuration.
    pub fn new(config: &HooksConfig) -> Self {
        let HooksConfig { connect, refresh, subscribe, publish, sub_refresh, rpc, .. } = config;
        let asked = [connect, refresh, subscribe, publish, sub_refresh, rpc].map(Option::is_some);
        let headers = config.headers.iter().filter_map(|name| name.parse().ok()).collect();
        Self { asked, namespaces: config.namespaces.clone(), headers }
    }

    /// Whether the backend is asked such questions.
    pub fn asks(&self, kind: HookKind) -> bool {
        self.asked[kind as usize]
    }

    /// Whether the backend is asked about channels of a namespace.
    pub fn asks_about(&self, kind: HookKind, namespace: &str) -> bool {
        self.asks(kind) && (self.namespaces.is_empty() || self.namespaces.iter().any(|name| name == namespace))
    }

    /// Whether a client can be who its cookies say, or a password that its browser keeps for the host: browsers add
    /// both to requests that another page caused. A `Bearer` token is none of these.
    pub fn trusts_browser(&self, request: &HeaderMap) -> bool {
        let is_kept = |value: &HeaderValue| {
            let scheme = value.to_str().unwrap_or_default().split(' ').next().unwrap_or_default();
            KEPT_BY_BROWSERS.iter().any(|kept| scheme.eq_ignore_ascii_case(kept))
        };
        let reads = |name: &HeaderName| self.headers.contains(name);
        let has_password = || reads(&AUTHORIZATION) && request.get_all(AUTHORIZATION).iter().any(is_kept);
        self.asks(HookKind::Connect) && (reads(&COOKIE) || has_password())
    }

    /// The headers of a client's request that are passed on; `None` if there are none.
    pub fn select(&self, headers: &HeaderMap) -> Option<Box<HeaderMap>> {
        let mut selected = HeaderMap::new();
        let mut bytes = 0;
        for name in &self.headers {
            for value in headers.get_all(name) {
                bytes += name.as_str().len() + value.len();
                if selected.len() < MAX_HEADERS && bytes <= MAX_HEADER_BYTES {
                    selected.append(name.clone(), value.clone());
                }
            }
        }
        (!selected.is_empty()).then(|| Box::new(selected))
    }

    /// The headers that a client sent inside `connect`, because browsers cannot set those of a WebSocket, as far as
    /// they are passed on.
    pub fn emulated<'a>(&self, sent: impl Iterator<Item = (&'a String, &'a String)>) -> Option<Box<HeaderMap>> {
        let mut headers = HeaderMap::new();
        for (name, value) in sent.take(MAX_HEADERS) {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
                headers.insert(name, value);
            }
        }
        self.select(&headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_that_a_browser_adds_by_itself_are_recognised() {
        let policy = |asked: bool, names: &[&str]| HookPolicy {
            asked: [asked, false, false, false, false, false],
            headers: names.iter().filter_map(|name| name.parse().ok()).collect(),
            ..HookPolicy::default()
        };
        let sent = |value: &'static str| HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))]);
        for (asked, names, value, expected) in [
            (true, &["cookie"][..], "Bearer x", true),
            (false, &["cookie"], "Bearer x", false),
            (true, &["authorization"], "Bearer x", false),
            (true, &["authorization"], "Basic YTpi", true),
            (true, &["authorization"], "negotiate abc", true),
            (true, &["x-app"], "Basic YTpi", false),
        ] {
            assert_eq!(policy(asked, names).trusts_browser(&sent(value)), expected, "{names:?} {value}");
        }
    }

    #[test]
    fn only_listed_headers_are_passed_on() {
        let headers = ["cookie".parse().unwrap(), "x-app".parse().unwrap()].to_vec();
        let policy = HookPolicy { headers, ..HookPolicy::default() };
        let mut sent = HeaderMap::new();
        for (name, value) in [("cookie", "a=1"), ("cookie", "b=2"), ("authorization", "x"), ("x-app", "v")] {
            sent.append(name, HeaderValue::from_static(value));
        }
        let selected = policy.select(&sent).unwrap();
        assert_eq!(selected.get_all("cookie").iter().collect::<Vec<_>>(), ["a=1", "b=2"]);
        assert_eq!((selected.get("authorization"), selected.len()), (None, 3));
        sent.insert("cookie", "x".repeat(MAX_HEADER_BYTES).parse().unwrap());
        assert_eq!(policy.select(&sent).map(|headers| headers.len()), None, "too large");
        let emulated = [("X-App".to_owned(), "w".to_owned()), ("x y".to_owned(), "1".to_owned())];
        let emulated = policy.emulated(emulated.iter().map(|(name, value)| (name, value))).unwrap();
        assert_eq!(emulated.get("x-app").unwrap(), "w");
        assert_eq!(HookPolicy::default().select(&sent), None);
    }
}

//! Which questions the backend is asked. Sessions use it; it knows no endpoint.

use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::{HookKind, HooksConfig};

/// The maximum number of headers of one client that are kept, and of bytes in them.
const MAX_HEADERS: usize = 32;
const MAX_HEADER_BYTES: usize = 8 * 1024;

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

    /// Whether the backend may take a client for the one that its browser names in this request: by cookies, or by HTTP
    /// authentication. A browser adds these also to requests that another page caused, but no bearer token.
    pub fn trusts_browser(&self, request: &HeaderMap) -> bool {
        let has_ambient_authorization = || request.get_all(AUTHORIZATION).iter().any(|value| !is_bearer(value));
        let passes_on = |name| self.headers.contains(&name);
        self.asks(HookKind::Connect) && (passes_on(COOKIE) || (passes_on(AUTHORIZATION) && has_ambient_authorization()))
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

fn is_bearer(authorization: &HeaderValue) -> bool {
    const SCHEME: &[u8] = b"bearer ";
    authorization.as_bytes().get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_adds_by_itself_says_who_a_client_is() {
        let policy = |names: &[&str], asks: bool| {
            let headers = names.iter().map(|name| name.parse().unwrap()).collect();
            let mut policy = HookPolicy { headers, ..HookPolicy::default() };
            policy.asked[HookKind::Connect as usize] = asks;
            policy
        };
        for (passed_on, authorization, trusts) in [
            (&["cookie"][..], None, true),
            (&["x-app"], Some("Basic YTpi"), false),
            (&["authorization"], None, false),
            (&["authorization"], Some("Bearer abc"), false),
            (&["authorization"], Some("bearer abc"), false),
            (&["authorization"], Some("Basic YTpi"), true),
            (&["authorization"], Some("Negotiate abc"), true),
            (&["authorization"], Some("Bearer"), true),
        ] {
            let mut request = HeaderMap::new();
            request.extend(authorization.map(|value| (AUTHORIZATION, HeaderValue::from_static(value))));
            assert_eq!(policy(passed_on, true).trusts_browser(&request), trusts, "{passed_on:?} {authorization:?}");
            assert!(!policy(passed_on, false).trusts_browser(&request), "without a connect hook");
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

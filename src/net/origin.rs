//! The browser origins that may connect: one check for WebSockets and for CORS.
//!
//! Origins are compared in one form, see [`normalized`]: names in lower case and punycode, without the default port.

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};
use reqwest::Url;

/// The browser origins that may connect in addition to the server's own host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedOrigins {
    /// Every origin.
    Any,
    /// These origins, each [`normalized`].
    Listed(Vec<String>),
}

/// An origin in the form that browsers send: `scheme://host` or `scheme://host:port`. `None` if the text is no origin:
/// `null`, an address with a path, a user or a query, or no address at all.
pub fn normalized(text: &str) -> Option<String> {
    let (scheme, host) = text.split_once("://")?;
    if host.is_empty() || host.contains(['/', '\\', '?', '#', '@']) || text.contains(char::is_whitespace) {
        return None;
    }
    let url = Url::parse(text).ok()?;
    // The parser knows names of http and https only; others are for applications with a web view.
    let host = url.host_str().filter(|host| !host.is_empty())?.to_ascii_lowercase();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{}://{host}{port}", scheme.to_ascii_lowercase()))
}

/// Whether the `Origin` header of a request is allowed. Browsers send the origin of the page; other clients send none
/// and are authenticated by their token alone.
pub fn allowed(origins: &AllowedOrigins, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    match origins {
        AllowedOrigins::Any => true,
        AllowedOrigins::Listed(list) => {
            normalized(origin).is_some_and(|origin| list.contains(&origin) || is_own(&origin, headers))
        }
    }
}

/// The `Origin` header of a request, for the log.
pub fn shown(headers: &HeaderMap) -> &str {
    headers.get(ORIGIN).map_or("none", |origin| origin.to_str().unwrap_or("not text"))
}

/// Whether an origin is that of the host of a request. Only the origin says whether the page came over TLS, which a
/// proxy may have ended.
fn is_own(origin: &str, headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
    let scheme = origin.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| ["http", "https"].contains(scheme));
    scheme.and_then(|scheme| normalized(&format!("{scheme}://{host}"))).is_some_and(|own| own == origin)
}

/// Whether a request comes from a page that is [`allowed`], by what its browser says. A browser adds cookies to
/// every request for a host, also to those that a link or picture on a foreign page causes, and such a `GET` has no
/// `Origin`. So a request without one must be a script's (`Sec-Fetch-Dest: empty`) on a page of this host.
pub fn is_from_allowed_page(origins: &AllowedOrigins, headers: &HeaderMap) -> bool {
    let says = |name: &str, expected: &str| headers.get(name).is_some_and(|value| value == expected);
    match headers.contains_key(ORIGIN) {
        true => allowed(origins, headers),
        false => says("sec-fetch-site", "same-origin") && says("sec-fetch-dest", "empty"),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(origin: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("feed.example.org:8000"));
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
        }
        headers
    }

    #[test]
    fn origins_have_one_form() {
        for (text, form) in [
            ("https://App.Example.org", Some("https://app.example.org")),
            ("HTTPS://app.example.org:443", Some("https://app.example.org")),
            ("http://app.example.org:80", Some("http://app.example.org")),
            ("http://app.example.org:443", Some("http://app.example.org:443")),
            ("https://m\u{fc}nchen.example", Some("https://xn--mnchen-3ya.example")),
            ("http://[0:0:0::1]:3000", Some("http://[::1]:3000")),
            ("capacitor://localhost", Some("capacitor://localhost")),
            ("chrome-extension://abcdef", Some("chrome-extension://abcdef")),
            ("null", None),
            ("app.example.org", None),
            ("https://", None),
            ("https://app.example.org/", None),
            ("https://user@app.example.org", None),
            ("https://app.example.org?x", None),
            ("https://app.example.org:99999", None),
            ("https://app example.org", None),
            ("https://a.example\\b.example", None),
        ] {
            assert_eq!(normalized(text).as_deref(), form, "{text}");
        }
    }

    #[test]
    fn other_origins_must_be_listed() {
        let listed = AllowedOrigins::Listed(vec!["https://app.example.org".into()]);
        for origin in [None, Some("http://feed.example.org:8000"), Some("https://App.example.org")] {
            assert!(allowed(&listed, &headers(origin)), "{origin:?}");
        }
        for (name, value) in [("sec-fetch-site", "same-origin"), ("sec-fetch-dest", "empty")] {
            let mut half = headers(None);
            half.insert(name, HeaderValue::from_static(value));
            assert!(!is_from_allowed_page(&listed, &half), "{name} alone");
        }
        for (origin, host) in [
            ("https://feed.example.org", "feed.example.org:443"),
            ("https://feed.example.org:443", "feed.example.org"),
            ("http://feed.example.org", "Feed.Example.org:80"),
            ("http://[::1]:8000", "[0:0::1]:8000"),
        ] {
            let mut own = headers(Some(origin));
            own.insert(HOST, HeaderValue::from_static(host));
            assert!(allowed(&listed, &own), "{origin} at {host}");
        }
        for (origin, host) in [
            ("http://feed.example.org", "feed.example.org:443"),
            ("https://feed.example.org", "feed.example.org:80"),
            ("https://feed.example.org", "feed.example.org:8443"),
            ("https://evil.example", "evil.example@feed.example.org"),
            ("https://evil.example", "evil.example/"),
            ("ftp://feed.example.org", "feed.example.org"),
        ] {
            let mut foreign = headers(Some(origin));
            foreign.insert(HOST, HeaderValue::from_static(host));
            assert!(!allowed(&listed, &foreign), "{origin} at {host}");
        }
        for origin in ["https://evil.example.org", "null", "http://feed.example.org", "feed.example.org:8000"] {
            assert!(!allowed(&listed, &headers(Some(origin))), "{origin}");
            assert!(allowed(&AllowedOrigins::Any, &headers(Some(origin))), "{origin}");
        }
    }
}

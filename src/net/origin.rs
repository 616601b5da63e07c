//! The browser origins that may connect: one check for WebSockets and for CORS.

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};

/// The browser origins that may connect in addition to the server's own host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedOrigins {
    /// Every origin.
    Any,
    /// These origins, each in the form that browsers send: `scheme://host` or `scheme://host:port`, in lower case.
    Listed(Vec<String>),
}

/// Whether the `Origin` header of a request is allowed. Browsers send the origin of the page; other clients send none
/// and are authenticated by their token alone.
pub fn allowed(origins: &AllowedOrigins, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let Ok(origin) = origin.to_str().map(str::to_ascii_lowercase) else { return false };
    match origins {
        AllowedOrigins::Any => true,
        AllowedOrigins::Listed(list) => {
            let host = headers.get(HOST).and_then(|host| host.to_str().ok()).map(str::to_ascii_lowercase);
            let own = origin.split_once("://").map(|(_, host)| host.to_owned());
            (own.is_some() && own == host) || list.contains(&origin)
        }
    }
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
        for origin in ["https://evil.example.org", "null", "http://feed.example.org", "feed.example.org:8000"] {
            assert!(!allowed(&listed, &headers(Some(origin))), "{origin}");
            assert!(allowed(&AllowedOrigins::Any, &headers(Some(origin))), "{origin}");
        }
    }
}

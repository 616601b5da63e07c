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
        for origin in ["https://evil.example.org", "null", "http://feed.example.org", "feed.example.org:8000"] {
            assert!(!allowed(&listed, &headers(Some(origin))), "{origin}");
            assert!(allowed(&AllowedOrigins::Any, &headers(Some(origin))), "{origin}");
        }
    }
}

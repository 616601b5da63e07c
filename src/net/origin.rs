//! Which browser origins may connect: one check for WebSockets and for CORS.

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};

/// Browser origins that may connect in addition to the page's own host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedOrigins {
    /// Every origin.
    Any,
    /// These, each as a browser sends it: `scheme://host` or `scheme://host:port`, in lower case.
    Listed(Vec<String>),
}

/// Whether the page that makes a request may do so. Browsers send where the page came from; other clients send nothing,
/// and are identified by their token alone.
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

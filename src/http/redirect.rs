//! Redirects requests without TLS to the same address with it: `server.redirect_listen`.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{HOST, LOCATION};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Response, StatusCode, Uri};

use super::answers::problem;

/// The port of https that addresses do not name.
const DEFAULT_PORT: u16 = 443;

/// Answers every request with 308 to `https://<host's name>[:port]<path and query>`. `port` is that of `server.listen`.
pub fn redirect_router(port: Option<u16>) -> Router {
    let port = port.filter(|port| *port != DEFAULT_PORT);
    Router::new().fallback(move |request: Request| {
        let location = location(request.headers(), request.uri(), port);
        async move {
            let Some(location) = location else {
                return problem(StatusCode::BAD_REQUEST, "invalid", "the header Host does not name this server");
            };
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
            if let Ok(location) = location.parse() {
                response.headers_mut().insert(LOCATION, location);
            }
            response
        }
    })
}

fn location(headers: &HeaderMap, uri: &Uri, port: Option<u16>) -> Option<String> {
    let mut hosts = headers.get_all(HOST).iter();
    let only = hosts.next().filter(|_| hosts.next().is_none())?;
    let authority: Authority = only.to_str().ok()?.parse().ok()?;
    let name = authority.host();
    if name.is_empty() || authority.as_str().contains('@') {
        return None;
    }
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let rest = uri.path_and_query().map_or("/", |rest| rest.as_str());
    if !rest.starts_with('/') {
        return None;
    }
    Some(format!("https://{name}{port}{rest}"))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_host_and_the_path_stay() {
        for (host, uri, port, expected) in [
            ("feed.example", "/", None, Some("https://feed.example/")),
            ("feed.example:80", "/post/1?a=b&c", Some(8443), Some("https://feed.example:8443/post/1?a=b&c")),
            ("[::1]:8080", "/", Some(8443), Some("https://[::1]:8443/")),
            ("feed.example", "http://other.example/x", None, Some("https://feed.example/x")),
            ("", "/", None, None),
            ("me@evil.example", "/", None, None),
            ("a b", "/", None, None),
            ("feed.example", "*", None, None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_str(host).unwrap());
            assert_eq!(location(&headers, &uri.parse().unwrap(), port).as_deref(), expected, "{host} {uri}");
        }
    }
}

//! The web page: the files of `web/`, embedded in the binary (read from disk in a debug build).

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use super::answers::problem;

mod encoding;
mod files;
mod join;

/// Allows only the scripts and styles of the binary. Pictures, video and audio of posts may come from any HTTPS origin.
/// No script can create markup from text: Trusted Types are required, and the only policy that may be created, once, is
/// that of `web/push.js`, which names the service worker and nothing else.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' https:; media-src 'self' https:; \
     connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types service-worker",
);

/// Whether a path is the address of a view. `web/router.js` has the same list.
fn is_view(path: &str) -> bool {
    let name = path.split('/').next().unwrap_or_default();
    matches!(name, "post" | "user" | "topic" | "topics" | "explore" | "notifications" | "favourites" | "search")
        || matches!(name, "settings" | "sign-in" | "sign-up")
}

pub(super) async fn serve(request: Request) -> Response<Body> {
    let path = request.uri().path().trim_start_matches('/');
    let path = if path.is_empty() || is_view(path) { "index.html" } else { path };
    let Some(file) = files::get(path).await else {
        return problem(StatusCode::NOT_FOUND, "not_found", "there is nothing here");
    };
    let accepted = values(request.headers(), &ACCEPT_ENCODING);
    let (encoding, encoded) = file.encoded_for(&accepted);
    let known = values(request.headers(), &IF_NONE_MATCH);
    let mut response = if is_known(&known, &encoded.tag) {
        let mut unchanged = Response::new(Body::empty());
        *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
        unchanged
    } else {
        Response::new(Body::from(encoded.bytes.clone()))
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(name) = encoding.name() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(name));
    }
    if let Ok(tag) = HeaderValue::from_str(&encoded.tag) {
        headers.insert(ETAG, tag);
    }
    response
}

/// The values of a header that is a list, over all its lines.
fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a str> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).collect()
}

/// Whether the client has the file already. A proxy may have weakened the tag.
fn is_known(known: &[&str], tag: &str) -> bool {
    known.iter().any(|known| *known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

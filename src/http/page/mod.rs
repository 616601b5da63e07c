//! The web page: the files of `web/`, embedded in the binary (read from disk in a debug build).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use super::answers::problem;
use crate::net::{BasePath, own_paths};

mod document;
mod encoding;
mod files;
mod join;

pub(super) use document::PageDocuments;
use files::File;

/// Allows only the scripts and styles of the binary. Pictures, video and audio of posts may come from any HTTPS origin.
/// No script can create markup from text: Trusted Types are required, and the only policy that may be created, once, is
/// that of `web/push.js`, which names the service worker and nothing else.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' https:; media-src 'self' https:; \
     connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types service-worker",
);

fn is_view(path: &str) -> bool {
    own_paths::is_view(path.split('/').next().unwrap_or_default())
}

/// Whether the page has a file of the path.
pub(super) fn has_file(path: &str) -> bool {
    let path = path.trim_start_matches('/');
    files::unhashed(path).is_some() || files::has(path)
}

/// How long caches keep a file: until its name changes, or as long as the server says that it is the same.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";
const REVALIDATED: &str = "no-cache";

/// The headers that select the form of a file, and of the document.
const VARY_FILE: &str = "accept-encoding";
const VARY_DOCUMENT: &str = "accept-encoding, x-forwarded-prefix";

/// The second script of a page of another build: it would import a first script that the page has not loaded. The page
/// takes this error for what it is (`web/views/index.js`).
const OTHER_BUILD: &str = "throw new SyntaxError(\"the server has another build than the page\");\n";

/// A file with its headers `Cache-Control` and `Vary`.
type Found = (Arc<File>, &'static str, &'static str);

pub(super) async fn serve(State(page): State<Arc<PageDocuments>>, request: Request) -> Response<Body> {
    let path = request.uri().path().trim_start_matches('/');
    let found = if path.is_empty() || path == "index.html" || is_view(path) {
        page.get(BasePath::of(request.extensions())).await.map(|file| (file, REVALIDATED, VARY_DOCUMENT))
    } else if let Some(unhashed) = files::unhashed(path) {
        // A page of another build gets the style and the texts of this one.
        match files::get(unhashed).await {
            Some(file) if file.hashed_name(unhashed) == path => Some((file, IMMUTABLE, VARY_FILE)),
            Some(_) if unhashed == files::LATER => return other_build(),
            other => other.map(|file| (file, REVALIDATED, VARY_FILE)),
        }
    } else {
        files::get(path).await.map(|file| (file, REVALIDATED, VARY_FILE))
    };
    match found {
        Some(found) => answer(&request, &found),
        None => problem(StatusCode::NOT_FOUND, "not_found", "there is nothing here"),
    }
}

fn other_build() -> Response<Body> {
    let mut response = Response::new(Body::from(OTHER_BUILD));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/javascript; charset=utf-8"));
    response
}

fn answer(request: &Request, (file, lifetime, vary): &Found) -> Response<Body> {
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
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(lifetime));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(VARY, HeaderValue::from_static(vary));
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

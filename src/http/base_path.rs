//! Requests below the base path, whether a proxy has kept it or removed it.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::LOCATION;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, Response, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};

use super::page;
use crate::net::BasePath;

/// The routes at the root and below `base`.
pub(super) fn below(base: BasePath, routes: Router) -> Router {
    if base.is_root() {
        return routes;
    }
    Router::new().fallback_service(routes).layer(from_fn_with_state(base, strip_base))
}

async fn strip_base(State(base): State<BasePath>, mut request: Request, next: Next) -> Response<Body> {
    let path = request.uri().path();
    let stripped = match base.strip(path) {
        Some("") => return to_folder(&base, request.uri()),
        // The base path may be the name of a folder of the page, such as /feedline.
        Some(rest) if !page::has_file(path) => with_path(request.uri(), rest),
        _ => None,
    };
    if let Some(stripped) = stripped {
        *request.uri_mut() = stripped;
    }
    if request.extensions().get::<BasePath>().is_none() {
        request.extensions_mut().insert(base);
    }
    next.run(request).await
}

fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(format!("{path}{query}")).ok()?);
    Uri::from_parts(parts).ok()
}

/// Service workers control only pages in the folder: `/feed/`, not `/feed`.
fn to_folder(base: &BasePath, uri: &Uri) -> Response<Body> {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    if let Ok(folder) = HeaderValue::from_str(&format!("{}/{query}", base.as_str())) {
        response.headers_mut().insert(LOCATION, folder);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripped_address_keeps_its_query() {
        let stripped = |uri: &str, path: &str| with_path(&uri.parse().unwrap(), path).unwrap().to_string();
        assert_eq!(stripped("/feed/post/1?comment=2", "/post/1"), "/post/1?comment=2");
        assert_eq!(stripped("/feed//x", "//x"), "//x");
    }
}

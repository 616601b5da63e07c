//! Cross-origin access of browsers to `/api/v1`.

use serde_json::json;

use crate::server::{API_KEY, Answer, Server, token};

const APP: &str = "https://app.example.org";
const OTHER: &str = "https://other.example.org";

fn allowed_origin(answer: &Answer) -> Option<&str> {
    answer.header("access-control-allow-origin")
}

async fn preflight(server: &Server, origin: &str, path: &str, method: &str) -> Answer {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", method),
        ("access-control-request-headers", "authorization,content-type,idempotency-key"),
    ];
    server.http("OPTIONS", path, &headers, "").await
}

fn lists(answer: &Answer, header: &str, expected: &[&str]) {
    let listed = answer.header(header).unwrap_or_default().to_ascii_lowercase();
    let listed: Vec<&str> = listed.split(',').map(str::trim).collect();
    for item in expected {
        assert!(listed.contains(item), "{header} lacks {item}: {listed:?}");
    }
}

#[tokio::test]
async fn listed_origins_may_call_every_operation() {
    let server = Server::start_with(&[("server.origins", APP), ("rates.posts", "1")]).await;
    for (method, path) in [
        ("POST", "/api/v1/posts"),
        ("PATCH", "/api/v1/posts/1"),
        ("DELETE", "/api/v1/posts/1"),
        ("PUT", "/api/v1/nothing"),
    ] {
        let answer = preflight(&server, APP, path, method).await;
        assert_eq!((answer.status.as_u16(), allowed_origin(&answer)), (204, Some(APP)), "{method} {path}");
        lists(&answer, "access-control-allow-methods", &["get", "post", "put", "patch", "delete"]);
        lists(&answer, "access-control-allow-headers", &["authorization", "content-type", "idempotency-key"]);
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        assert!(answer.header("access-control-max-age").is_some());
    }
    let bearer = format!("Bearer {}", token("ann"));
    let headers = [("origin", APP), ("authorization", &*bearer)];
    let post = json!({ "text": "from another origin" }).to_string();
    let mut statuses = Vec::new();
    for (method, path, body) in [
        ("POST", "/api/v1/posts", &*post),
        ("POST", "/api/v1/posts", &*post),
        ("POST", "/api/v1/posts", &*post),
        ("GET", "/api/v1/posts/1", ""),
        ("GET", "/api/v1/nothing", ""),
        ("PATCH", "/api/v1/timeline", ""),
    ] {
        let answer = server.http(method, path, &headers, body).await;
        assert_eq!(allowed_origin(&answer), Some(APP), "{method} {path}: {answer:?}");
        lists(&answer, "access-control-expose-headers", &["retry-after", "x-request-id"]);
        lists(&answer, "vary", &["origin"]);
        assert_eq!(answer.header("retry-after").is_some(), answer.status == 429);
        statuses.push(answer.status.as_u16());
    }
    assert_eq!(statuses, [201, 201, 429, 404, 404, 405]);
    let answer = server.http("GET", "/api/v1/timeline", &[("origin", APP)], "").await;
    assert_eq!((answer.status.as_u16(), allowed_origin(&answer)), (401, Some(APP)), "the page may read why");
}

#[tokio::test]
async fn unlisted_origins_may_call_nothing() {
    let server = Server::start_with(&[("server.origins", APP)]).await;
    for origin in [OTHER, "null", "https://app.example.org.evil.org", "http://app.example.org"] {
        let answer = preflight(&server, origin, "/api/v1/posts", "POST").await;
        assert_eq!((answer.status.as_u16(), allowed_origin(&answer)), (403, None), "{origin}");
        assert_eq!(answer.header("access-control-allow-methods"), None);
        lists(&answer, "vary", &["origin"]);
        // Browsers send these without a preflight.
        let simple = [("origin", origin), ("content-type", "text/plain")];
        for (method, path, body) in [
            ("GET", "/api/v1/timeline", ""),
            ("POST", "/api/v1/accounts", r#"{"user":"cy","password":"a long password"}"#),
        ] {
            let answer = server.http(method, path, &simple, body).await;
            assert_eq!((answer.status.as_u16(), allowed_origin(&answer)), (403, None), "{method} {origin}");
            lists(&answer, "vary", &["origin"]);
        }
    }
    // A server's own pages and clients other than browsers need no CORS headers.
    let own = format!("http://127.0.0.1:{}", server.port());
    assert_eq!(preflight(&server, &own, "/api/v1/posts", "POST").await.status, 204);
    let answer = server.http("GET", "/api/v1/timeline", &[], "").await;
    assert_eq!(allowed_origin(&answer), None);
    let answer = server.http("OPTIONS", "/api/v1/posts", &[("origin", APP)], "").await;
    assert_eq!(answer.status, 405, "not a preflight request");
    // Backends do not run in browsers, so the server API sends no CORS headers.
    let headers = [("origin", APP), ("x-api-key", API_KEY)];
    let answer = server.http("POST", "/api/publish", &headers, r#"{"channel":"chat:1","data":1}"#).await;
    assert_eq!(allowed_origin(&answer), None);
    assert_ne!(preflight(&server, APP, "/api/publish", "POST").await.status, 204);
    assert_eq!(allowed_origin(&server.http("GET", "/metrics", &[("origin", APP)], "").await), None);
}

#[tokio::test]
async fn wildcard_origins_call_without_credentials() {
    let server = Server::start_with(&[("server.origins", "*")]).await;
    for origin in [APP, OTHER, "null"] {
        let answer = preflight(&server, origin, "/api/v1/posts", "POST").await;
        assert_eq!((answer.status.as_u16(), allowed_origin(&answer)), (204, Some("*")), "{origin}");
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        let bearer = format!("Bearer {}", token("ann"));
        let headers = [("origin", origin), ("authorization", &*bearer)];
        let answer = server.http("GET", "/api/v1/timeline", &headers, "").await;
        assert_eq!((answer.status.as_u16(), allowed_origin(&answer)), (200, Some("*")), "{origin}");
    }
}

/// Libraries for tracing add headers to every request of a page.
#[tokio::test]
async fn a_preflight_allows_the_headers_that_it_asks_for() {
    let server = Server::start_with(&[("server.origins", APP)]).await;
    for path in ["/api/v1/posts", "/connection/sse", "/connection/http_stream", "/emulation"] {
        for asked in ["traceparent,tracestate,baggage", "sentry-trace, x-anything", "authorization,x-b3-traceid"] {
            let ask = |origin| {
                [
                    ("origin", origin),
                    ("access-control-request-method", "POST"),
                    ("access-control-request-headers", asked),
                ]
            };
            let answer = server.http("OPTIONS", path, &ask(APP), "").await;
            assert_eq!((answer.status.as_u16(), allowed_origin(&answer)), (204, Some(APP)), "{path}");
            let names: Vec<&str> = asked.split(',').map(str::trim).collect();
            lists(&answer, "access-control-allow-headers", &names);
            lists(&answer, "vary", &["access-control-request-headers"]);
            let answer = server.http("OPTIONS", path, &ask(OTHER), "").await;
            assert_eq!((answer.status.as_u16(), answer.header("access-control-allow-headers")), (403, None), "{path}");
        }
        let odd =
            [("origin", APP), ("access-control-request-method", "POST"), ("access-control-request-headers", "a;b")];
        let answer = server.http("OPTIONS", path, &odd, "").await;
        lists(&answer, "access-control-allow-headers", &["authorization", "content-type"]);
    }
}

/// No answer is kept by a cache or taken for a script: all routes, and their errors.
#[tokio::test]
async fn answers_are_not_cached_or_sniffed() {
    let server = Server::start_with(&[("transports.uni_sse", "true"), ("transports.uni_http_stream", "true")]).await;
    let document = server.http("GET", "/api/openapi.json", &[], "").await.body;
    let mut routes: Vec<(String, String)> = Vec::new();
    for (path, verbs) in document["paths"].as_object().unwrap() {
        for verb in verbs.as_object().unwrap().keys() {
            let path = path.replace("{type}", "book").replace(['{', '}'], "");
            routes.push((verb.to_uppercase(), path));
        }
    }
    assert!(routes.len() > 80, "{}", routes.len());
    for path in [
        "/api",
        "/api/batch",
        "/api/events",
        "/api/status",
        "/api/nothing",
        "/api/v1",
        "/api/v1/nothing",
        "/api/openapi.json",
        "/api/asyncapi.json",
        "/emulation",
        "/connection/sse",
        "/connection/http_stream",
        "/connection/uni_sse",
        "/connection/uni_http_stream",
        "/connection/websocket",
        "/connection/nothing",
        "/health",
        "/ready",
        "/metrics",
    ] {
        routes.extend(["GET", "POST", "PUT", "OPTIONS", "HEAD"].map(|method| (method.to_owned(), path.to_owned())));
    }
    let mut statuses = std::collections::BTreeSet::new();
    for (method, path) in &routes {
        for headers in [vec![], vec![("x-api-key", API_KEY), ("x-user", "ann")], vec![("origin", OTHER)]] {
            // Half a command: no stream opens.
            let is_stream = path.starts_with("/connection/") && method == "GET";
            let whole = if is_stream { format!("{path}?cf_connect=%7B") } else { path.clone() };
            let body = if matches!(&**method, "GET" | "HEAD") { "" } else { "{" };
            let answer = Server::request_at(server.port(), method, &whole, &headers, body).await;
            let answer = answer.unwrap_or_else(|| panic!("{method} {path} was not answered"));
            statuses.insert(answer.status.as_u16());
            let cached = answer.header("cache-control").unwrap_or_default();
            assert!(cached.split(',').any(|word| word.trim() == "no-store"), "{method} {path}: {answer:?}");
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{method} {path}: {answer:?}");
        }
    }
    assert!([200, 400, 401, 403, 404, 405].iter().all(|status| statuses.contains(status)), "{statuses:?}");
}

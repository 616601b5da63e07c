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

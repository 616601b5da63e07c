//! The server below a path: the proxy keeps the path, or removes it and names it.

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;

use crate::server::{Server, token};

/// The addresses of the document's files.
fn addresses(document: &str) -> Vec<&str> {
    document
        .split("=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|text| text.starts_with('/'))
        .collect()
}

/// Checks that all addresses of the page at `path` are below `base`, of which the proxy removes `removed`.
async fn check_page(server: &Server, path: &str, headers: &[(&str, &str)], base: &str, removed: &str) {
    let page = server.http("GET", path, headers, "").await;
    assert_eq!(
        (page.status.as_u16(), page.header("vary")),
        (200, Some("accept-encoding, x-forwarded-prefix")),
        "{path}"
    );
    let text = page.body.as_str().expect("a document");
    assert!(text.contains("href=\"#main\""), "{text}");
    let found = addresses(text);
    assert!(found.len() >= 6, "{found:?}");
    for address in found {
        let rest = address.strip_prefix(base).unwrap_or_default();
        assert!(rest.starts_with('/') && !rest.starts_with("//"), "{address} is below {base:?}");
        let file = server.http("GET", address.strip_prefix(removed).unwrap_or_default(), headers, "").await;
        assert_eq!(file.status, 200, "{address}");
    }
}

async fn opens_socket(server: &Server, path: &str) -> bool {
    let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let url = format!("ws://127.0.0.1:{}{path}", server.port());
    client_async(url, stream).await.is_ok()
}

#[tokio::test]
async fn a_configured_path_may_be_kept_or_removed() {
    let server = Server::start_with(&[("server.base_path", "/my/feed/")]).await;
    for path in ["/", "/post/17", "/index.html", "/settings/push"] {
        check_page(&server, path, &[], "/my/feed", "/my/feed").await;
        check_page(&server, &format!("/my/feed{path}"), &[], "/my/feed", "").await;
    }
    let folder = server.http("GET", "/my/feed?x=1", &[], "").await;
    assert_eq!((folder.status.as_u16(), folder.header("location")), (308, Some("/my/feed/?x=1")));
    let token = format!("Bearer {}", token("ann"));
    for base in ["", "/my/feed"] {
        let path = format!("{base}/api/v1/posts");
        let made =
            server.http("POST", &path, &[("authorization", &token)], &json!({ "text": "here" }).to_string()).await;
        assert_eq!(made.status, 201, "{path}: {made:?}");
        assert!(made.header("x-request-id").is_some());
        let path = format!("{base}/api/v1/posts/{}", made.body["id"]);
        assert_eq!(server.http("GET", &path, &[("authorization", &token)], "").await.body["text"], "here");
        assert!(opens_socket(&server, &format!("{base}/connection/websocket")).await, "{base}");
        assert_eq!(server.http("GET", &format!("{base}/ready"), &[], "").await.status, 200);
        let openapi = server.http("GET", &format!("{base}/api/openapi.json"), &[], "").await.body;
        assert_eq!(openapi["servers"][0]["url"], "/my/feed/");
        let asyncapi = server.http("GET", &format!("{base}/api/asyncapi.json"), &[], "").await.body;
        assert_eq!(asyncapi["servers"]["websocket"]["pathname"], "/my/feed/connection/websocket");
    }
    for path in ["/my/feeds/", "/my", "/feed/", "/my/feed/my/feed/"] {
        assert_eq!(server.http("GET", path, &[], "").await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_path_may_have_the_name_of_a_folder_of_the_page() {
    let server = Server::start_with(&[("server.base_path", "/feedline")]).await;
    let module = server.http("GET", "/feedline/feedline/index.js", &[], "").await;
    assert_eq!(module.status, 200, "kept");
    assert_eq!(server.http("GET", "/feedline/index.js", &[], "").await.body, module.body, "removed");
    check_page(&server, "/feedline/", &[], "/feedline", "").await;
    check_page(&server, "/", &[], "/feedline", "/feedline").await;
    let server = Server::start_with(&[("server.base_path", "/views")]).await;
    check_page(&server, "/views/", &[], "/views", "").await;
    check_page(&server, "/", &[], "/views", "/views").await;
}

#[tokio::test]
async fn a_trusted_proxy_names_the_path_that_it_removes() {
    let server = Server::start_with(&[("server.trusted_proxies", "127.0.0.1"), ("server.base_path", "/feed")]).await;
    check_page(&server, "/user/ann", &[("x-forwarded-prefix", "/a/b")], "/a/b", "/a/b").await;
    check_page(&server, "/", &[("x-forwarded-prefix", "/a/b/")], "/a/b", "/a/b").await;
    check_page(&server, "/", &[("x-forwarded-prefix", "/")], "", "").await;
    let openapi = server.http("GET", "/api/openapi.json", &[("x-forwarded-prefix", "/other")], "").await.body;
    assert_eq!(openapi["servers"][0]["url"], "/other/");
    let long = format!("/{}", "a".repeat(200));
    for hostile in [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "evil",
        "/..",
        "/a/../b",
        "/a//b",
        "/a\"><script src=//evil.example>",
        "/a'b",
        "/a b",
        "/%2f%2fevil.example",
        "/a, /b",
        "/a?b",
        "/a#b",
        &long,
    ] {
        check_page(&server, "/", &[("x-forwarded-prefix", hostile)], "/feed", "/feed").await;
    }
    check_page(&server, "/", &[("x-forwarded-prefix", "/a"), ("x-forwarded-prefix", "/b")], "/feed", "/feed").await;
}

#[tokio::test]
async fn others_name_no_path() {
    let server = Server::start_with(&[("server.trusted_proxies", "10.0.0.0/8")]).await;
    check_page(&server, "/", &[("x-forwarded-prefix", "/evil")], "", "").await;
    let openapi = server.http("GET", "/api/openapi.json", &[("x-forwarded-prefix", "/evil")], "").await.body;
    assert_eq!(openapi["servers"][0]["url"], "/");
}

#[tokio::test]
async fn media_never_point_to_the_own_api_below_the_path() {
    let server = Server::start_with(&[("server.trusted_proxies", "127.0.0.1"), ("server.base_path", "/feed")]).await;
    let create = async |url: &str| {
        let media: Value = json!({ "media": [{ "type": "image", "url": url }] });
        server.call("ann", "POST", "/posts", &media).await.status.as_u16()
    };
    assert_eq!(create("/learned/api/v1/posts").await, 201, "nobody has named this path yet");
    assert_eq!(server.http("GET", "/ready", &[("x-forwarded-prefix", "/learned")], "").await.status, 200);
    for url in
        ["/feed/api/v1/posts", "/x/../feed/connection/sse", "http://localhost/feed/emulation", "/learned/api/v1/posts"]
    {
        assert_eq!(create(url).await, 400, "{url}");
    }
    assert_eq!(create("/feed/demo/1.svg").await, 201);
}

//! Media and avatars do not point to the server's own API: browsers that show them would send requests to it.

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::{API_KEY, Server};

#[tokio::test]
async fn media_and_avatars_never_point_to_the_own_api() {
    let server = Server::start_with(&[("server.origins", "https://app.example.org")]).await;
    let port = server.port();
    // Clients reach the server under this name, whatever its configuration says.
    let known = server.http("GET", "/health", &[("host", "feed.example.net")], "").await;
    assert_eq!(known.status, 200);
    let own = [
        "/api/v1/posts".to_owned(),
        "/connection/sse?cf_connect=%7B%7D".to_owned(),
        "/emulation".to_owned(),
        "/x/../api/v1".to_owned(),
        "/%2e%2e/api".to_owned(),
        "/%61pi/v1".to_owned(),
        "/a/%2e%2e%2fapi".to_owned(),
        format!("http://127.0.0.1:{port}/api/v1"),
        format!("http://localhost:{port}/api"),
        format!("http://user@127.0.0.1:{port}/api"),
        format!("https://cdn.example@localhost:{port}/x/../api"),
        format!("http://2130706433:{port}/connection/uni_sse"),
        "https://app.example.org/api/v1".to_owned(),
        "https://feed.example.net/api/v1".to_owned(),
        "https://FEED.example.net.:443/%41PI".to_owned(),
        format!("//127.0.0.1:{port}/api"),
        "/\\api".to_owned(),
    ];
    let other = ["/demo/1.jpg", "https://cdn.example/api/v1/1.jpg", "https://feed.example.net/pictures/1.jpg"];
    let post = server.post("ann", "a post").await;
    let mut ann = Client::connect(&server, "ann").await;
    let cases = own.iter().map(|url| (url.as_str(), 400)).chain(other.map(|url| (url, 200)));
    for (url, expected) in cases {
        let media = json!([{ "type": "image", "url": url }]);
        let card = json!({ "link": { "url": "https://example.org/", "title": "a", "image": url } });
        for (method, input) in [
            ("posts.create", json!({ "text": "x", "media": media })),
            ("posts.edit", json!({ "id": post, "media": media })),
            ("posts.create", json!({ "text": "x", "data": card })),
            ("posts.edit", json!({ "id": post, "data": card })),
            ("users.update", json!({ "avatar": url })),
        ] {
            // To browsers this is the host `api`. As a medium it is no address at all.
            if url == "/\\api" && input["data"].is_object() {
                continue;
            }
            let reply = ann.call(json!({ "rpc": { "method": method, "data": input } })).await;
            assert_eq!(reply["error"]["code"].as_u64().unwrap_or(200), expected, "{method} {url}: {reply}");
        }
        for (method, path, body) in [
            ("POST", "/posts".to_owned(), json!({ "media": media })),
            ("PATCH", format!("/posts/{post}"), json!({ "media": media })),
            ("PATCH", "/users/me".to_owned(), json!({ "avatar": url })),
        ] {
            let headers = [("x-api-key", API_KEY), ("x-user", "ann")];
            let answer = server.http(method, &format!("/api/v1{path}"), &headers, &body.to_string()).await;
            assert_eq!(answer.status.as_u16() == 400, expected == 400, "{method} {path} {url}: {}", answer.body);
        }
    }
    let cleared = server.done("ann", "PATCH", &format!("/posts/{post}"), &json!({ "media": [] })).await;
    assert_eq!(cleared.get("media"), None::<&Value>);
}

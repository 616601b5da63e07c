//! SIGHUP: what a running server takes from a changed `config.toml`, while sockets stay open.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::client::Client;
use crate::issuer_keys::{Endpoint, Key};
use crate::push_receiver::Receiver;
use crate::server::{Server, unix};
use crate::tokens::connect;

const OLD: &str = "the former secret of tokens, long enough";
const NEW: &str = "the present secret of tokens, long enough";
const OLD_API_KEY: &str = "the former key of the backend";
const NEW_API_KEY: &str = "the present key of the backend";
const RELOADED: &str = "reloaded the configuration";

fn token_by(secret: &str, user: &str) -> String {
    let claims = json!({ "sub": user, "exp": unix() + 600 });
    encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(secret.as_bytes())).expect("a token")
}

async fn with_token(server: &Server, token: &str, method: &str, path: &str, body: &Value) -> u16 {
    let authorization = format!("Bearer {token}");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    server.http(method, &format!("/api/v1{path}"), &[("authorization", &authorization)], &body).await.status.as_u16()
}

async fn with_key(server: &Server, key: &str) -> u16 {
    server.http("POST", "/api/info", &[("x-api-key", key)], "{}").await.status.as_u16()
}

/// Whether pages of this origin may call the API.
async fn admits(server: &Server, origin: &str) -> bool {
    server.http("GET", "/api/v1/timeline", &[("origin", origin)], "").await.status.as_u16() != 403
}

fn auth(secret: &str, previous: &str, api_key: &str, more: &str) -> String {
    let secrets = format!("hmac_secret = \"{secret}\"\nhmac_secret_previous = \"{previous}\"");
    format!("[auth]\n{secrets}\napi_keys = [\"{api_key}\"]\n{more}\n")
}

#[tokio::test]
async fn secrets_and_api_keys_are_rotated_with_an_overlap() {
    let server = Server::start_from_file(&auth(OLD, "", OLD_API_KEY, "")).await;
    let mut open = Client::open(&server).await;
    open.done(json!({ "connect": { "token": token_by(OLD, "ann") } })).await;
    assert_eq!((with_key(&server, OLD_API_KEY).await, with_key(&server, NEW_API_KEY).await), (200, 401));
    assert_eq!(connect(&server, &token_by(NEW, "ann")).await, 3500);

    server.reload(&auth(NEW, OLD, NEW_API_KEY, ""));
    server.until_logged(RELOADED, 1).await;
    assert!(server.log().contains("auth.hmac_secret,auth.hmac_secret_previous,auth.api_keys"), "{}", server.log());
    for secret in [OLD, NEW] {
        assert_eq!(connect(&server, &token_by(secret, "ann")).await, 0);
        assert_eq!(with_token(&server, &token_by(secret, "ann"), "GET", "/timeline", &Value::Null).await, 200);
    }
    assert_eq!((with_key(&server, OLD_API_KEY).await, with_key(&server, NEW_API_KEY).await), (401, 200));

    server.reload(&auth(NEW, "", NEW_API_KEY, ""));
    server.until_logged(RELOADED, 2).await;
    assert_eq!(connect(&server, &token_by(OLD, "ann")).await, 3500, "the overlap has ended");
    open.rpc("timeline.read", &json!({})).await;
    assert!(!server.log().contains(NEW) && !server.log().contains(NEW_API_KEY));
}

#[tokio::test]
async fn origins_and_rates_are_replaced() {
    let file = |origins: &str, rates: &str| {
        format!("[server]\norigins = [{origins}]\n{}[rates]\n{rates}\n", auth(OLD, "", OLD_API_KEY, ""))
    };
    let server = Server::start_from_file(&file("\"https://a.example\"", "posts = 100\ncomments = 1")).await;
    let (a, b) = ("https://a.example", "https://b.example");
    assert_eq!((admits(&server, a).await, admits(&server, b).await), (true, false));
    let ann = token_by(OLD, "ann");
    let post = async || with_token(&server, &ann, "POST", "/posts", &json!({ "text": "a post" })).await;
    let authorization = format!("Bearer {ann}");
    let written =
        server.http("POST", "/api/v1/posts", &[("authorization", &authorization)], "{\"text\":\"a post\"}").await;
    let path = format!("/posts/{}/comments", written.body["id"]);
    let comment = async || with_token(&server, &ann, "POST", &path, &json!({ "text": "a comment" })).await;
    while comment().await == 201 {}

    // A burst of posts is twice the rate, and the broker still counts the first one.
    server.reload(&file("\"https://b.example\"", "posts = 1\ncomments = 1"));
    server.until_logged(RELOADED, 1).await;
    assert_eq!((admits(&server, a).await, admits(&server, b).await), (false, true));
    assert_eq!((post().await, post().await), (201, 429));
    assert_eq!(comment().await, 429, "its bucket was kept");

    server.reload(&file("", "posts = 0\ncomments = 0"));
    server.until_logged(RELOADED, 2).await;
    assert_eq!((post().await, post().await, comment().await), (201, 201, 201));
}

#[tokio::test]
async fn keys_of_other_issuers_are_fetched() {
    let (first, second) = (Key::new("1"), Key::new("2"));
    let (one, two) = (Endpoint::start(&[&first]).await, Endpoint::start(&[&second]).await);
    let file = |url: &str| format!("[auth]\napi_keys = [\"{OLD_API_KEY}\"]\njwks_url = \"{url}\"\n");
    let server = Server::start_from_file(&file(&one.url)).await;
    assert_eq!(connect(&server, &first.token("ann")).await, 0);
    let asked = one.asked();
    // Another key changes, and the fetched ones stay.
    server.reload(&(file(&one.url) + "audience = \"feed\"\n"));
    server.until_logged(RELOADED, 1).await;
    assert_eq!(connect(&server, &first.token("ann")).await, 3500, "it is for no audience");
    assert_eq!(one.asked(), asked);
    server.reload(&file(&two.url));
    server.until_logged(RELOADED, 2).await;
    assert_eq!(connect(&server, &second.token("ann")).await, 0);
    assert_eq!(connect(&server, &first.token("ann")).await, 3500, "its issuer is no longer trusted");
}

#[tokio::test]
async fn credentials_and_texts_of_pushes_are_replaced() {
    let receiver = Receiver::start(&[]).await;
    let file = |secret: &str, name: &str| {
        let push = "[push]\nenabled = true\ngrace = \"0s\"\nallow_networks = [\"127.0.0.0/8\"]";
        let texts = format!("[push.texts.en.mention]\ntitle = \"{name}\"\nbody = \"{{text}}\"");
        format!("{}{push}\nwebhook_secrets = [\"{secret}\"]\n{texts}\n", auth(OLD, "", OLD_API_KEY, ""))
    };
    let server = Server::start_from_file(&file("a secret of webhooks that is long enough", "before")).await;
    let device = json!({ "platform": "webhook", "endpoint": receiver.url }).to_string();
    let backend = [("x-api-key", OLD_API_KEY), ("x-user", "ann")];
    assert_eq!(server.http("PUT", "/api/v1/devices/hook", &backend, &device).await.status.as_u16(), 200);
    let mention =
        async || with_token(&server, &token_by(OLD, "bo"), "POST", "/posts", &json!({ "text": "@ann" })).await;
    assert_eq!(mention().await, 201);
    assert_eq!(receiver.wait_for(1).await[0]["title"], "before");

    server.reload(&file("short", "after"));
    server.until_logged("the configuration was not reloaded", 1).await;
    server.reload(&file("another secret of webhooks, long enough", "after"));
    server.until_logged(RELOADED, 1).await;
    assert_eq!(mention().await, 201);
    assert_eq!(receiver.wait_for(2).await[1]["title"], "after");
}

#[tokio::test]
async fn what_needs_a_restart_is_named_and_a_mistake_changes_nothing() {
    let server = Server::start_from_file(&auth(OLD, "", OLD_API_KEY, "")).await;
    for mistake in ["[server]\nlog_levle = \"debug\"\n", "[auth\n", "[auth]\nhmac_secret = \"short\"\n"] {
        let failed = server.log().matches("the configuration was not reloaded").count();
        server.reload(mistake);
        server.until_logged("the configuration was not reloaded", failed + 1).await;
        assert_eq!(connect(&server, &token_by(OLD, "ann")).await, 0);
    }
    let more = "anonymous = true\n[limits]\ntext = 77\n[broker]\nprefix = \"other\"";
    server.reload(&auth(NEW, "", OLD_API_KEY, more));
    server.until_logged("other changes of the configuration need a restart", 1).await;
    assert!(server.log().contains("broker.prefix,auth.anonymous,limits.text"), "{}", server.log());
    assert_eq!(connect(&server, &token_by(NEW, "ann")).await, 0, "the rest is taken");
    assert_eq!(connect(&server, "").await, 3501, "nobody may connect without a token");
}

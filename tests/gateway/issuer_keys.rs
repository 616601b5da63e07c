//! Keys of issuers (JWKS): an HTTP server that rotates keys, is slow, is huge, or answers nonsense.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::client::Client;
use crate::server::{PATIENCE, Server, token, unix};
use crate::tokens::connect;

/// A key of an issuer.
pub(crate) struct Key {
    kid: &'static str,
    pkcs8: Vec<u8>,
}

impl Key {
    pub(crate) fn new(kid: &'static str) -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        Self { kid, pkcs8: pkcs8.as_ref().to_vec() }
    }

    fn public(&self) -> Value {
        let pair = Ed25519KeyPair::from_pkcs8(&self.pkcs8).expect("a key");
        let x = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
        json!({ "kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": self.kid, "x": x })
    }

    fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.kid.to_owned()), ..Header::new(Algorithm::EdDSA) };
        encode(&header, claims, &EncodingKey::from_ed_der(&self.pkcs8)).expect("a token")
    }

    pub(crate) fn token(&self, user: &str) -> String {
        self.sign(&json!({ "sub": user, "exp": unix() + 600 }))
    }
}

/// The endpoint of an issuer. It counts the requests.
pub(crate) struct Endpoint {
    pub(crate) url: String,
    /// Status, body, and whether it answers at all.
    answer: Arc<Mutex<(u16, String, bool)>>,
    asked: Arc<AtomicUsize>,
}

impl Endpoint {
    pub(crate) async fn start(keys: &[&Key]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/keys", listener.local_addr().expect("an address"));
        let endpoint = Self { url, answer: Arc::new(Mutex::new((200, String::new(), true))), asked: Arc::default() };
        endpoint.publish(keys);
        let (answer, asked) = (Arc::clone(&endpoint.answer), Arc::clone(&endpoint.asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, asked) = (Arc::clone(&answer), Arc::clone(&asked));
                let service = service_fn(move |_: Request<Incoming>| {
                    asked.fetch_add(1, Ordering::Relaxed);
                    let (status, body, answers) = answer.lock().clone();
                    async move {
                        if !answers {
                            std::future::pending::<()>().await;
                        }
                        let response = Response::builder().status(status).body(Full::new(Bytes::from(body)));
                        Ok::<_, Infallible>(response.expect("a response"))
                    }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
            }
        });
        endpoint
    }

    fn publish(&self, keys: &[&Key]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.public()).collect();
        self.set(200, json!({ "keys": keys }).to_string(), true);
    }

    fn set(&self, status: u16, body: String, answers: bool) {
        *self.answer.lock() = (status, body, answers);
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

async fn http(server: &Server, token: &str) -> u16 {
    let header = format!("Bearer {token}");
    server.http("GET", "/api/v1/timeline", &[("authorization", &header)], "").await.status.as_u16()
}

#[tokio::test]
async fn keys_are_fetched_and_rotated_without_a_failed_connect() {
    let (first, second, unknown) = (Key::new("1"), Key::new("2"), Key::new("3"));
    let endpoint = Endpoint::start(&[&first]).await;
    let server = Server::start_with(&[("auth.jwks_url", &endpoint.url), ("auth.require_exp", "true")]).await;
    assert_eq!(connect(&server, &first.token("ann")).await, 0);
    assert_eq!(http(&server, &first.token("ann")).await, 200);
    let mut ann = Client::open(&server).await;
    ann.done(json!({ "connect": { "token": first.token("ann") } })).await;
    // The issuer signs with a new key from now on.
    endpoint.publish(&[&second]);
    assert_eq!(connect(&server, &second.token("bo")).await, 0, "the client waits for the key");
    assert_eq!(http(&server, &second.token("bo")).await, 200);
    let refreshed = ann.done(json!({ "refresh": { "token": second.token("ann") } })).await;
    assert_eq!(refreshed["refresh"]["expires"], true);
    assert_eq!(connect(&server, &first.token("ann")).await, 3500, "the old key is withdrawn");
    assert_eq!(connect(&server, &unknown.token("ann")).await, 3500);
    assert_eq!(http(&server, &unknown.token("ann")).await, 401);
    // The same id with another key.
    assert_eq!(connect(&server, &Key::new("2").token("ann")).await, 3500);
}

#[tokio::test]
async fn unknown_keys_are_fetched_every_few_seconds_at_most_and_block_nobody() {
    let known = Key::new("1");
    let endpoint = Endpoint::start(&[&known]).await;
    let server = Server::start_with(&[("auth.jwks_url", &endpoint.url)]).await;
    assert_eq!(connect(&server, &known.token("ann")).await, 0);
    let started = Instant::now();
    let flood = async {
        let tokens: Vec<String> = (0..60).map(|_| Key::new("unknown").token("eve")).collect();
        futures::future::join_all(tokens.iter().map(|token| connect(&server, token))).await
    };
    let others = async {
        for _ in 0..20 {
            let before = Instant::now();
            assert_eq!(connect(&server, &known.token("bo")).await, 0);
            assert!(before.elapsed() < Duration::from_secs(1), "a client with a known key waited");
        }
    };
    let (refused, ()) = tokio::join!(flood, others);
    assert!(refused.iter().all(|code| *code == 3500), "{refused:?}");
    let possible = 2 + started.elapsed().as_secs() / 2;
    assert!(endpoint.asked() as u64 <= possible, "{} requests, {possible} possible", endpoint.asked());
}

#[tokio::test]
async fn an_endpoint_that_fails_delays_only_new_keys() {
    let (first, second) = (Key::new("1"), Key::new("2"));
    let endpoint = Endpoint::start(&[&first]).await;
    let server = Server::start_with(&[("auth.jwks_url", &endpoint.url)]).await;
    assert_eq!(connect(&server, &first.token("ann")).await, 0);
    let huge = format!(r#"{{"keys":[],"padding":"{}"}}"#, "x".repeat(300_000));
    for (status, body, answers) in [(500, String::new(), true), (200, huge, true), (200, String::new(), false)] {
        endpoint.set(status, body, answers);
        // A token of a key that cannot be fetched may be valid: the error is temporary, so that SDKs try again.
        assert_eq!(connect(&server, &second.token("ann")).await, 100);
        assert_eq!(connect(&server, &first.token("ann")).await, 0, "the known key stays");
        assert_eq!(connect(&server, &token("ann")).await, 0, "the secret needs no endpoint");
    }
    assert_eq!(http(&server, &second.token("ann")).await, 503);
    endpoint.publish(&[&first, &second]);
    let until = Instant::now() + 3 * PATIENCE;
    while connect(&server, &second.token("ann")).await != 0 {
        assert!(Instant::now() < until, "the endpoint works again");
    }
}

#[tokio::test]
async fn a_key_of_one_issuer_does_not_verify_tokens_of_another() {
    let (a, b) = (Key::new("1"), Key::new("1"));
    let (of_a, of_b) = (Endpoint::start(&[&a]).await, Endpoint::start(&[&b]).await);
    let issuers =
        json!([{ "issuer": "a", "jwks_url": of_a.url }, { "issuer": "b", "jwks_url": of_b.url, "audience": "feed" }]);
    let server = Server::start_with(&[("auth.issuers", &issuers.to_string())]).await;
    let claims = |issuer: &str| json!({ "sub": "ann", "iss": issuer, "aud": "feed" });
    assert_eq!(connect(&server, &a.sign(&claims("a"))).await, 0);
    assert_eq!(connect(&server, &b.sign(&claims("b"))).await, 0);
    assert_eq!(connect(&server, &a.sign(&claims("b"))).await, 3500);
    assert_eq!(connect(&server, &b.sign(&claims("a"))).await, 3500);
    assert_eq!(connect(&server, &b.sign(&json!({ "sub": "ann", "iss": "b" }))).await, 3500, "another audience");
    assert_eq!(connect(&server, &a.sign(&json!({ "sub": "ann" }))).await, 3500, "no issuer");
    assert_eq!(connect(&server, &a.sign(&json!({ "sub": "ann", "iss": "c" }))).await, 3500, "an unknown issuer");
}

/// All projects of Firebase share keys, and so do all tenants of Entra: `iss` and `aud` distinguish them.
#[tokio::test]
async fn issuers_that_share_keys_are_selected_by_their_name() {
    let key = Key::new("1");
    let endpoint = Endpoint::start(&[&key]).await;
    let issuer = |name: &str| json!({ "issuer": name, "jwks_url": endpoint.url, "audience": format!("app-{name}") });
    let issuers = json!([issuer("a"), issuer("b"), issuer("c")]).to_string();
    let claims = |issuer: &str, app: &str| key.sign(&json!({ "sub": "ann", "iss": issuer, "aud": app }));
    // Beside the keys of `[auth]`, which are those of any other issuer, or the same once more.
    for keys in [vec![], vec![("auth.jwks_url", endpoint.url.as_str()), ("auth.issuer", "main")]] {
        let has_main = !keys.is_empty();
        let keys: Vec<_> = keys.into_iter().chain([("auth.issuers", issuers.as_str())]).collect();
        let server = Server::start_with(&keys).await;
        for name in ["a", "b", "c"] {
            assert_eq!(connect(&server, &claims(name, &format!("app-{name}"))).await, 0, "{name}");
        }
        for (name, app) in [("a", "app-b"), ("c", "app-a"), ("c", "app"), ("d", "app-a"), ("", "app-a")] {
            assert_eq!(connect(&server, &claims(name, app)).await, 3500, "{name} {app}");
        }
        let main = connect(&server, &claims("main", "anything")).await;
        assert_eq!(main, if has_main { 0 } else { 3500 });
        assert_eq!(http(&server, &claims("b", "app-b")).await, 200);
    }
}

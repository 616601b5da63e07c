//! Identities: an id belongs to an account or to the application, never to both.

use serde_json::{Value, json};

use crate::client::{Client, Heard};
use crate::server::{API_KEY, Answer, Server, signed, token, unix};

/// Signs up; returns the reply.
pub(crate) async fn sign_up(server: &Server, user: &str) -> Answer {
    let account = json!({ "user": user, "password": "correct horse" }).to_string();
    server.http("POST", "/api/v1/accounts", &[], &account).await
}

/// Signs in; returns the token.
pub(crate) async fn sign_in(server: &Server, user: &str, password: &str) -> String {
    let account = json!({ "user": user, "password": password }).to_string();
    let answer = server.http("POST", "/api/v1/sessions", &[], &account).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.body["token"].as_str().expect("a token").to_owned()
}

/// Signs up a new user; returns their token.
pub(crate) async fn account(server: &Server, user: &str) -> String {
    let answer = sign_up(server, user).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.body["token"].as_str().expect("a token").to_owned()
}

/// Sends a request with a token.
pub(crate) async fn with_token(server: &Server, token: &str, method: &str, path: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let bearer = format!("Bearer {token}");
    server.http(method, &format!("/api/v1{path}"), &[("authorization", &bearer)], &body).await
}

/// The status of a read with a token.
pub(crate) async fn status(server: &Server, token: &str) -> u16 {
    with_token(server, token, "GET", "/timeline", &Value::Null).await.status.as_u16()
}

/// The outcome of a connect with this token: 0, an error code, or a close code with its reason.
pub(crate) async fn connects(server: &Server, token: &str) -> (u64, String) {
    let mut client = Client::open(server).await;
    client.command(json!({ "connect": { "token": token } })).await;
    match client.hear().await {
        Heard::Reply(reply) => (reply["error"]["code"].as_u64().unwrap_or(0), String::new()),
        Heard::Closed(code, reason) => (code.into(), reason),
        other => panic!("{other:?}"),
    }
}

/// A socket connected with this token.
pub(crate) async fn socket(server: &Server, token: &str) -> Client {
    let mut client = Client::open(server).await;
    client.done(json!({ "connect": { "token": token } })).await;
    client
}

async fn as_backend(server: &Server, user: &str, origin: &str) -> Answer {
    let headers = [("x-api-key", API_KEY), ("x-user", user), ("x-user-origin", origin)];
    server.http("GET", "/api/v1/timeline", &headers, "").await
}

fn says(answer: &Answer, status: u16, word: &str) {
    let message = answer.body["error"]["message"].as_str().unwrap_or_default();
    assert!(answer.status == status && message.contains(word), "{status} with {word:?} expected: {answer:?}");
}

#[tokio::test]
async fn user_ids_of_the_application_cannot_be_signed_up() {
    let server = Server::start().await;
    // Any first authenticated request creates the user, including reads.
    assert_eq!(server.call("by-read", "GET", "/timeline", &Value::Null).await.status, 200);
    drop(Client::connect(&server, "by-socket").await);
    let headers = [("x-api-key", API_KEY), ("x-user", "by-backend")];
    assert_eq!(server.http("GET", "/api/v1/topics", &headers, "").await.status, 200);
    for user in ["by-read", "by-socket", "by-backend"] {
        says(&sign_up(&server, user).await, 409, "application");
        assert_eq!(status(&server, &token(user)).await, 200, "{user} is who they were");
    }
}

#[tokio::test]
async fn application_tokens_cannot_act_for_accounts() {
    let server = Server::start().await;
    let session = account(&server, "ann").await;
    assert_eq!(status(&server, &session).await, 200);
    assert_eq!(connects(&server, &session).await.0, 0);

    let read = with_token(&server, &token("ann"), "GET", "/timeline", &Value::Null).await;
    says(&read, 403, "account with a password");
    let (code, reason) = connects(&server, &token("ann")).await;
    assert!(code == 3500 && reason.contains("account with a password"), "{code} {reason}");
    says(&as_backend(&server, "ann", "application").await, 403, "X-User-Origin");
    let headers = [("x-api-key", API_KEY), ("x-user", "ann")];
    says(&server.http("GET", "/api/v1/timeline", &headers, "").await, 403, "X-User-Origin");

    // A backend that explicitly addresses accounts.
    assert_eq!(as_backend(&server, "ann", "account").await.status, 200);
    says(&as_backend(&server, "nobody", "account").await, 403, "no account");
    server.done("bo", "GET", "/timeline", &Value::Null).await;
    says(&as_backend(&server, "bo", "account").await, 403, "no account");
    says(&as_backend(&server, "bo", "whatever").await, 400, "X-User-Origin");
    says(&sign_up(&server, "nobody").await, 201, "");
}

#[tokio::test]
async fn sessions_of_missing_accounts_create_no_user() {
    let mut server = Server::start().await;
    let session = account(&server, "ann").await;
    server.kill();
    server.lose_data();
    server.start_again().await;
    // The same secrets with another ledger.
    assert_eq!(status(&server, &session).await, 403);
    assert_eq!(connects(&server, &session).await.0, 3500);
    assert_eq!(sign_up(&server, "ann").await.status, 201, "it is still free");
}

#[tokio::test]
async fn accounts_are_disabled_when_an_application_key_is_configured() {
    let server = Server::start_with(&[("accounts.enabled", "auto")]).await;
    says(&sign_up(&server, "ann").await, 403, "not enabled");
    let who = json!({ "user": "ann", "password": "correct horse" }).to_string();
    says(&server.http("POST", "/api/v1/sessions", &[], &who).await, 403, "not enabled");
    let headers = [("x-api-key", API_KEY), ("x-user", "ann")];
    let body = json!({ "old": "correct horse", "new": "battery staple" }).to_string();
    says(&server.http("PUT", "/api/v1/accounts/password", &headers, &body).await, 403, "not enabled");
    assert!(!server.log().contains("accounts are enabled beside"));

    let both = Server::start().await;
    assert!(both.log().contains("accounts are enabled beside a key"), "{}", both.log());
}

#[tokio::test]
async fn tokens_without_exp_are_rejected_by_default() {
    let server = Server::start_with(&[("auth.require_exp", "true"), ("auth.leeway", "60s")]).await;
    let read = with_token(&server, &token("ann"), "GET", "/timeline", &Value::Null).await;
    says(&read, 401, "no exp");
    let (code, reason) = connects(&server, &token("ann")).await;
    assert!(code == 3500 && reason.contains("no exp"), "{code} {reason}");
    for (exp, expected) in [(unix() + 60, 200), (unix() - 30, 200), (unix() - 90, 401)] {
        let token = signed(&json!({ "sub": "ann", "exp": exp }));
        assert_eq!(status(&server, &token).await, expected, "{exp}");
        assert_eq!(connects(&server, &token).await.0, if expected == 200 { 0 } else { 109 }, "{exp}");
    }
}

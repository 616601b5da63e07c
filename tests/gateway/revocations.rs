//! Revocation of connections, tokens and sessions; blocked users.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, Heard};
use crate::identity::{account, connects, sign_in, socket, status, with_token};
use crate::redis_server::RedisServer;
use crate::server::{API_KEY, PATIENCE, Server, signed, token, unix};

/// The time limit for every revocation to take effect.
const SOON: Duration = Duration::from_secs(1);

/// Runs a case with the broker in memory and with Redis.
macro_rules! on_both_brokers {
    ($($case:ident)*) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $case() {
                super::$case(&crate::server::Server::start().await).await;
            })*
        }
        mod with_redis {
            $(#[tokio::test]
            async fn $case() {
                let redis = super::RedisServer::start();
                let server = crate::server::Server::start_with(&[("broker.url", &redis.url())]).await;
                super::$case(&server).await;
            })*
        }
    };
}

on_both_brokers! {
    backends_disconnect_clients
    tokens_are_revoked_by_id
    all_tokens_of_a_user_are_invalidated
    invalidations_are_taken_back
    times_that_are_not_in_seconds_are_refused
    users_are_blocked_and_unblocked
    sessions_end_one_or_all
    new_passwords_end_all_other_sessions
    password_changes_restore_no_session
}

async fn invalidations_are_taken_back(server: &Server) {
    let (old, without_iat) = (issued("ann", "old", unix() - 100), token("ann"));
    assert_eq!([status(server, &old).await, status(server, &without_iat).await], [200, 200]);
    backend(server, "invalidate_user_tokens", json!({ "user": "ann", "issued_before": unix() - 50 })).await;
    assert_eq!([status(server, &old).await, status(server, &without_iat).await], [401, 401]);
    backend(server, "invalidate_user_tokens", json!({ "user": "ann", "issued_before": 0 })).await;
    assert_eq!([status(server, &old).await, status(server, &without_iat).await], [200, 200]);
    stays(&mut socket(server, &old).await).await;
}

/// Milliseconds for seconds would lock a user out, or keep a block, for 50,000 years.
async fn times_that_are_not_in_seconds_are_refused(server: &Server) {
    let now = unix();
    let ann = issued("ann", "one", now - 100);
    let far = [now * 1_000, 253_402_300_800, u64::MAX];
    for (method, rest, member) in [
        ("invalidate_user_tokens", json!({ "user": "ann" }), "issued_before"),
        ("block_user", json!({ "user": "ann" }), "expire_at"),
        ("revoke_token", json!({ "uid": "one" }), "expire_at"),
        ("subscribe", json!({ "user": "ann", "channel": "topic:a" }), "expire_at"),
        ("refresh", json!({ "user": "ann" }), "expire_at"),
    ] {
        for at in far {
            let mut body = rest.clone();
            body[member] = at.into();
            assert_eq!(server.backend(method, &body).await["error"]["code"], 107, "{method} {body}");
        }
    }
    // More than `auth.leeway` ahead, a time is a mistake of another kind.
    let ahead = json!({ "user": "ann", "issued_before": now + 120 });
    assert_eq!(server.backend("invalidate_user_tokens", &ahead).await["error"]["code"], 107);
    assert_eq!(status(server, &ann).await, 200, "nothing of this took effect");
}

/// Waits until the server closes a socket within the time limit; returns the code and the reason.
async fn closed_soon(client: &mut Client) -> (u16, String) {
    let begun = Instant::now();
    let closed = client.closed().await;
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
    closed
}

/// Checks that a socket stays open.
async fn stays(client: &mut Client) {
    let heard = client.push_within(Duration::from_millis(300)).await;
    assert!(matches!(heard, None | Some(Heard::Ping)), "{heard:?}");
    client.rpc("timeline.read", &json!({})).await;
}

/// Calls a method of the server API, which must succeed.
async fn backend(server: &Server, method: &str, body: Value) {
    assert_eq!(server.backend(method, &body).await, json!({ "result": {} }), "{method} {body}");
}

fn issued(user: &str, id: &str, at: u64) -> String {
    signed(&json!({ "sub": user, "jti": id, "iat": at, "exp": unix() + 600 }))
}

async fn client_id(client: &mut Client, token: &str) -> String {
    let reply = client.done(json!({ "connect": { "token": token } })).await;
    reply["connect"]["client"].as_str().expect("a client").to_owned()
}

async fn backends_disconnect_clients(server: &Server) {
    let tokens = ["1", "2", "3", "4"].map(|id| issued("ann", id, unix()));
    let mut clients = Vec::new();
    for token in &tokens {
        let mut client = Client::open(server).await;
        let id = client_id(&mut client, token).await;
        clients.push((client, id));
    }
    let mut bo = Client::connect(server, "bo").await;
    let third = clients[2].1.clone();
    backend(server, "disconnect", json!({ "user": "ann", "client": third })).await;
    assert_eq!(closed_soon(&mut clients[2].0).await, (3503, "force disconnect".into()));
    backend(server, "disconnect", json!({ "user": "ann", "session": "4" })).await;
    assert_eq!(closed_soon(&mut clients[3].0).await.0, 3503);
    let own = json!({ "code": 4321, "reason": "because" });
    let spared = clients[0].1.clone();
    backend(server, "disconnect", json!({ "user": "ann", "whitelist": [spared], "disconnect": own })).await;
    assert_eq!(closed_soon(&mut clients[1].0).await, (4321, "because".into()));
    stays(&mut clients[0].0).await;
    stays(&mut bo).await;
    assert_eq!(connects(server, &tokens[1]).await.0, 0, "a disconnect ends no token");
    for wrong in [
        json!({}),
        json!({ "user": "" }),
        json!({ "user": "a b" }),
        json!({ "user": "ann", "disconnect": { "code": 1000 } }),
        json!({ "user": "ann", "disconnect": { "code": 4000, "reason": "x".repeat(200) } }),
    ] {
        assert_eq!(server.backend("disconnect", &wrong).await["error"]["code"], 107, "{wrong}");
    }
}

async fn tokens_are_revoked_by_id(server: &Server) {
    let (one, other) = (issued("ann", "one", unix()), issued("ann", "other", unix()));
    let (mut first, mut second) = (socket(server, &one).await, socket(server, &other).await);
    // A token without a user; the token of a subscription follows below.
    let nobody = signed(&json!({ "jti": "nobody's" }));
    let mut anonymous = socket(server, &nobody).await;
    backend(server, "revoke_token", json!({ "uid": "one" })).await;
    backend(server, "revoke_token", json!({ "uid": "nobody's", "expire_at": unix() + 60 })).await;
    assert_eq!(closed_soon(&mut first).await, (3500, "invalid token".into()));
    assert_eq!(closed_soon(&mut anonymous).await.0, 3500);
    let refused = with_token(server, &one, "GET", "/timeline", &Value::Null).await;
    assert_eq!((refused.status.as_u16(), &refused.body["error"]["code"]), (401, &json!("unauthorized")));
    assert_eq!((connects(server, &one).await.0, status(server, &other).await), (3500, 200));
    assert_eq!(connects(server, &nobody).await.0, 3500);
    // A refresh does not make a revoked token valid.
    assert_eq!(second.call(json!({ "refresh": { "token": other } })).await["refresh"]["expires"], true);
    second.command(json!({ "refresh": { "token": one } })).await;
    assert_eq!(second.closed().await.0, 3500);
    // A token that expired long ago needs no entry; one that expired just now may still be accepted by a node with a
    // slow clock.
    backend(server, "revoke_token", json!({ "uid": "x", "expire_at": 5 })).await;
    backend(server, "revoke_token", json!({ "uid": "other", "expire_at": unix() - 1 })).await;
    assert_eq!(closed_soon(&mut second).await.0, 3500);
    for wrong in [json!({}), json!({ "uid": "" }), json!({ "uid": "x", "expire_at": -5 })] {
        assert_eq!(server.backend("revoke_token", &wrong).await["error"]["code"], 107, "{wrong}");
    }
}

async fn all_tokens_of_a_user_are_invalidated(server: &Server) {
    let (old, new) = (issued("ann", "old", unix() - 100), issued("ann", "new", unix()));
    let mut sockets = [socket(server, &old).await, socket(server, &new).await];
    let mut without_iat = socket(server, &token("ann")).await;
    let mut bo = Client::connect(server, "bo").await;
    backend(server, "invalidate_user_tokens", json!({ "user": "ann", "issued_before": unix() - 50 })).await;
    assert_eq!(closed_soon(&mut sockets[0]).await.0, 3500);
    assert_eq!(closed_soon(&mut without_iat).await.0, 3500, "without iat it is not known to be newer");
    stays(&mut sockets[1]).await;
    assert_eq!([status(server, &old).await, status(server, &new).await], [401, 200]);

    // Tokens issued up to now, including this second, are invalid; tokens issued after the reply are valid.
    let this_second = issued("ann", "now", unix());
    backend(server, "invalidate_user_tokens", json!({ "user": "ann" })).await;
    assert_eq!(closed_soon(&mut sockets[1]).await.0, 3500);
    assert_eq!([status(server, &new).await, status(server, &this_second).await], [401, 401]);
    let next = issued("ann", "next", unix());
    assert_eq!((status(server, &next).await, connects(server, &next).await.0), (200, 0));
    stays(&mut bo).await;

    // For an account, its sessions end.
    let session = account(server, "dee").await;
    let mut dee = socket(server, &session).await;
    backend(server, "invalidate_user_tokens", json!({ "user": "dee" })).await;
    assert_eq!(closed_soon(&mut dee).await.0, 3500);
    assert_eq!(status(server, &session).await, 401);
    let session = sign_in(server, "dee", "correct horse").await;
    assert_eq!(status(server, &session).await, 200, "though in the same second");

    // With a given time, the time at which a session was opened decides.
    let session = account(server, "eve").await;
    let mut eve = socket(server, &session).await;
    backend(server, "invalidate_user_tokens", json!({ "user": "eve", "issued_before": unix() - 50 })).await;
    stays(&mut eve).await;
    let soon = unix() + 1;
    while unix() < soon {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    backend(server, "invalidate_user_tokens", json!({ "user": "eve", "issued_before": soon })).await;
    assert_eq!((closed_soon(&mut eve).await.0, status(server, &session).await), (3500, 401));
    let session = sign_in(server, "eve", "correct horse").await;
    assert_eq!(status(server, &session).await, 200);
}

async fn users_are_blocked_and_unblocked(server: &Server) {
    let session = account(server, "dee").await;
    let ann = issued("ann", "1", unix());
    let mut sockets = [socket(server, &ann).await, socket(server, &session).await];
    for (user, socket) in ["ann", "dee"].into_iter().zip(&mut sockets) {
        backend(server, "block_user", json!({ "user": user })).await;
        assert_eq!(closed_soon(socket).await, (3507, "permission denied".into()));
    }
    for token in [&ann, &session, &issued("ann", "2", unix())] {
        let refused = with_token(server, token, "GET", "/timeline", &Value::Null).await;
        assert_eq!((refused.status.as_u16(), &refused.body["error"]["code"]), (403, &json!("forbidden")));
        assert_eq!(connects(server, token).await.0, 3507);
    }
    let headers = [("x-api-key", API_KEY), ("x-user", "ann")];
    assert_eq!(server.http("GET", "/api/v1/timeline", &headers, "").await.status, 403);
    let who = json!({ "user": "dee", "password": "correct horse" }).to_string();
    assert_eq!(server.http("POST", "/api/v1/sessions", &[], &who).await.status, 403);
    for user in ["ann", "dee"] {
        backend(server, "unblock_user", json!({ "user": user })).await;
    }
    assert_eq!([status(server, &ann).await, status(server, &session).await], [200, 200]);
    // A temporary block.
    backend(server, "block_user", json!({ "user": "ann", "expire_at": unix() + 2 })).await;
    assert_eq!(status(server, &ann).await, 403);
    let until = Instant::now() + PATIENCE;
    while status(server, &ann).await != 200 {
        assert!(Instant::now() < until, "it never ends");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(server.backend("block_user", &json!({ "user": "ann", "expire_at": 5 })).await["error"]["code"], 107);
}

async fn sessions_end_one_or_all(server: &Server) {
    let mut tokens = vec![account(server, "ann").await];
    for _ in 0..3 {
        tokens.push(sign_in(server, "ann", "correct horse").await);
    }
    let mut sockets = Vec::new();
    for token in &tokens {
        sockets.push(socket(server, token).await);
    }
    assert_eq!(with_token(server, &tokens[0], "DELETE", "/sessions", &Value::Null).await.status, 200);
    assert_eq!(closed_soon(&mut sockets[0]).await.0, 3500);
    // Over the socket, the reply is sent before the close.
    sockets[1].rpc("sessions.delete", &json!({})).await;
    assert_eq!(closed_soon(&mut sockets[1]).await.0, 3500);
    assert_eq!([status(server, &tokens[0]).await, status(server, &tokens[1]).await], [401, 401]);
    stays(&mut sockets[2]).await;
    assert_eq!(with_token(server, &tokens[2], "DELETE", "/sessions?all=true", &Value::Null).await.status, 200);
    for (token, socket) in tokens.iter().zip(&mut sockets).skip(2) {
        assert_eq!((closed_soon(socket).await.0, status(server, token).await), (3500, 401));
    }
    let again = sign_in(server, "ann", "correct horse").await;
    assert_eq!(with_token(server, &again, "DELETE", "/sessions", &json!({ "all": true })).await.status, 200);
    assert_eq!(status(server, &again).await, 401);

    // The application's tokens: those with a `jti` one by one, the others together.
    let (named, nameless) = (issued("bo", "b", unix()), token("bo"));
    assert_eq!(with_token(server, &named, "DELETE", "/sessions", &Value::Null).await.status, 200);
    assert_eq!([status(server, &named).await, status(server, &nameless).await], [401, 200]);
    let refused = with_token(server, &nameless, "DELETE", "/sessions", &Value::Null).await;
    assert_eq!((refused.status.as_u16(), &refused.body["error"]["field"]), (400, &json!("all")));
    assert_eq!(with_token(server, &nameless, "DELETE", "/sessions?all=true", &Value::Null).await.status, 200);
    assert_eq!(status(server, &nameless).await, 401);
}

async fn new_passwords_end_all_other_sessions(server: &Server) {
    let mine = account(server, "ann").await;
    let other = sign_in(server, "ann", "correct horse").await;
    let (mut here, mut elsewhere) = (socket(server, &mine).await, socket(server, &other).await);
    let change = async |token: &str, old: &str, new: &str| {
        let body = json!({ "old": old, "new": new });
        with_token(server, token, "PUT", "/accounts/password", &body).await.status.as_u16()
    };
    assert_eq!(change(&mine, "wrong horse", "battery staple").await, 401);
    assert_eq!(change(&mine, "correct horse", "short").await, 400);
    assert_eq!(status(server, &other).await, 200, "nothing has happened yet");
    assert_eq!(change(&mine, "correct horse", "battery staple").await, 200);
    let new = sign_in(server, "ann", "battery staple").await;
    assert_eq!(closed_soon(&mut elsewhere).await.0, 3500);
    stays(&mut here).await;
    assert_eq!(
        [status(server, &mine).await, status(server, &new).await, status(server, &other).await],
        [200, 200, 401]
    );
    let who = json!({ "user": "ann", "password": "correct horse" }).to_string();
    assert_eq!(server.http("POST", "/api/v1/sessions", &[], &who).await.status, 401);

    // A change from the new session also ends the session that the first change kept.
    let mut there = socket(server, &new).await;
    there.rpc("accounts.password", &json!({ "old": "battery staple", "new": "correct horse" })).await;
    assert_eq!(closed_soon(&mut here).await.0, 3500);
    stays(&mut there).await;
    assert_eq!([status(server, &mine).await, status(server, &new).await], [401, 200]);
    // A user without an account has no password to change.
    assert_eq!(change(&token("bo"), "correct horse", "battery staple").await, 403);
}

/// A password change races with the end of all sessions: in either order, the session that changed the password ends.
async fn password_changes_restore_no_session(server: &Server) {
    let mut password = "correct horse".to_owned();
    account(server, "ann").await;
    for round in 0..3 {
        let thief = sign_in(server, "ann", &password).await;
        let mine = sign_in(server, "ann", &password).await;
        let new = format!("battery staple {round}");
        let body = json!({ "old": password, "new": new });
        let changing = with_token(server, &thief, "PUT", "/accounts/password", &body);
        let ending = async {
            tokio::time::sleep(Duration::from_millis(30 * round)).await;
            with_token(server, &mine, "DELETE", "/sessions", &json!({ "all": true })).await
        };
        let (changed, ended) = tokio::join!(changing, ending);
        assert!([200, 401, 409].contains(&changed.status.as_u16()), "{changed:?}");
        if changed.status == 200 {
            password = new;
        }
        // If the password change was first, it ended the other session, possibly before that session could end all.
        if ended.status == 200 {
            assert_eq!(status(server, &thief).await, 401, "round {round}: {changed:?}");
        }
    }
}

#[tokio::test]
async fn revocations_survive_a_restart() {
    let mut server = Server::start().await;
    let tokens = [issued("ann", "1", unix()), issued("bo", "2", unix() - 5), issued("cy", "3", unix())];
    let session = account(&server, "dee").await;
    backend(&server, "revoke_token", json!({ "uid": "1" })).await;
    backend(&server, "invalidate_user_tokens", json!({ "user": "bo", "issued_before": unix() })).await;
    backend(&server, "block_user", json!({ "user": "cy" })).await;
    assert_eq!(with_token(&server, &session, "DELETE", "/sessions", &Value::Null).await.status, 200);
    server.kill();
    server.start_again().await;
    for (token, expected) in tokens.iter().chain([&session]).zip([401, 401, 403, 401]) {
        assert_eq!(status(&server, token).await, expected);
    }
}

#[tokio::test]
async fn revoked_subscription_tokens_are_rejected() {
    let server = Server::start_with(&[("namespaces", crate::NAMESPACES)]).await;
    let mut ann = Client::connect(&server, "ann").await;
    let subscription = signed(&json!({ "sub": "ann", "channel": "shut:1", "jti": "s", "exp": unix() + 600 }));
    let subscribe = json!({ "subscribe": { "channel": "shut:1", "token": subscription } });
    ann.done(subscribe.clone()).await;
    ann.done(json!({ "unsubscribe": { "channel": "shut:1" } })).await;
    backend(&server, "revoke_token", json!({ "uid": "s" })).await;
    assert_eq!(ann.refused(subscribe).await, 103);
}

#[tokio::test]
async fn subscriptions_end_when_their_token_is_revoked() {
    let server = Server::start_with(&[("namespaces", crate::NAMESPACES)]).await;
    let mut ann = Client::connect(&server, "ann").await;
    for (channel, id) in [("shut:1", "one"), ("shut:2", "two"), ("shut:3", "three")] {
        let subscription = signed(&json!({ "sub": "ann", "channel": channel, "jti": id, "exp": unix() + 600 }));
        ann.done(json!({ "subscribe": { "channel": channel, "token": subscription } })).await;
    }
    // By then another token has replaced the first one.
    let newer = signed(&json!({ "sub": "ann", "channel": "shut:1", "jti": "newer", "exp": unix() + 600 }));
    ann.done(json!({ "sub_refresh": { "channel": "shut:1", "token": newer } })).await;
    backend(&server, "revoke_token", json!({ "uid": "one" })).await;
    stays(&mut ann).await;
    for (channel, id) in [("shut:2", "two"), ("shut:1", "newer")] {
        let begun = Instant::now();
        backend(&server, "revoke_token", json!({ "uid": id })).await;
        let push = ann.push().await;
        assert_eq!((&push["channel"], &push["unsubscribe"]["code"]), (&json!(channel), &json!(2501)), "{push}");
        assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
    }
    assert_eq!(server.backend("publish", &json!({ "channel": "shut:3", "data": 1 })).await["error"], Value::Null);
    assert_eq!(ann.publication("shut:3").await["data"], 1, "the third subscription continues");
}

#[tokio::test]
async fn revoked_tokens_stay_revoked_within_the_leeway() {
    let server = Server::start_with(&[("auth.leeway", "1h")]).await;
    let late = signed(&json!({ "sub": "ann", "jti": "late", "iat": unix() - 1_000, "exp": unix() - 400 }));
    assert_eq!(status(&server, &late).await, 200);
    assert_eq!(with_token(&server, &late, "DELETE", "/sessions", &Value::Null).await.status, 200);
    assert_eq!(status(&server, &late).await, 401);
}

#[tokio::test]
async fn failed_sign_ins_are_delayed_and_successful_ones_are_not() {
    let server = Server::start_with(&[("rates.sessions", "300")]).await;
    let session = account(&server, "ann").await;
    account(&server, "bo").await;
    let attempt = async |user: &str, password: &str| {
        let who = json!({ "user": user, "password": password }).to_string();
        server.http("POST", "/api/v1/sessions", &[], &who).await
    };
    for _ in 0..12 {
        assert_eq!(attempt("ann", "correct horse").await.status, 201);
    }
    // Without earlier sign-ins from this address: five failures for an account, then delays.
    let mut outcomes = Vec::new();
    for _ in 0..8 {
        outcomes.push(attempt("bo", "a guess").await.status.as_u16());
    }
    assert_eq!(outcomes[..5], [401; 5]);
    assert!(outcomes[5..].contains(&429), "{outcomes:?}");
    let delayed = attempt("bo", "correct horse").await;
    assert_eq!(delayed.status, 429, "even with the correct password");
    assert!(delayed.header("retry-after").is_some());
    assert_eq!(attempt("ann", "correct horse").await.status, 201, "other users are not delayed");
    // The check of the old password over a socket is subject to the same delays.
    let mut ann = socket(&server, &session).await;
    let mut refused = Vec::new();
    for _ in 0..8 {
        let guess = json!({ "rpc": { "method": "accounts.password", "data": { "old": "x", "new": "long enough" } } });
        refused.push(ann.refused(guess).await);
    }
    assert!(refused.starts_with(&[401; 5]) && refused[5..].contains(&429), "{refused:?}");
}

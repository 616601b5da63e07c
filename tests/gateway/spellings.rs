//! Ids of users are one ignoring case: each spelling of a name in each way in. They are shown as first written.

use serde_json::{Value, json};

use crate::NAMESPACES;
use crate::client::Client;
use crate::identity::{account, sign_in, sign_up, with_token};
use crate::postgres_server::PostgresServer;
use crate::redis_server::RedisServer;
use crate::server::{API_KEY, Answer, Server, token, until};

/// The first one is written first.
const SPELLINGS: [&str; 4] = ["Kim", "kim", "KIM", "kiM"];

const NONE: &Value = &Value::Null;

async fn as_backend(server: &Server, user: &str) -> Answer {
    let headers = [("x-api-key", API_KEY), ("x-user", user)];
    server.http("PATCH", "/api/v1/users/me", &headers, "{}").await
}

/// The caller, as the server shows them.
async fn me(server: &Server, user: &str) -> Value {
    server.done(user, "PATCH", "/users/me", &json!({})).await
}

/// The ids of a page.
async fn ids(server: &Server, path: &str) -> Value {
    let page = server.done("Bo", "GET", path, NONE).await;
    page["items"].as_array().expect("items").iter().map(|item| item["id"].clone()).collect()
}

async fn status(server: &Server, user: &str, path: &str) -> u16 {
    server.call(user, "GET", path, NONE).await.status.as_u16()
}

async fn callers_and_paths(server: &Server) {
    for who in ["Kim", "Bo", "cy"] {
        let me = me(server, who).await;
        assert_eq!((&me["id"], &me["name"]), (&json!(who), &json!(who)));
    }
    for written in SPELLINGS {
        assert_eq!(me(server, written).await["id"], "Kim", "{written} in a token");
        assert_eq!(as_backend(server, written).await.body["id"], "Kim", "{written} in X-User");
        assert_eq!(
            server.done("bO", "GET", &format!("/users/{written}"), NONE).await["id"],
            "Kim",
            "{written} in a path"
        );
        server.done("Bo", "PUT", &format!("/users/{written}/follow"), NONE).await;
        assert_eq!(ids(server, &format!("/users/{written}/followers")).await, json!(["Bo"]), "{written}");
        assert_eq!(ids(server, "/users/bo/following").await, json!(["Kim"]), "{written}");
        let post = server.done(written, "POST", "/posts", &json!({ "text": "hello" })).await;
        assert_eq!(post["author"], "Kim", "{written}");
        let comment = json!({ "text": format!("and @{written}") });
        let path = format!("/posts/{}/comments", post["id"]);
        let comment = server.done(written, "POST", &path, &comment).await;
        assert_eq!((&comment["author"], &comment["mentions"]), (&json!("Kim"), &json!(["Kim"])), "{written}");
        let page = server.done("cy", "GET", &path, NONE).await;
        assert_eq!((&page["items"][0]["author"], &page["people"]["Kim"]["id"]), (&json!("Kim"), &json!("Kim")));
        let page = server.done("cy", "GET", &format!("/users/{written}/posts?with=people"), NONE).await;
        assert_eq!((&page["items"][0]["author"], &page["people"]["Kim"]["id"]), (&json!("Kim"), &json!("Kim")));
    }
    assert_eq!(server.done("kim", "GET", "/users/KIM", NONE).await["posts"], 4, "one profile");
    assert_eq!(ids(server, "/users?q=kI").await, json!(["Kim"]));
    // A user whose first request is a like is recorded with it.
    let path = format!("/posts/{}", server.post("Bo", "like it").await);
    server.done("LOu", "PUT", &format!("{path}/like"), NONE).await;
    until("the like is settled", async || ids(server, &format!("{path}/likes")).await == json!(["LOu"])).await;
    assert_eq!(me(server, "lou").await["id"], "LOu");
    for reserved in ["me", "ME", "Suggested", "eXplore"] {
        assert_eq!(as_backend(server, reserved).await.status, 400, "{reserved}");
    }
}

async fn texts_and_audiences(server: &Server) {
    server.follow("Kim", "Bo").await;
    for written in SPELLINGS {
        let post = server.done("BO", "POST", "/posts", &json!({ "text": format!("@{written}: hi") })).await;
        assert_eq!((&post["author"], &post["mentions"]), (&json!("Bo"), &json!(["Kim"])), "{written}");
        for (visibility, of_kim, of_cy) in [("only_to", 200, 404), ("not_to", 404, 200)] {
            let draft = json!({ "text": "some", "visibility": { visibility: [written] } });
            let post = server.done("Bo", "POST", "/posts", &draft).await;
            assert_eq!(post["visibility"][visibility], json!(["Kim"]), "{written}");
            let path = format!("/posts/{}", post["id"]);
            assert_eq!(status(server, "Kim", &path).await, of_kim, "{visibility} {written}");
            assert_eq!(status(server, "KIM", &path).await, of_kim, "{visibility} {written}");
            assert_eq!(status(server, "cy", &path).await, of_cy, "{visibility} {written}");
            // Listed and counted from the audiences that the ledger keeps.
            let expected = usize::from(of_kim == 200);
            let listed = server.done("kim", "GET", "/users/bo/posts?limit=1", NONE).await;
            let found = usize::from(listed["items"][0]["id"] == post["id"]);
            assert_eq!(found, expected, "{visibility} {written}");
            let before = server.done("kim", "GET", "/users/bo", NONE).await["posts"].as_u64().expect("a count");
            server.done("bo", "DELETE", &path, NONE).await;
            let after = server.done("kim", "GET", "/users/bo", NONE).await["posts"].as_u64().expect("a count");
            assert_eq!(before - after, expected as u64, "{visibility} {written}");
        }
        for (restriction, sees) in [("hide", 404), ("block", 404), ("mute", 200)] {
            let path = format!("/users/{written}/{restriction}");
            server.done("bo", "PUT", &path, NONE).await;
            assert_eq!(status(server, "Kim", &format!("/posts/{}", post["id"])).await, sees, "{restriction} {written}");
            server.done("Bo", "DELETE", &format!("/users/kim/{restriction}"), NONE).await;
        }
        server.follow("Kim", "Bo").await;
    }
}

/// The next publication that a client receives, as its channel and text.
async fn heard(client: &mut Client, channel: &str) -> Value {
    client.publication(channel).await["data"]["post"]["text"].clone()
}

async fn channels(server: &Server) {
    let subs = json!({ "notifications:KIM": { "recover": false } });
    for written in SPELLINGS {
        let mut kim = Client::open(server).await;
        let connect = json!({ "connect": { "token": token(written), "subs": subs } });
        let connected = kim.done(connect).await["connect"]["subs"].clone();
        let named: Vec<&String> = connected.as_object().expect("subscriptions").keys().collect();
        assert_eq!(named, ["notifications:KIM", "timeline:Kim"], "{written}");
        let mut readers = Vec::new();
        for name in ["user:KIM", "user:kim", "user:Kim", "user:KIM"] {
            let mut reader = Client::connect(server, "cy").await;
            reader.subscribe(name).await;
            for other in ["user:kim", "user:KIM", "user:kIm"] {
                let code = reader.refused(json!({ "subscribe": { "channel": other } })).await;
                assert_eq!(code, 105, "{name} and {other}");
            }
            reader.done(json!({ "history": { "channel": "user:kiM", "limit": 1 } })).await;
            readers.push((reader, name));
        }
        server.post(written, written).await;
        assert_eq!(heard(&mut kim, "timeline:Kim").await, *written);
        for (reader, name) in &mut readers {
            assert_eq!(heard(reader, name).await, *written, "{name}");
            reader.done(json!({ "unsubscribe": { "channel": "user:kIM" } })).await;
            reader.subscribe("user:kim").await;
        }
        // A like of another device. Notifications of the mentions above may arrive before.
        let post = server.post("Bo", "like it").await;
        server.done(written, "PUT", &format!("/posts/{post}/like"), NONE).await;
        while kim.publication("notifications:KIM").await["data"]["type"] != "like.changed" {}
    }
}

async fn channels_of_topics(server: &Server) {
    let name = "topic:Cafe\u{301}";
    let mut reader = Client::connect(server, "cy").await;
    reader.subscribe(name).await;
    for other in ["topic:caf\u{e9}", "topic:CAF\u{c9}", "topic:cafe\u{301}"] {
        assert_eq!(reader.refused(json!({ "subscribe": { "channel": other } })).await, 105, "{other}");
    }
    server.post("Bo", "#CAF\u{c9}").await;
    assert_eq!(heard(&mut reader, name).await, "#CAF\u{c9}");
    reader.done(json!({ "unsubscribe": { "channel": "topic:Caf\u{e9}" } })).await;
    reader.subscribe("topic:caf\u{e9}").await;
}

async fn channels_of_the_application(server: &Server) {
    let mut kim = Client::connect(server, "KIM").await;
    let mut bo = Client::connect(server, "bo").await;
    kim.subscribe("chat:Room#Kim,bo").await;
    assert_eq!(kim.refused(json!({ "subscribe": { "channel": "chat:Room#kim,BO" } })).await, 105);
    bo.subscribe("chat:Room#KIM,BO").await;
    let mut cy = Client::connect(server, "CY").await;
    assert_eq!(cy.refused(json!({ "subscribe": { "channel": "chat:Room#KIM,BO" } })).await, 103);
    cy.subscribe("chat:Lobby").await;
    let present = cy.done(json!({ "presence": { "channel": "chat:Lobby" } })).await;
    let present = present["presence"]["presence"].as_object().expect("clients");
    assert!(present.values().all(|info| info["user"] == "cy"), "{present:?}");
    let publish = json!({ "channel": "chat:Room#kIM,bO", "data": 1 });
    assert!(server.backend("publish", &publish).await.get("result").is_some());
    kim.done(json!({ "publish": { "channel": "chat:Room#kim,bo", "data": 2 } })).await;
    for (client, name) in [(&mut kim, "chat:Room#Kim,bo"), (&mut bo, "chat:Room#KIM,BO")] {
        for number in 1..=2 {
            assert_eq!(client.publication(name).await["data"], number, "{name}");
        }
        let present = client.done(json!({ "presence": { "channel": "chat:Room#kim,bo" } })).await;
        let present = present["presence"]["presence"].as_object().expect("clients").clone();
        let mut users: Vec<_> = present.values().map(|info| info["user"].as_str().expect("a user")).collect();
        users.sort_unstable();
        assert_eq!(users, ["Bo", "Kim"], "{name}");
    }
    for written in SPELLINGS {
        let subscribe = json!({ "user": written, "channel": format!("chat:of#{written}") });
        server.backend("subscribe", &subscribe).await;
        kim.push_of(&format!("chat:of#{written}"), "subscribe").await;
        server.backend("unsubscribe", &json!({ "user": written, "channel": "chat:of#KiM" })).await;
        kim.push_of(&format!("chat:of#{written}"), "unsubscribe").await;
        server.backend("block_user", &json!({ "user": written })).await;
        for other in SPELLINGS {
            assert_eq!(status(server, other, "/timeline").await, 403, "{written} is blocked as {other}");
        }
        kim.closed().await;
        server.backend("unblock_user", &json!({ "user": "kIM" })).await;
        kim = Client::connect(server, written).await;
    }
    server.backend("disconnect", &json!({ "user": "kIM" })).await;
    kim.closed().await;
}

async fn everything(server: &Server) {
    callers_and_paths(server).await;
    texts_and_audiences(server).await;
    channels(server).await;
    channels_of_topics(server).await;
    channels_of_the_application(server).await;
}

#[tokio::test]
async fn every_spelling_of_an_id_is_one_user() {
    everything(&Server::start_with(&[("namespaces", NAMESPACES)]).await).await;
}

#[tokio::test]
async fn every_spelling_of_an_id_is_one_user_on_redis_and_postgres() {
    let (redis, postgres) = (RedisServer::start(), PostgresServer::start());
    let (broker, ledger) = (redis.url(), postgres.url("postgres"));
    let keys = [("namespaces", NAMESPACES), ("broker.url", &broker), ("ledger.url", &ledger)];
    everything(&Server::start_with(&keys).await).await;
}

#[tokio::test]
async fn accounts_are_one_in_every_spelling_and_form_of_the_password() {
    let server = Server::start().await;
    let composed = json!({ "user": "Kim", "password": "caf\u{e9} corre\u{e7}t" }).to_string();
    assert_eq!(server.http("POST", "/api/v1/accounts", &[], &composed).await.body["user"], "Kim");
    for written in SPELLINGS {
        let answer = sign_up(&server, written).await;
        assert_eq!((answer.status.as_u16(), &answer.body["error"]["field"]), (409, &json!("user")), "{written}");
        for password in ["caf\u{e9} corre\u{e7}t", "cafe\u{301} correc\u{327}t"] {
            let session = sign_in(&server, written, password).await;
            let me = with_token(&server, &session, "PATCH", "/users/me", &json!({})).await;
            assert_eq!((&me.body["id"], &me.body["name"]), (&json!("Kim"), &json!("Kim")), "{written}");
        }
        assert_eq!(status(&server, written, "/timeline").await, 403, "the account {written} is not the application's");
    }
    for reserved in ["me", "ME", "Suggested", "Explore"] {
        assert_eq!(sign_up(&server, reserved).await.status, 400, "{reserved}");
    }
    assert_eq!(me(&server, "Tim").await["id"], "Tim");
    assert_eq!(sign_up(&server, "tim").await.status, 409, "the application's id");
    // An erased id is not given out again.
    let session = account(&server, "lea").await;
    let erased = with_token(&server, &session, "DELETE", "/accounts", NONE).await;
    assert!(erased.status.is_success(), "{erased:?}");
    for written in ["lea", "Lea", "LEA"] {
        assert_eq!(sign_up(&server, written).await.status, 409, "{written}");
        assert_eq!(status(&server, written, "/timeline").await, 401, "{written}");
    }
}

#[tokio::test]
async fn failed_sign_ins_count_for_the_account_in_any_spelling() {
    let server = Server::start_with(&[("rates.sessions", "100")]).await;
    account(&server, "Kim").await;
    let mut statuses = Vec::new();
    for written in SPELLINGS.into_iter().cycle().take(8) {
        let body = json!({ "user": written, "password": "a wrong one" }).to_string();
        statuses.push(server.http("POST", "/api/v1/sessions", &[], &body).await.status.as_u16());
    }
    assert!(statuses.contains(&429), "{statuses:?}");
}

//! Lists: users and topics that a user gathers. Who sees them, what they show, and what exclusive ones take out of the
//! timeline.

use futures::StreamExt as _;
use futures::stream;
use serde_json::{Value, json};

use crate::both_pairs::{ids_by_pages, servers};
use crate::client::Client;
use crate::moderation::{suspend, unsuspend};
use crate::server::{API_KEY, Server, until};

async fn get(server: &Server, user: &str, path: &str) -> Value {
    server.done(user, "GET", path, &Value::Null).await
}

async fn put(server: &Server, user: &str, path: &str) {
    server.done(user, "PUT", path, &Value::Null).await;
}

async fn delete(server: &Server, user: &str, path: &str) {
    server.done(user, "DELETE", path, &Value::Null).await;
}

async fn status(server: &Server, user: &str, method: &str, path: &str) -> u16 {
    server.call(user, method, path, &Value::Null).await.status.as_u16()
}

async fn ids(server: &Server, user: &str, path: &str) -> Vec<u64> {
    let page = get(server, user, path).await;
    page["items"].as_array().expect("items").iter().map(|item| item["id"].as_u64().expect("an id")).collect()
}

async fn names(server: &Server, user: &str, path: &str) -> Vec<String> {
    let page = get(server, user, path).await;
    let name = |item: &Value| item["name"].as_str().or(item["id"].as_str()).expect("a name").to_owned();
    page["items"].as_array().expect("items").iter().map(name).collect()
}

/// Waits until a page has these posts: a fan-out ends after the reply.
async fn shows(server: &Server, user: &str, path: &str, expected: &[u64]) {
    until(&format!("{path} of {user} is {expected:?}"), async || ids(server, user, path).await == expected).await;
}

/// Creates a list and returns its path.
async fn create(server: &Server, user: &str, name: &str, exclusive: bool) -> String {
    let draft = json!({ "name": name, "exclusive": exclusive });
    let list = server.done(user, "POST", "/lists", &draft).await;
    assert_eq!((&list["name"], &list["exclusive"], &list["users"]), (&json!(name), &json!(exclusive), &json!(0)));
    format!("/lists/{}", list["id"])
}

async fn post(server: &Server, user: &str, text: &str, visibility: &str) -> u64 {
    let draft = json!({ "text": text, "visibility": visibility });
    server.done(user, "POST", "/posts", &draft).await["id"].as_u64().expect("an id")
}

#[tokio::test]
async fn a_list_shows_what_its_owner_may_see_of_its_members() {
    for (server, _redis) in servers().await {
        let first = server.post("bo", "the first").await;
        let elsewhere = server.post("cy", "elsewhere").await;
        let tagged = server.post("dee", "about #rust").await;
        for user in ["ann", "eve"] {
            server.post(user, "hello").await;
        }
        let list = create(&server, "ann", "friends", false).await;
        let posts = format!("{list}/posts");
        put(&server, "ann", &format!("{list}/users/bo")).await;
        put(&server, "ann", &format!("{list}/users/bo")).await;
        put(&server, "ann", &format!("{list}/topics/Rust")).await;
        // Full at the first read, without a follow.
        shows(&server, "ann", &posts, &[tagged, first]).await;
        let private = post(&server, "bo", "for followers #rust", "followers").await;
        let both = server.post("bo", "by bo, about #rust").await;
        shows(&server, "ann", &posts, &[both, tagged, first]).await;
        server.follow("ann", "bo").await;
        shows(&server, "ann", &posts, &[both, private, tagged, first]).await;
        let reposted = server.done("bo", "PUT", &format!("/posts/{elsewhere}/repost"), &Value::Null).await;
        let reposted = reposted["id"].as_u64().expect("an id");
        shows(&server, "ann", &posts, &[reposted, both, private, tagged, first]).await;
        put(&server, "ann", "/users/cy/mute").await;
        assert_eq!(ids(&server, "ann", &posts).await, [both, private, tagged, first], "a muted user's post");
        delete(&server, "ann", "/users/cy/mute").await;
        shows(&server, "ann", &posts, &[reposted, both, private, tagged, first]).await;
        put(&server, "ann", "/users/bo/reposts/mute").await;
        shows(&server, "ann", &posts, &[both, private, tagged, first]).await;
        // Small pages, in order, each post once.
        let read = ids_by_pages(&server, "ann", &posts, 1).await;
        assert_eq!(read, [both, private, tagged, first]);

        // Muted words, mutes, blocks, locks and standings, at once.
        let draft = json!({ "words": ["about"], "in": ["lists"] });
        let filter = server.done("ann", "POST", "/filters", &draft).await["id"].clone();
        assert_eq!(ids(&server, "ann", &posts).await, [private, first]);
        let change = json!({ "action": "warn" });
        server.done("ann", "PATCH", &format!("/filters/{filter}"), &change).await;
        let page = get(&server, "ann", &posts).await;
        assert_eq!(page["items"][0]["filtered"], json!([filter]), "{page}");
        delete(&server, "ann", &format!("/filters/{filter}")).await;
        put(&server, "ann", "/users/bo/mute").await;
        assert_eq!(ids(&server, "ann", &posts).await, [tagged]);
        delete(&server, "ann", "/users/bo/mute").await;
        shows(&server, "ann", &posts, &[both, private, tagged, first]).await;
        put(&server, "dee", "/users/ann/block").await;
        assert_eq!(ids(&server, "ann", &posts).await, [both, private, first]);
        delete(&server, "dee", "/users/ann/block").await;
        shows(&server, "ann", &posts, &[both, private, tagged, first]).await;
        server.done("dee", "PATCH", "/users/me", &json!({ "locked": true })).await;
        assert_eq!(ids(&server, "ann", &posts).await, [both, private, first]);
        server.done("dee", "PATCH", "/users/me", &json!({ "locked": false })).await;
        // What opens is not waited for.
        shows(&server, "ann", &posts, &[both, private, tagged, first]).await;
        suspend(&server, "bo", "limited").await;
        assert_eq!(ids(&server, "ann", &posts).await, [tagged], "limited authors are in no list");
        unsuspend(&server, "bo").await;
        shows(&server, "ann", &posts, &[both, private, tagged, first]).await;

        delete(&server, "ann", &format!("{list}/users/bo")).await;
        assert_eq!(ids(&server, "ann", &posts).await, [both, tagged], "by its topic");
        delete(&server, "ann", &format!("{list}/topics/rust")).await;
        assert_eq!(ids(&server, "ann", &posts).await, [0; 0]);
    }
}

#[tokio::test]
async fn lists_belong_to_their_owner_alone() {
    for (server, _redis) in servers().await {
        for user in ["ann", "bo", "cy"] {
            server.post(user, "hello").await;
        }
        let list = create(&server, "ann", "secret", false).await;
        put(&server, "ann", &format!("{list}/users/bo")).await;
        put(&server, "ann", &format!("{list}/users/cy")).await;
        for (method, path) in [
            ("GET", list.clone()),
            ("PATCH", list.clone()),
            ("DELETE", list.clone()),
            ("GET", format!("{list}/posts")),
            ("GET", format!("{list}/members")),
            ("PUT", format!("{list}/users/cy")),
            ("DELETE", format!("{list}/users/bo")),
            ("PUT", format!("{list}/topics/rust")),
        ] {
            assert_eq!(status(&server, "bo", method, &path).await, 404, "{method} {path}");
        }
        assert_eq!(names(&server, "bo", "/lists").await, [""; 0]);
        assert_eq!(get(&server, "bo", "/notifications").await["items"], json!([]), "members are not informed");
        assert_eq!(names(&server, "ann", &format!("{list}/members")).await, ["cy", "bo"]);
        let page = get(&server, "ann", &format!("{list}/members?limit=1")).await;
        assert_eq!(page["topics"], json!([]));
        let rest = format!("{list}/members?limit=1&cursor={}", page["next"].as_str().expect("a next page"));
        assert_eq!(
            (names(&server, "ann", &rest).await, get(&server, "ann", &rest).await.get("topics")),
            (vec!["bo".to_owned()], None)
        );
        let other = create(&server, "ann", "other", false).await;
        put(&server, "ann", &format!("{other}/users/bo")).await;
        assert_eq!(names(&server, "ann", "/users/bo/lists").await, ["secret", "other"]);
        assert_eq!(names(&server, "ann", "/users/cy/lists").await, ["secret"]);
        assert_eq!(names(&server, "bo", "/users/bo/lists").await, [""; 0]);

        let renamed = server.done("ann", "PATCH", &other, &json!({ "name": " others " })).await;
        assert_eq!((&renamed["name"], &renamed["users"]), (&json!("others"), &json!(1)));
        for (draft, expected) in [
            (json!({ "name": "" }), 400),
            (json!({ "name": " \u{200b}" }), 400),
            (json!({ "name": "é".repeat(51) }), 422),
            (json!({}), 400),
        ] {
            assert_eq!(server.call("ann", "POST", "/lists", &draft).await.status, expected, "{draft}");
        }
        assert_eq!(status(&server, "ann", "PUT", &format!("{list}/users/nobody")).await, 404);
        assert_eq!(status(&server, "ann", "PUT", &format!("{list}/topics/a%20b")).await, 400);
        for n in 0..20 {
            put(&server, "ann", &format!("{list}/topics/t{n}")).await;
        }
        put(&server, "ann", &format!("{list}/topics/t3")).await;
        assert_eq!(status(&server, "ann", "PUT", &format!("{list}/topics/t20")).await, 422);
        for n in 2..50 {
            create(&server, "ann", &format!("list {n}"), false).await;
        }
        assert_eq!(server.call("ann", "POST", "/lists", &json!({ "name": "one more" })).await.status, 422);
        let export = get(&server, "ann", "/accounts/export").await;
        assert_eq!(export["lists"].as_array().map(Vec::len), Some(50), "{export}");
        assert_eq!(get(&server, "bo", "/accounts/export").await["lists"], json!([]));
        delete(&server, "ann", &other).await;
        assert_eq!(status(&server, "ann", "DELETE", &other).await, 404);
        assert_eq!(names(&server, "ann", "/users/bo/lists").await, ["secret"]);
    }
}

#[tokio::test]
async fn an_exclusive_list_takes_its_users_out_of_the_timeline() {
    for (server, _redis) in servers().await {
        let bos = server.post("bo", "by bo").await;
        let cys = server.post("cy", "by cy").await;
        for author in ["bo", "cy"] {
            server.follow("ann", author).await;
        }
        server.follow("dee", "bo").await;
        let home = "/timeline";
        shows(&server, "ann", home, &[cys, bos]).await;
        let mut ann = Client::connect(&server, "ann").await;
        let list = create(&server, "ann", "noisy", true).await;
        put(&server, "ann", &format!("{list}/users/bo")).await;
        assert_eq!(ids(&server, "ann", home).await, [cys], "at once");
        let gone = ann.publication("timeline:ann").await;
        assert_eq!((&gone["data"]["type"], &gone["data"]["id"]), (&json!("gone"), &json!(bos)), "live");
        let later = server.post("bo", "by bo, later").await;
        let repost = server.done("bo", "PUT", &format!("/posts/{cys}/repost"), &Value::Null).await["id"].clone();
        let own = server.post("ann", "my own").await;
        shows(&server, "ann", home, &[own, cys]).await;
        shows(&server, "ann", &format!("{list}/posts"), &[repost.as_u64().unwrap(), later, bos]).await;
        assert_eq!(ids(&server, "dee", "/timeline?limit=2").await[1], later, "of nobody else");
        assert!(ann.pushed().await.iter().all(|push| push["pub"]["data"]["post"]["author"] != "bo"));
        // What the timeline does not have repeats nothing.
        let by_bo = server.post("bo", "passed on").await;
        let by_cy = server.done("cy", "PUT", &format!("/posts/{by_bo}/repost"), &Value::Null).await["id"].as_u64();
        shows(&server, "ann", home, &[by_cy.unwrap(), own, cys]).await;

        // In two exclusive lists: out until it is in none.
        let other = create(&server, "ann", "other", false).await;
        put(&server, "ann", &format!("{other}/users/bo")).await;
        server.done("ann", "PATCH", &other, &json!({ "exclusive": true })).await;
        delete(&server, "ann", &format!("{list}/users/bo")).await;
        assert_eq!(ids(&server, "ann", home).await, [by_cy.unwrap(), own, cys]);
        server.done("ann", "PATCH", &other, &json!({ "exclusive": false })).await;
        until("all is back", async || {
            let page = ids(&server, "ann", home).await;
            [bos, later, by_bo].iter().all(|post| page.contains(post))
        })
        .await;
        put(&server, "ann", &format!("{list}/users/bo")).await;
        assert!(!ids(&server, "ann", home).await.contains(&later));
        delete(&server, "ann", &list).await;
        until("the list is gone", async || ids(&server, "ann", home).await.contains(&later)).await;
        // It is no restriction that the owner sees.
        for path in ["/users/me/muted", "/users/me/blocked", "/users/me/hidden"] {
            assert_eq!(names(&server, "ann", path).await, [""; 0], "{path}");
        }
    }
}

#[tokio::test]
async fn a_list_shows_a_post_once() {
    for (server, _redis) in servers().await {
        let tagged = json!({ "text": "by cy", "topics": ["rust"] });
        let post = server.done("cy", "POST", "/posts", &tagged).await["id"].as_u64().expect("an id");
        let repost = async |user: &str| {
            let repost = server.done(user, "PUT", &format!("/posts/{post}/repost"), &Value::Null).await;
            repost["id"].as_u64().expect("an id")
        };
        let [first, second] = [repost("bo").await, repost("dee").await];
        let list = create(&server, "ann", "near", false).await;
        let posts = format!("{list}/posts");
        put(&server, "ann", &format!("{list}/users/dee")).await;
        assert_eq!(ids(&server, "ann", &posts).await, [second], "it repeats nothing that the list has");
        put(&server, "ann", &format!("{list}/users/bo")).await;
        let page = server.done("ann", "GET", &posts, &Value::Null).await;
        assert_eq!(page["items"].as_array().map(Vec::len), Some(1), "{page}");
        let shown = &page["items"][0];
        assert_eq!((&shown["id"], &shown["reposted_by"]), (&json!(first), &json!({ "people": ["dee"], "count": 1 })));
        // The post itself, by its topic.
        put(&server, "ann", &format!("{list}/topics/rust")).await;
        assert_eq!(ids(&server, "ann", &posts).await, [post]);
        // Topics have no posts of a locked account, soon after the answer. Reposts of them are for its followers.
        server.follow("ann", "cy").await;
        server.done("cy", "PATCH", "/users/me", &json!({ "locked": true })).await;
        shows(&server, "ann", &posts, &[first]).await;
        delete(&server, "ann", &format!("{list}/users/bo")).await;
        assert_eq!(ids(&server, "ann", &posts).await, [second]);
        put(&server, "ann", &format!("{list}/users/cy")).await;
        assert_eq!(ids(&server, "ann", &posts).await, [post]);
    }
}

#[tokio::test]
async fn a_list_takes_500_users() {
    let server = Server::start().await;
    let users: Vec<String> = (0..=500).map(|n| format!("u{n}")).collect();
    let exist = |user: String| {
        let server = &server;
        async move { drop(get(server, &user, &format!("/users/{user}")).await) }
    };
    stream::iter(users.clone()).for_each_concurrent(16, exist).await;
    let list = create(&server, "ann", "full", false).await;
    let id: u64 = list.trim_start_matches("/lists/").parse().expect("a number");
    let add = |user: &String| json!({ "rpc": { "method": "lists.add", "params": { "id": id, "user": user } } });
    let commands: Vec<Value> = users[..500].iter().map(add).collect();
    let body = json!({ "commands": commands, "parallel": true }).to_string();
    let added = server.http("POST", "/api/batch", &[("x-api-key", API_KEY), ("x-user", "ann")], &body).await;
    let replies = added.body["replies"].as_array().expect("replies");
    assert!(replies.len() == 500 && replies.iter().all(|reply| reply.get("error").is_none()), "{replies:?}");
    assert_eq!(get(&server, "ann", &list).await["users"], 500);

    let member = |n: usize| format!("{list}/users/u{n}");
    let refused = server.call("ann", "PUT", &member(500), &Value::Null).await;
    let error = &refused.body["error"];
    assert_eq!(
        (refused.status.as_u16(), &error["code"], &error["field"]),
        (422, &json!("limit_exceeded"), &json!("user")),
        "{refused:?}"
    );
    // One who is in it already is no more, and others take the place of those who leave.
    put(&server, "ann", &member(7)).await;
    delete(&server, "ann", &member(7)).await;
    put(&server, "ann", &member(500)).await;
    assert_eq!(status(&server, "ann", "PUT", &member(7)).await, 422);
    assert_eq!(get(&server, "ann", &list).await["users"], 500);
}

#[tokio::test]
async fn a_page_of_a_list_with_nine_of_ten_posts_hidden_is_full() {
    let server = Server::start().await;
    let mut shown = Vec::new();
    for n in 0..120 {
        let is_shown = n % 10 == 0;
        let post = server.post("bo", if is_shown { "fine" } else { "noise" }).await;
        if is_shown {
            shown.insert(0, post);
        }
    }
    let list = create(&server, "ann", "near", false).await;
    put(&server, "ann", &format!("{list}/users/bo")).await;
    let posts = format!("{list}/posts");
    server.done("ann", "POST", "/filters", &json!({ "words": ["noise"], "in": ["lists"] })).await;
    assert_eq!(ids(&server, "ann", &format!("{posts}?limit=10")).await, shown[..10]);
    let first = get(&server, "ann", &format!("{posts}?limit=4")).await;
    assert_eq!(first["items"].as_array().map(Vec::len), Some(4), "{first}");
    assert_eq!(ids_by_pages(&server, "ann", &posts, 4).await, shown, "with small pages");
}

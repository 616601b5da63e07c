//! Followed topics: what they bring into a timeline, live and on pages, what they never bring, and how it leaves again.

use serde_json::{Value, json};

use crate::both_pairs::{delete, get, ids_by_pages, put, servers};
use crate::client::Client;
use crate::moderation::{suspend, unsuspend};
use crate::server::{Server, until};

const HOME: &str = "timeline:ann";

/// The posts of ann's timeline, each with the topic that brought it.
async fn home(server: &Server) -> Vec<(u64, Option<String>)> {
    let page = get(server, "/timeline").await;
    let item = |item: &Value| {
        let via = item["via"]["topic"].as_str().map(str::to_owned);
        (item["id"].as_u64().expect("an id"), via)
    };
    page["items"].as_array().expect("items").iter().map(item).collect()
}

/// Waits until ann's timeline has these posts.
async fn shows(server: &Server, expected: &[(u64, &str)]) {
    let named = |(id, topic): &(u64, &str)| (*id, Some((*topic).to_owned()).filter(|topic| !topic.is_empty()));
    let expected: Vec<_> = expected.iter().map(named).collect();
    let what = format!("the timeline is {expected:?}");
    until(&what, async || {
        let home = home(server).await;
        home == expected
    })
    .await;
}

/// The next event of ann's timeline: its type, its post, and the topic or the reason.
async fn next(client: &mut Client) -> (String, u64, String) {
    let data = client.publication(HOME).await["data"].take();
    let kind = data["type"].as_str().expect("a type").to_owned();
    let id = data["post"]["id"].as_u64().or(data["id"].as_u64()).unwrap_or_default();
    let detail = data["post"]["via"]["topic"].as_str().or(data["reason"].as_str()).unwrap_or_default();
    (kind, id, detail.to_owned())
}

/// The next event of a post that left. Edits before it may be pushed as well.
async fn next_gone(client: &mut Client) -> (String, u64, String) {
    loop {
        let event = next(client).await;
        if event.0 == "gone" {
            return event;
        }
    }
}

fn event(kind: &str, id: u64, detail: &str) -> (String, u64, String) {
    (kind.to_owned(), id, detail.to_owned())
}

async fn post(server: &Server, user: &str, text: &str, visibility: &str) -> u64 {
    let draft = json!({ "text": text, "visibility": visibility });
    server.done(user, "POST", "/posts", &draft).await["id"].as_u64().expect("an id")
}

#[tokio::test]
async fn a_followed_topic_brings_public_posts() {
    for (server, _redis) in servers().await {
        let past = server.post("bo", "about #rust").await;
        let own = server.post("ann", "mine, #rust").await;
        server.follow("ann", "cy").await;
        let mut ann = Client::connect(&server, "ann").await;
        put(&server, "/topics/Rust/follow").await;
        put(&server, "/topics/rust/follow").await;
        assert_eq!(next(&mut ann).await, event("post", past, "rust"));
        shows(&server, &[(own, ""), (past, "rust")]).await;

        let live = server.post("bo", "more #go #rust").await;
        assert_eq!(next(&mut ann).await, event("post", live, "rust"));
        // By a followee, once and without a topic; of a smaller audience and reposts not at all.
        let theirs = server.post("cy", "also #rust").await;
        assert_eq!(next(&mut ann).await, event("post", theirs, ""));
        let private = post(&server, "bo", "for followers, #rust", "followers").await;
        server.done("dee", "PUT", &format!("/posts/{live}/repost"), &Value::Null).await;
        let edit = json!({ "text": "still #go #rust" });
        server.done("bo", "PATCH", &format!("/posts/{live}"), &edit).await;
        assert_eq!(next(&mut ann).await, event("edited", live, "rust"));
        // An edit brings a post, another takes it away.
        let later = server.post("bo", "no topic").await;
        server.done("bo", "PATCH", &format!("/posts/{later}"), &json!({ "text": "now #rust" })).await;
        assert_eq!(next(&mut ann).await, event("post", later, "rust"));
        shows(&server, &[(later, "rust"), (theirs, ""), (live, "rust"), (own, ""), (past, "rust")]).await;
        server.done("bo", "PATCH", &format!("/posts/{later}"), &json!({ "text": "no more" })).await;
        assert_eq!(next_gone(&mut ann).await, event("gone", later, "hidden"));
        server.done("bo", "PATCH", &format!("/posts/{live}"), &json!({ "visibility": "followers" })).await;
        assert_eq!(next_gone(&mut ann).await, event("gone", live, "hidden"));
        server.done("bo", "PATCH", &format!("/posts/{live}"), &json!({ "visibility": "public" })).await;
        assert_eq!(next(&mut ann).await, event("post", live, "rust"));
        server.done("bo", "DELETE", &format!("/posts/{live}"), &Value::Null).await;
        assert_eq!(next(&mut ann).await, event("gone", live, "deleted"));

        // What left is not lost for a follower of the author, and the other way round.
        server.follow("ann", "bo").await;
        shows(&server, &[(later, ""), (private, ""), (theirs, ""), (own, ""), (past, "")]).await;
        delete(&server, "/users/cy/follow").await;
        shows(&server, &[(later, ""), (private, ""), (theirs, "rust"), (own, ""), (past, "")]).await;
        delete(&server, "/topics/rust/follow").await;
        delete(&server, "/topics/rust/follow").await;
        shows(&server, &[(later, ""), (private, ""), (own, ""), (past, "")]).await;
        let unseen = server.post("cy", "again #rust").await;
        let seen = server.post("bo", "again #rust").await;
        let unfollowed = loop {
            let event = next(&mut ann).await;
            assert_ne!(event.1, unseen);
            if event.1 == theirs {
                assert_eq!(event.2, "unfollowed");
            }
            if event.1 == seen {
                break event;
            }
        };
        assert_eq!(unfollowed, event("post", seen, ""));
    }
}

#[tokio::test]
async fn restrictions_standings_and_locks_apply_to_what_topics_bring() {
    for (server, _redis) in servers().await {
        put(&server, "/topics/rust/follow").await;
        let one = server.post("bo", "one #rust").await;
        let other = server.post("cy", "other #rust").await;
        let both = [(other, "rust"), (one, "rust")];
        let left = [(other, "rust")];
        let mut ann = Client::connect(&server, "ann").await;
        shows(&server, &both).await;
        for (begin, end) in [("/users/bo/mute", "/users/bo/mute"), ("/users/bo/block", "/users/bo/block")] {
            put(&server, begin).await;
            assert_eq!(home(&server).await, [(other, Some("rust".to_owned()))], "{begin}");
            assert_eq!(next(&mut ann).await.0, "gone", "{begin}");
            delete(&server, end).await;
            shows(&server, &both).await;
            assert_eq!(next(&mut ann).await, event("post", one, "rust"), "{begin}");
        }
        for what in ["hide", "block"] {
            server.done("bo", "PUT", &format!("/users/ann/{what}"), &Value::Null).await;
            assert_eq!(home(&server).await.len(), 1, "a {what} by the author");
            server.done("bo", "DELETE", &format!("/users/ann/{what}"), &Value::Null).await;
            shows(&server, &both).await;
        }
        let list = server.done("ann", "POST", "/lists", &json!({ "name": "apart", "exclusive": true })).await;
        let list = format!("/lists/{}", list["id"]);
        put(&server, &format!("{list}/users/bo")).await;
        assert_eq!(home(&server).await.len(), 1, "an exclusive list");
        delete(&server, &list).await;
        shows(&server, &both).await;

        for level in ["suspended", "limited"] {
            suspend(&server, "bo", level).await;
            shows(&server, &left).await;
            unsuspend(&server, "bo").await;
            shows(&server, &both).await;
        }
        server.done("bo", "PATCH", "/users/me", &json!({ "locked": true })).await;
        assert_eq!(home(&server).await.len(), 1, "a lock");
        let hidden = server.post("bo", "for followers now #rust").await;
        server.done("bo", "PATCH", "/users/me", &json!({ "locked": false })).await;
        shows(&server, &[(hidden, "rust"), (other, "rust"), (one, "rust")]).await;
        let filter = server.done("ann", "POST", "/filters", &json!({ "words": ["one"], "in": ["home"] })).await;
        assert_eq!(home(&server).await.len(), 2, "a filter");
        delete(&server, &format!("/filters/{}", filter["id"])).await;
        shows(&server, &[(hidden, "rust"), (other, "rust"), (one, "rust")]).await;
    }
}

#[tokio::test]
async fn posts_of_a_limited_author_come_and_go_with_the_follow() {
    for (server, _redis) in servers().await {
        put(&server, "/topics/rust/follow").await;
        let early = server.post("bo", "early #rust").await;
        shows(&server, &[(early, "rust")]).await;
        suspend(&server, "bo", "limited").await;
        shows(&server, &[]).await;
        let late = server.post("bo", "late #rust").await;
        let mut ann = Client::connect(&server, "ann").await;
        for round in 0..2 {
            put(&server, "/users/bo/follow").await;
            for post in [early, late] {
                while !matches!(next(&mut ann).await, (kind, id, _) if kind == "post" && id == post) {}
            }
            assert_eq!(home(&server).await, [(late, None), (early, None)], "round {round}");
            delete(&server, "/users/bo/follow").await;
            assert_eq!(home(&server).await, [], "round {round}");
            let gone = [next_gone(&mut ann).await.1, next_gone(&mut ann).await.1];
            assert!(gone.contains(&early) && gone.contains(&late), "round {round}: {gone:?}");
        }
        unsuspend(&server, "bo").await;
        shows(&server, &[(late, "rust"), (early, "rust")]).await;
    }
}

#[tokio::test]
async fn posts_that_change_just_before_an_unfollow_leave_the_timeline() {
    for (server, _redis) in servers().await {
        server.post("bo", "hello").await;
        let mut ann = Client::connect(&server, "ann").await;
        for n in 0..6 {
            put(&server, "/topics/rust/follow").await;
            let post = server.post("bo", &format!("{n} #rust")).await;
            assert_eq!(next(&mut ann).await, event("post", post, "rust"));
            let path = format!("/posts/{post}");
            match n % 2 {
                0 => drop(server.done("bo", "DELETE", &path, &Value::Null).await),
                _ => drop(server.done("bo", "PATCH", &path, &json!({ "text": "no more" })).await),
            }
            delete(&server, "/topics/rust/follow").await;
            assert_eq!(next_gone(&mut ann).await.1, post, "round {n}");
            // Another may follow.
            let end = server.post("ann", "the end").await;
            while next(&mut ann).await.1 != end {}
        }
    }
}

#[tokio::test]
async fn inboxes_are_filled_and_recovered_with_followed_topics() {
    for (server, _redis) in servers().await {
        let mut expected: Vec<(u64, &str)> = Vec::new();
        for n in 0..5 {
            expected.insert(0, (server.post("bo", &format!("{n} #rust #go")).await, "go"));
        }
        put(&server, "/topics/go/follow").await;
        shows(&server, &expected).await;
        // Written while nobody is connected.
        let position = get(&server, "/timeline").await["position"].clone();
        expected.insert(0, (server.post("cy", "#go").await, "go"));
        let path =
            format!("/timeline/updates?offset={}&epoch={}", position["offset"], position["epoch"].as_str().unwrap());
        until("the post is an update", async || {
            let updates = get(&server, &path).await;
            let items = updates["items"].as_array().expect("items");
            assert_eq!(updates["recovered"], true, "{updates}");
            items.len() == 1 && items[0]["data"]["post"]["via"] == json!({ "topic": "go" })
        })
        .await;
        // Small pages, each post once.
        let read = ids_by_pages(&server, "ann", "/timeline", 2).await;
        assert_eq!(read, expected.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_repost_of_what_a_topic_brought_is_no_second_post() {
    for (server, _redis) in servers().await {
        put(&server, "/topics/rust/follow").await;
        server.follow("ann", "dee").await;
        let mut ann = Client::connect(&server, "ann").await;
        let brought = server.post("bo", "#rust").await;
        assert_eq!(next(&mut ann).await, event("post", brought, "rust"));
        server.done("dee", "PUT", &format!("/posts/{brought}/repost"), &Value::Null).await;
        assert_eq!(next(&mut ann).await.0, "reposted");
        let page = get(&server, "/timeline").await;
        assert_eq!(page["items"].as_array().map(Vec::len), Some(1), "{page}");
        assert_eq!(page["items"][0]["reposted_by"]["people"], json!(["dee"]), "{page}");
        // Without the topic, the repost is what shows the post.
        delete(&server, "/topics/rust/follow").await;
        let page = get(&server, "/timeline").await;
        assert_eq!(page["items"][0]["repost"]["id"], brought, "{page}");
    }
}

#[tokio::test]
async fn followed_topics_are_bounded_listed_and_private() {
    for (server, _redis) in servers().await {
        for n in 0..100 {
            put(&server, &format!("/topics/t{n}/follow")).await;
        }
        let answer = server.call("ann", "PUT", "/topics/more/follow", &Value::Null).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body["error"]["code"]),
            (422, &json!("limit_exceeded")),
            "{answer:?}"
        );
        put(&server, "/topics/T7/follow").await;
        delete(&server, "/topics/t7/follow").await;
        put(&server, "/topics/more/follow").await;
        let page = get(&server, "/topics/followed").await;
        let names: Vec<&str> =
            page["items"].as_array().expect("items").iter().filter_map(|it| it["name"].as_str()).collect();
        assert_eq!((names.len(), names[0], names.contains(&"more"), names.contains(&"t7")), (100, "more", true, false));
        let others = server.done("bo", "GET", "/topics/followed", &Value::Null).await;
        assert_eq!(others, json!({ "items": [] }));
        assert_eq!(server.call("ann", "PUT", "/topics/1/follow", &Value::Null).await.status.as_u16(), 400);
    }
}

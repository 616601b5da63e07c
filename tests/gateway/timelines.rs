//! Timelines from the readers' view: live, in pages, and after a disconnection.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::Server;

fn ids(page: &Value) -> Vec<u64> {
    page["items"].as_array().expect("items").iter().map(|post| post["id"].as_u64().expect("an id")).collect()
}

/// Waits for a publication on the user's timeline about a post.
async fn received(client: &mut Client, user: &str, kind: &str, id: u64) -> Value {
    let publication = client.publication(&format!("timeline:{user}")).await;
    let data = publication["data"].clone();
    let about = data["post"]["id"].as_u64().or(data["id"].as_u64());
    assert_eq!((&data["type"], about), (&json!(kind), Some(id)), "{publication}");
    data
}

/// Reads all pages; returns the items in order.
async fn read_all(client: &mut Client, limit: u64) -> Vec<u64> {
    let mut read = Vec::new();
    let mut cursor = None;
    loop {
        let page = client.rpc("timeline.read", &json!({ "limit": limit, "cursor": cursor })).await;
        let ids = ids(&page);
        assert!(ids.len() as u64 <= limit);
        read.extend(ids);
        if page["next"].is_null() {
            return read;
        }
        cursor = Some(page["next"].clone());
    }
}

#[tokio::test]
async fn follows_add_and_unfollows_remove_posts_live() {
    let server = Server::start().await;
    let (one, two) = (server.post("bo", "one").await, server.post("bo", "two").await);
    let mut ann = Client::connect(&server, "ann").await;
    let own = server.post("ann", "mine").await;
    received(&mut ann, "ann", "post", own).await;
    assert_eq!(ids(&ann.rpc("timeline.read", &json!({})).await), [own]);

    ann.rpc("users.follow", &json!({ "id": "bo" })).await;
    assert_eq!(ids(&ann.rpc("timeline.read", &json!({})).await), [own, two, one], "in their right place, at once");
    received(&mut ann, "ann", "post", one).await;
    received(&mut ann, "ann", "post", two).await;
    let three = server.post("bo", "three").await;
    received(&mut ann, "ann", "post", three).await;

    server.done("bo", "DELETE", &format!("/posts/{two}"), &Value::Null).await;
    assert_eq!(received(&mut ann, "ann", "gone", two).await["reason"], "deleted");
    assert_eq!(ids(&ann.rpc("timeline.read", &json!({})).await), [three, own, one]);

    ann.rpc("users.unfollow", &json!({ "id": "bo" })).await;
    assert_eq!(ids(&ann.rpc("timeline.read", &json!({})).await), [own]);
    for id in [one, three] {
        assert_eq!(received(&mut ann, "ann", "gone", id).await["reason"], "unfollowed");
    }
    server.post("bo", "four").await;
    let own_too = server.post("ann", "mine too").await;
    received(&mut ann, "ann", "post", own_too).await;
    assert!(ann.pushed().await.is_empty(), "posts of users who are not followed do not arrive");
}

#[tokio::test]
async fn friends_only_posts_follow_the_friendship() {
    let mut server = Server::start().await;
    server.follow("ann", "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    let body = json!({ "text": "for friends", "visibility": "friends" });
    let id = server.done("bo", "POST", "/posts", &body).await["id"].as_u64().unwrap();
    let public = server.post("bo", "for everyone").await;
    received(&mut ann, "ann", "post", public).await;
    for _ in 0..2 {
        server.done("bo", "PUT", "/users/ann/follow", &Value::Null).await;
        received(&mut ann, "ann", "post", id).await;
        assert_eq!(ids(&ann.rpc("timeline.read", &json!({})).await), [public, id]);
        server.done("bo", "DELETE", "/users/ann/follow", &Value::Null).await;
        assert_eq!(received(&mut ann, "ann", "gone", id).await["reason"], "hidden");
        assert_eq!(ids(&ann.rpc("timeline.read", &json!({})).await), [public]);
        // A backfilled inbox contains posts that its owner may see now, and no posts that may become visible later.
        server.kill();
        server.start_again().await;
        ann = Client::connect(&server, "ann").await;
    }
}

#[tokio::test]
async fn posts_are_in_the_authors_timeline_when_acknowledged() {
    let server = Server::start().await;
    for n in 0..20 {
        let id = server.post("ann", &format!("post {n}")).await;
        let page = server.done("ann", "GET", "/timeline?limit=1", &Value::Null).await;
        assert_eq!(ids(&page), [id], "post {n}");
    }
}

#[tokio::test]
async fn deleted_posts_are_gone_when_acknowledged() {
    let server = Server::start().await;
    for n in 0..20 {
        let id = server.post("ann", &format!("post {n}")).await;
        server.done("ann", "DELETE", &format!("/posts/{id}"), &Value::Null).await;
        assert_eq!(server.call("bo", "GET", &format!("/posts/{id}"), &Value::Null).await.status, 404, "post {n}");
        assert!(ids(&server.done("ann", "GET", "/timeline", &Value::Null).await).is_empty(), "post {n}");
    }
}

#[tokio::test]
async fn pages_have_no_gap_or_repeat_while_posts_arrive() {
    let server = Server::start().await;
    server.follow("ann", "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut before = Vec::new();
    for n in 0..40 {
        before.push(server.post("bo", &format!("post {n}")).await);
    }
    receive_all(&mut ann, &before).await;
    before.reverse();
    let mut read = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = ann.rpc("timeline.read", &json!({ "limit": 7, "cursor": cursor })).await;
        assert!(ids(&page).len() <= 7);
        read.extend(ids(&page));
        let newer = server.post("bo", "newer").await;
        receive_all(&mut ann, &[newer]).await;
        if page["next"].is_null() {
            break;
        }
        cursor = page["next"].clone();
    }
    assert_eq!(read, before);
}

/// Waits until all these posts have arrived: posts of different authors arrive in any order.
async fn receive_all(client: &mut Client, ids: &[u64]) {
    let mut waited_for: BTreeSet<u64> = ids.iter().copied().collect();
    while !waited_for.is_empty() {
        let received = client.publication("timeline:ann").await["data"]["post"]["id"].as_u64();
        waited_for.remove(&received.expect("a post"));
    }
}

#[tokio::test]
async fn timelines_are_readable_to_the_first_post() {
    let server = Server::start_with(&[("timeline.length", "50"), ("timeline.follow_merge", "30")]).await;
    server.follow("ann", "bo").await;
    server.follow("ann", "cy").await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut all = Vec::new();
    for n in 0..300 {
        let author = ["bo", "cy", "ann"][n % 3];
        all.push(server.post(author, &format!("post {n}")).await);
    }
    receive_all(&mut ann, &all).await;
    all.reverse();
    assert_eq!(read_all(&mut ann, 33).await, all);
    assert_eq!(read_all(&mut ann, 100).await, all);
    server.done("bo", "DELETE", &format!("/posts/{}", all[290]), &Value::Null).await;
    server.done("bo", "DELETE", &format!("/posts/{}", all[5]), &Value::Null).await;
    let (old, new) = (all[290], all[5]);
    all.retain(|id| ![old, new].contains(id));
    assert_eq!(read_all(&mut ann, 20).await, all, "holes do not show");
    // The posts of an author followed late are older than the end of the inbox.
    let mut dee = Client::connect(&server, "dee").await;
    dee.rpc("users.follow", &json!({ "id": "bo" })).await;
    let page = server.done("ann", "GET", "/users/bo/posts?limit=100", &Value::Null).await;
    assert_eq!(read_all(&mut dee, 9).await, ids(&page));
}

#[tokio::test]
async fn http_updates_equal_socket_recovery() {
    let server = Server::start().await;
    server.follow("ann", "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    let position = ann.rpc("timeline.read", &json!({})).await["position"].clone();
    let one = server.post("bo", "one").await;
    server.post("bo", "two").await;
    receive_all(&mut ann, &[one]).await;
    server.done("bo", "DELETE", &format!("/posts/{one}"), &Value::Null).await;
    while ann.publication("timeline:ann").await["data"]["type"] != "gone" {}
    drop(ann);
    let (offset, epoch) = (&position["offset"], position["epoch"].as_str().unwrap());
    let path = format!("/timeline/updates?offset={offset}&epoch={epoch}");
    let updates = server.done("ann", "GET", &path, &Value::Null).await;
    assert_eq!(updates["recovered"], true);
    let items = updates["items"].as_array().unwrap();
    let kinds: Vec<&str> = items.iter().map(|item| item["data"]["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["gone", "post", "gone"], "a deleted post is reported as gone at its position");
    let (_ann, recovered) = Client::recover(&server, "ann", &position).await;
    assert_eq!(recovered["recovered"], true);
    let publications = recovered["publications"].as_array().unwrap();
    let same = |one: &Value| json!({ "offset": one["offset"], "data": one["data"] });
    assert_eq!(publications.iter().map(same).collect::<Vec<_>>(), *items);
    assert_eq!(updates["position"]["offset"], items.last().unwrap()["offset"]);
    let far = format!("/timeline/updates?offset={}&epoch={epoch}", offset.as_u64().unwrap() + 99);
    assert_eq!(server.done("ann", "GET", &far, &Value::Null).await["recovered"], false);
}

#[tokio::test]
async fn updates_past_the_retention_are_not_recovered() {
    let server = Server::start_with(&[("timeline.length", "20")]).await;
    let position = server.done("ann", "GET", "/timeline", &Value::Null).await["position"].take();
    let (from, epoch) = (position["offset"].as_u64().unwrap(), position["epoch"].as_str().unwrap());
    let since = |offset: u64| format!("/timeline/updates?offset={offset}&epoch={epoch}");
    for n in 0..130 {
        server.post("ann", &format!("post {n}")).await;
    }
    assert_eq!(server.done("ann", "GET", &since(from), &Value::Null).await["recovered"], false);
    let updates = server.done("ann", "GET", &since(from + 125), &Value::Null).await;
    assert_eq!((&updates["recovered"], updates["items"].as_array().map(Vec::len)), (&json!(true), Some(5)));
}

#[tokio::test]
async fn pages_and_live_stream_join_without_gap_or_repeat() {
    let server = Server::start().await;
    server.follow("ann", "bo").await;
    let mut written = Vec::new();
    let mut seen: Vec<u64> = Vec::new();
    let mut ann = Client::connect(&server, "ann").await;
    for n in 0..30 {
        written.push(server.post("bo", &format!("post {n}")).await);
    }
    let page = ann.rpc("timeline.read", &json!({ "limit": 100 })).await;
    for n in 30..40 {
        written.push(server.post("bo", &format!("post {n}")).await);
    }
    let top = page["position"]["offset"].as_u64().unwrap();
    seen.extend(ids(&page).iter().rev());
    while seen.last() != written.last() {
        let publication = ann.publication("timeline:ann").await;
        if publication["offset"].as_u64().unwrap() > top {
            seen.push(publication["data"]["post"]["id"].as_u64().unwrap());
        }
    }
    assert_eq!(seen, written);
}

#[tokio::test]
async fn acknowledged_writes_survive_a_kill() {
    let mut server = Server::start().await;
    for reader in ["ann", "dee", "eve"] {
        server.follow(reader, "bo").await;
    }
    let mut written = Vec::new();
    for round in 0..3 {
        for n in 0..5 {
            written.push(server.post("bo", &format!("post {round} {n}")).await);
        }
        server.kill();
        server.start_again().await;
    }
    written.reverse();
    for reader in ["ann", "dee", "eve", "bo"] {
        let mut client = Client::connect(&server, reader).await;
        assert_eq!(read_all(&mut client, 4).await, written, "{reader}");
    }
    assert!(server.stop().await.success());
    server.start_again().await;
    let page = server.done("ann", "GET", "/timeline", &Value::Null).await;
    assert_eq!(ids(&page), written);
}

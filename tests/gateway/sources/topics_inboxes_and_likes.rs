//! Source 002: topics, bounded inboxes with pushes to active users, scrolling, likes.

use std::collections::BTreeSet;

use serde_json::json;

use super::{carried, delete, everything, get, ids, liked, names, put, received, timeline, write_many};
use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::server::Server;

#[tokio::test]
async fn topic_timelines_page_past_the_newest_thousand() {
    let redis = RedisServer::start();
    let url = redis.url();
    let keys = [("broker.url", url.as_str()), ("client.commands_per_second", "0"), ("ledger.durability", "normal")];
    let server = Server::start_with(&keys).await;
    let mut ann = Client::connect(&server, "ann").await;
    // Somebody listens: the log of a topic without readers is not kept.
    Client::connect(&server, "bo").await.subscribe("topic:feeds").await;
    let mut newest_first = Vec::new();
    // The source let an inbox grow to 1,020 entries and trimmed it to 1,000; here readers always see at most 1,000.
    for many in [999, 1_000, 1_001, 1_020, 1_021] {
        let more = write_many(&mut ann, many - newest_first.len(), "about #feeds").await;
        newest_first.splice(0..0, more.into_iter().rev());
        let seen = many.min(1_000);
        let plaza = everything(&mut ann, "topics.read", json!({ "name": "feeds" })).await;
        assert_eq!(plaza, newest_first[..seen], "of {many}");
        let listed = ann.rpc("topics.list", &json!({})).await;
        assert_eq!((&listed["items"][0]["name"], &listed["items"][0]["posts"]), (&json!("feeds"), &json!(seen)));
    }
    // The plaza is read from the ledger. Redis stores no set of it, only the end of the log from which subscribers
    // recover, trimmed occasionally.
    carried(&server, newest_first.len()).await;
    let length: u64 = redis.ask("XLEN feedline:{topic:feeds}:l").trim_start_matches(':').parse().expect("a length");
    assert!((100..=200).contains(&length), "{length} entries");
}

#[tokio::test]
async fn followers_and_followees_are_listed() {
    let server = Server::start().await;
    for (user, target) in [("ann", "bo"), ("ann", "cy"), ("dee", "bo")] {
        server.follow(user, target).await;
    }
    assert_eq!(names(&get(&server, "ann", "/users/ann/following").await), ["cy", "bo"]);
    assert_eq!(names(&get(&server, "ann", "/users/bo/followers").await), ["dee", "ann"]);
}

#[tokio::test]
async fn timelines_page_past_the_bounded_inbox() {
    let redis = RedisServer::start();
    let server = Server::start_with(&[("broker.url", &redis.url()), ("timeline.length", "20")]).await;
    server.follow("ann", "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut written = Vec::new();
    for _ in 0..250 {
        written.insert(0, server.post("bo", "a post").await);
        received(&mut ann, "ann").await;
    }
    let length: u64 = redis.ask("XLEN feedline:{timeline:ann}:l").trim_start_matches(':').parse().expect("a length");
    assert!((20..=120).contains(&length), "the inbox is trimmed occasionally: {length}");
    assert_eq!(everything(&mut ann, "timeline.read", json!({})).await, written, "down to the very first");
}

#[tokio::test]
async fn only_active_users_get_inbox_writes() {
    let server = Server::start().await;
    server.follow("here", "ann").await;
    server.follow("away", "ann").await;
    let mut here = Client::connect(&server, "here").await;
    let post = server.post("ann", "a post").await;
    assert_eq!(received(&mut here, "here").await, ("post".into(), post));
    server.metric_is(r#"feedline_fanout_inboxes_total{outcome="absent"}"#, 2.0).await;
    assert_eq!(server.metric(r#"feedline_fanout_inboxes_total{outcome="live"}"#).await, Some(1.0));
    assert_eq!(timeline(&server, "away").await, [post], "no post is missing");
}

#[tokio::test]
async fn follows_merge_and_remove_posts_within_the_inbox_window() {
    let server = Server::start_with(&[("timeline.follow_merge", "3")]).await;
    let mut theirs = Vec::new();
    for _ in 0..5 {
        theirs.insert(0, server.post("bo", "a post").await);
    }
    let mut ann = Client::connect(&server, "ann").await;
    server.follow("ann", "bo").await;
    for id in theirs[..3].iter().rev() {
        assert_eq!(received(&mut ann, "ann").await, ("post".into(), *id), "its newest, in their order");
    }
    assert_eq!(timeline(&server, "ann").await, theirs, "and the rest is pulled");
    delete(&server, "ann", "/users/bo/follow").await;
    let mut gone = BTreeSet::new();
    for _ in 0..3 {
        let (kind, id) = received(&mut ann, "ann").await;
        assert_eq!(kind, "gone");
        gone.insert(id);
    }
    assert_eq!(gone, theirs[..3].iter().copied().collect());
    assert!(timeline(&server, "ann").await.is_empty());
}

#[tokio::test]
async fn pagination_is_stable_while_posts_arrive() {
    let server = Server::start().await;
    server.follow("ann", "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut written = Vec::new();
    for _ in 0..12 {
        written.insert(0, server.post("bo", "a post").await);
        received(&mut ann, "ann").await;
    }
    let (mut read, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(&server, "ann", &format!("/timeline?limit=5{cursor}")).await;
        read.extend(ids(&page));
        assert!(written.starts_with(&read), "{read:?}, not {written:?}");
        // More posts arrive, and another device starts from the top.
        server.post("bo", "another").await;
        received(&mut ann, "ann").await;
        get(&server, "ann", "/timeline?limit=5").await;
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(read, written);
}

#[tokio::test]
async fn likes_are_acknowledged_at_once_and_written_in_batches() {
    let server = Server::start().await;
    let post = server.post("ann", "a post").await;
    let mut bo = Client::connect(&server, "bo").await;
    // Likes and unlikes in quick succession: each is answered at once, and the last state counts.
    let mut asked = Vec::new();
    for n in 0..21 {
        let method = if n % 2 == 0 { "likes.add" } else { "likes.remove" };
        asked.push(bo.command(json!({ "rpc": { "method": method, "data": { "post": post } } })).await);
    }
    for (n, id) in asked.into_iter().enumerate() {
        let answer = bo.reply(id).await["rpc"]["data"].clone();
        let expected = json!({ "state": "accepted", "liked": n % 2 == 0, "likes": u64::from(n % 2 == 0) });
        assert_eq!(answer, expected, "{n}");
    }
    // A repeated like is counted once.
    assert_eq!(put(&server, "bo", &format!("/posts/{post}/like")).await["likes"], 1);
    assert_eq!(put(&server, "cy", &format!("/posts/{post}/like")).await["likes"], 2);
    liked(&server, post, 2).await;
    let mut likers = get(&server, "ann", &format!("/posts/{post}/likes")).await;
    likers["items"].as_array_mut().expect("items").sort_by_key(|user| user["id"].to_string());
    assert_eq!(names(&likers), ["bo", "cy"]);
    let merged = server.metric("feedline_likes_merged_total").await.expect("a sample");
    assert!(merged >= 1.0, "some were settled together: {merged}");
}

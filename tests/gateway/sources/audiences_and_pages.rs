//! Source 000: posts with an audience, outboxes and inboxes, pages with their expansions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{carried, get, ids, liked, publish, put, received, timeline};
use crate::client::Client;
use crate::reading::{cost, equal_costs};
use crate::redis_server::RedisServer;
use crate::server::Server;

#[tokio::test]
async fn posts_reach_their_audience_and_the_authors_outbox() {
    for inboxes in [Inboxes::Before, Inboxes::After] {
        check_posts_reach_their_audience(inboxes).await;
    }
}

/// When the readers' inboxes are created: before publishing (posts are fanned out) or after (posts are backfilled).
#[derive(Clone, Copy, Debug, PartialEq)]
enum Inboxes {
    Before,
    After,
}

async fn check_posts_reach_their_audience(inboxes: Inboxes) {
    let server = Server::start().await;
    for reader in ["friend", "fan", "hidden", "muting"] {
        server.follow(reader, "ann").await;
        if inboxes == Inboxes::Before {
            timeline(&server, reader).await;
        }
    }
    server.follow("ann", "friend").await;
    put(&server, "ann", "/users/hidden/hide").await;
    put(&server, "muting", "/users/ann/mute").await;
    let mut posts = Vec::new();
    for visibility in [json!("public"), json!("friends"), json!({ "only_to": ["fan"] }), json!({ "not_to": ["fan"] })] {
        posts.push(publish(&server, "ann", visibility).await);
    }
    carried(&server, posts.len()).await;
    let newest_first = |of: &[usize]| of.iter().rev().map(|n| posts[*n]).collect::<Vec<_>>();
    for (reader, inbox) in
        [("ann", &[0, 1, 2, 3][..]), ("friend", &[0, 1, 3]), ("fan", &[0, 2]), ("hidden", &[]), ("muting", &[])]
    {
        assert_eq!(timeline(&server, reader).await, newest_first(inbox), "{reader}, {inboxes:?}");
    }
    assert_eq!(ids(&get(&server, "ann", "/users/ann/posts").await), newest_first(&[0, 1, 2, 3]), "the outbox");
    assert_eq!(ids(&get(&server, "friend", "/users/ann/posts").await), newest_first(&[0, 1, 3]));
}

#[tokio::test]
async fn hiding_from_users_removes_posts_from_their_timelines() {
    let server = Server::start().await;
    server.follow("bo", "ann").await;
    let mut bo = Client::connect(&server, "bo").await;
    let (mine, theirs) = (server.post("ann", "mine").await, server.post("bo", "theirs").await);
    assert_eq!(
        BTreeSet::from([received(&mut bo, "bo").await.1, received(&mut bo, "bo").await.1]),
        [mine, theirs].into()
    );
    put(&server, "ann", "/users/bo/hide").await;
    assert_eq!(received(&mut bo, "bo").await, ("gone".into(), mine));
    assert_eq!(timeline(&server, "bo").await, [theirs]);
}

#[tokio::test]
async fn expanded_pages_take_a_fixed_number_of_round_trips() {
    let redis = RedisServer::start();
    let server = Server::start_with(&[("broker.url", &redis.url())]).await;
    let mut ann = Client::connect(&server, "ann").await;
    for n in 0..30 {
        let [author, fan, critic] = ["author", "fan", "critic"].map(|who| format!("{who}-{n}"));
        server.follow("ann", &author).await;
        let post = server.post(&author, "a post").await;
        for liker in ["ann", &fan] {
            put(&server, liker, &format!("/posts/{post}/like")).await;
        }
        for said in ["first", "second"] {
            let comment = json!({ "text": said });
            server.done(&critic, "POST", &format!("/posts/{post}/comments"), &comment).await;
        }
        liked(&server, post, 2).await;
    }
    let all = json!(["likers", "comments", "people"]);
    let page = ann.rpc("timeline.read", &json!({ "limit": 30, "with": all })).await;
    for (item, n) in page["items"].as_array().expect("items").iter().zip((0..30).rev()) {
        let [author, fan, critic] = ["author", "fan", "critic"].map(|who| format!("{who}-{n}"));
        assert_eq!((&item["likes"], &item["comments"], &item["liked"]), (&json!(2), &json!(2), &json!(true)), "{item}");
        assert_eq!((&item["author"], &item["likers"]), (&json!(author), &json!([fan, "ann"])), "latest first");
        let comments = item["newest_comments"].as_array().expect("comments");
        let said: Vec<_> = comments.iter().map(|comment| (&comment["author"], &comment["text"])).collect();
        assert_eq!(said, [(&json!(critic), &json!("second")), (&json!(critic), &json!("first"))]);
        for who in [&author, &fan, &critic] {
            assert_eq!(page["people"][who]["name"], who.as_str());
        }
    }
    // `reading` compares the cost of pages with 1, 20 and 100 posts, with every store; this test checks that comments
    // and likes of a post add no cost.
    let costs = equal_costs(async || {
        let mut costs = Vec::new();
        for limit in [3, 30] {
            costs.push(cost(&server, &mut ann, "timeline.read", &json!({ "limit": limit, "with": all })).await);
        }
        costs
    })
    .await;
    assert_eq!(costs[0], costs[1]);
    assert!(costs[0].0 + costs[0].1 <= 8, "{costs:?}");
}

#[tokio::test]
async fn posts_carry_media_audio_and_location_up_to_a_documented_limit() {
    let server = Server::start().await;
    let media = |kind: &str| json!({ "type": kind, "url": format!("https://example.org/{kind}"), "alt": "what it is" });
    let post = json!({ "text": "look", "media": [media("image"), media("video"), media("audio")],
        "location": { "lat": 52.5, "lon": 13.4, "name": "Berlin" } });
    let made = server.done("ann", "POST", "/posts", &post).await;
    let read = get(&server, "bo", &format!("/posts/{}", made["id"])).await;
    assert_eq!((&read["media"], &read["location"]), (&post["media"], &post["location"]));
    let much = json!({ "text": "look", "media": vec![media("image"); 10] });
    let refused = server.call("ann", "POST", "/posts", &much).await;
    assert_eq!((refused.status.as_u16(), &refused.body["error"]["field"]), (422, &json!("media")), "{refused:?}");
    let page = server.call("ann", "GET", "/timeline?limit=101", &Value::Null).await;
    assert!(page.status.is_client_error() && page.body["error"]["field"] == "limit", "{page:?}");
}

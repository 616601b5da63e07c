//! Hiding, muting and blocking: immediate effects, and information that stays hidden from the other user.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::server::{Server, until};

async fn set(server: &Server, user: &str, what: &str, target: &str) {
    server.done(user, "PUT", &format!("/users/{target}/{what}"), &Value::Null).await;
}

async fn clear(server: &Server, user: &str, what: &str, target: &str) {
    server.done(user, "DELETE", &format!("/users/{target}/{what}"), &Value::Null).await;
}

async fn status(server: &Server, user: &str, method: &str, path: &str) -> u16 {
    server.call(user, method, path, &Value::Null).await.status.as_u16()
}

/// The next publication on the user's timeline must be of this kind, about this post.
async fn received(client: &mut Client, user: &str, kind: &str, id: u64) -> Value {
    let data = client.publication(&format!("timeline:{user}")).await["data"].take();
    let about = data["post"]["id"].as_u64().or(data["id"].as_u64());
    assert_eq!((&data["type"], about), (&json!(kind), Some(id)), "{data}");
    data
}

async fn ids(server: &Server, user: &str, path: &str) -> Vec<u64> {
    let page = server.done(user, "GET", path, &Value::Null).await;
    page["items"].as_array().expect("items").iter().map(|item| item["id"].as_u64().expect("an id")).collect()
}

async fn names(server: &Server, user: &str, path: &str) -> Vec<String> {
    let page = server.done(user, "GET", path, &Value::Null).await;
    page["items"].as_array().expect("items").iter().map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn mutes_and_hides_remove_posts_and_their_end_restores_them_live() {
    let server = Server::start().await;
    server.follow("ann", "bo").await;
    server.follow("bo", "ann").await;
    server.follow("cy", "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut cy = Client::connect(&server, "cy").await;
    let (one, two) = (server.post("bo", "one").await, server.post("bo", "two").await);
    for id in [one, two] {
        received(&mut ann, "ann", "post", id).await;
        received(&mut cy, "cy", "post", id).await;
    }
    for (maker, what, target) in [("ann", "mute", "bo"), ("bo", "hide", "ann")] {
        set(&server, maker, what, target).await;
        set(&server, maker, what, target).await;
        assert_eq!(ids(&server, "ann", "/timeline").await, [] as [u64; 0], "{what}: with the answer");
        for id in [one, two] {
            assert_eq!(received(&mut ann, "ann", "gone", id).await["reason"], "hidden", "{what}");
        }
        let unseen = server.post("bo", "unseen meanwhile").await;
        // The post has been fanned out to all of its audience.
        received(&mut cy, "cy", "post", unseen).await;
        clear(&server, maker, what, target).await;
        clear(&server, maker, what, target).await;
        assert_eq!(ids(&server, "ann", "/timeline").await, [unseen, two, one], "{what}: back with the answer");
        for id in [one, two, unseen] {
            received(&mut ann, "ann", "post", id).await;
        }
        server.done("bo", "DELETE", &format!("/posts/{unseen}"), &Value::Null).await;
        received(&mut ann, "ann", "gone", unseen).await;
        received(&mut cy, "cy", "gone", unseen).await;
    }
    let profile = server.done("ann", "GET", "/users/bo", &Value::Null).await;
    assert_eq!((&profile["edges"]["following"], &profile["edges"]["followed_by"]), (&json!(true), &json!(true)));
}

#[tokio::test]
async fn concurrent_restrict_and_lift_leave_the_final_state() {
    let server = Server::start().await;
    server.follow("ann", "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    let id = server.post("bo", "one").await;
    received(&mut ann, "ann", "post", id).await;
    let all = [("ann", "mute", "muting", "bo"), ("bo", "hide", "hiding", "ann"), ("ann", "follow", "following", "bo")];
    for (maker, what, edge, target) in all {
        for _ in 0..20 {
            tokio::join!(set(&server, maker, what, target), clear(&server, maker, what, target));
            // Either operation may be applied last.
            let edges = server.done(maker, "GET", &format!("/users/{target}"), &Value::Null).await["edges"].take();
            let is_shown = edges[edge] == json!(what == "follow");
            let shown: &[u64] = if is_shown { &[id] } else { &[] };
            // A job with an unfinished one before it runs again after that, which may be after the reply.
            until(&format!("{what}: {edges}"), async || ids(&server, "ann", "/timeline").await == shown).await;
            match what {
                "follow" => set(&server, maker, what, target).await,
                _ => clear(&server, maker, what, target).await,
            }
            let initial = format!("{what}: as at the beginning");
            until(&initial, async || ids(&server, "ann", "/timeline").await == [id]).await;
        }
    }
    // The log's final state equals the timeline.
    let position = ann.rpc("timeline.read", &json!({})).await["position"].clone();
    let mut last = Value::Null;
    while last["offset"] != position["offset"] {
        last = ann.publication("timeline:ann").await;
    }
    assert_eq!(last["data"]["type"], "post", "{last}");
}

#[tokio::test]
async fn inboxes_built_during_a_mute_show_posts_after_it_ends() {
    let server = Server::start().await;
    server.follow("ann", "bo").await;
    let (one, two) = (server.post("bo", "one").await, server.post("ann", "two").await);
    set(&server, "ann", "mute", "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    assert_eq!(ids(&server, "ann", "/timeline").await, [two]);
    clear(&server, "ann", "mute", "bo").await;
    received(&mut ann, "ann", "post", one).await;
    assert_eq!(ids(&server, "ann", "/timeline").await, [two, one]);
}

#[tokio::test]
async fn blocks_apply_in_both_directions_at_once() {
    let server = Server::start().await;
    server.follow("ann", "bo").await;
    server.follow("bo", "ann").await;
    server.follow("cy", "ann").await;
    server.follow("cy", "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut bo = Client::connect(&server, "bo").await;
    let mut cy = Client::connect(&server, "cy").await;
    let (by_ann, by_bo) = (server.post("ann", "by ann #t").await, server.post("bo", "by bo #t").await);
    for (client, user) in [(&mut ann, "ann"), (&mut bo, "bo"), (&mut cy, "cy")] {
        for id in [by_ann, by_bo] {
            client.publication(&format!("timeline:{user}")).await;
            client.subscribe(&format!("post:{id}")).await;
        }
        client.subscribe("user:ann").await;
    }
    set(&server, "ann", "block", "bo").await;
    assert_eq!(received(&mut ann, "ann", "gone", by_bo).await["reason"], "hidden");
    assert_eq!(received(&mut bo, "bo", "gone", by_ann).await["reason"], "hidden");
    assert_eq!(
        (ids(&server, "ann", "/timeline").await, ids(&server, "bo", "/timeline").await),
        (vec![by_ann], vec![by_bo])
    );

    // The blocked user cannot see the blocking user; the blocking user can still see the blocked one, to end the block.
    for path in
        ["/users/ann", "/users/ann/posts", "/users/ann/followers", "/users/ann/following", &format!("/posts/{by_ann}")]
    {
        assert_eq!(status(&server, "bo", "GET", path).await, 404, "{path}");
    }
    assert_eq!(status(&server, "bo", "PUT", "/users/ann/follow").await, 404);
    let missing = server.call("bo", "GET", "/users/ann", &Value::Null).await.body;
    assert_eq!(
        missing,
        server.call("bo", "GET", "/users/nobody", &Value::Null).await.body,
        "the same reply as for an unknown user"
    );
    assert_eq!(bo.refused(json!({ "subscribe": { "channel": "user:ann-who-is-not-here", "token": "x" } })).await, 103);
    let profile = server.done("ann", "GET", "/users/bo", &Value::Null).await;
    assert_eq!((&profile["followers"], &profile["following"]), (&json!(1), &json!(0)), "the follows have ended");
    assert_eq!(profile["edges"]["blocking"], true);
    assert_eq!(ids(&server, "ann", "/users/bo/posts").await, [] as [u64; 0]);
    assert_eq!(status(&server, "ann", "PUT", "/users/bo/follow").await, 409);
    // Other users see both, and neither of the two sees the other in a list.
    assert_eq!(names(&server, "ann", "/users/cy/following").await, ["ann"]);
    assert_eq!(names(&server, "bo", "/users/cy/following").await, ["bo"]);
    assert_eq!(names(&server, "cy", "/users/cy/following").await, ["bo", "ann"]);

    // Existing subscribers receive nothing on these channels any more.
    server.done("ann", "PATCH", &format!("/posts/{by_ann}"), &json!({ "text": "changed" })).await;
    let after = server.post("ann", "after").await;
    for client in [&mut ann, &mut cy] {
        assert_eq!(client.publication(&format!("post:{by_ann}")).await["data"]["type"], "edited");
        assert_eq!(client.publication("user:ann").await["data"]["type"], "edited");
        assert_eq!(client.publication("user:ann").await["data"]["post"]["id"], after);
    }
    let own = server.post("bo", "own").await;
    received(&mut bo, "bo", "post", own).await;
    // Notifications about the earlier follow are allowed, and the ends of subscriptions.
    let elsewhere = |push: &Value| {
        let is_notification = push["channel"].as_str().is_some_and(|channel| channel.starts_with("notifications:"));
        !is_notification && push.get("unsubscribe").is_none()
    };
    let heard: Vec<Value> = bo.pushed().await.into_iter().filter(elsewhere).collect();
    assert!(heard.is_empty(), "{heard:?}");

    clear(&server, "ann", "block", "bo").await;
    assert_eq!(status(&server, "bo", "GET", "/users/ann").await, 200);
    assert_eq!(ids(&server, "bo", "/timeline").await, [own, by_bo], "the end of the block restores no follow");
    server.done("bo", "PUT", "/users/ann/follow", &Value::Null).await;
    assert_eq!(ids(&server, "bo", "/timeline").await, [own, after, by_bo, by_ann]);
}

#[tokio::test]
async fn hides_and_mutes_are_not_revealed() {
    let server = Server::start().await;
    server.follow("bo", "ann").await;
    let before = server.done("bo", "GET", "/users/ann", &Value::Null).await;
    for what in ["hide", "mute"] {
        set(&server, "ann", what, "bo").await;
    }
    assert_eq!(server.done("bo", "GET", "/users/ann", &Value::Null).await, before);
    let mine = server.done("ann", "GET", "/users/bo", &Value::Null).await["edges"].take();
    let expected = json!({ "following": false, "followed_by": true, "hiding": true, "muting": true, "blocking": false,
        "notify": false, "requested": false, "requested_by": false, "reposts_off": false });
    assert_eq!(mine, expected);
    for what in ["hide", "mute", "block"] {
        assert_eq!(status(&server, "ann", "PUT", &format!("/users/ann/{what}")).await, 400, "{what} oneself");
        assert_eq!(status(&server, "ann", "PUT", &format!("/users/nobody/{what}")).await, 404, "{what} nobody");
    }
}

#[tokio::test]
async fn long_runs_of_hidden_posts_leave_full_pages() {
    let server = Server::start_with(&[("timeline.length", "30")]).await;
    server.follow("ann", "bo").await;
    let mut seen = Vec::new();
    for n in 0..120 {
        let visibility = if n % 30 == 7 { json!("public") } else { json!({ "only_to": ["cy"] }) };
        let post = json!({ "text": format!("post {n} #t"), "visibility": visibility });
        let id = server.done("bo", "POST", "/posts", &post).await["id"].as_u64().expect("an id");
        if n % 30 == 7 {
            seen.insert(0, id);
        }
    }
    for path in ["/timeline", "/users/bo/posts", "/topics/t/posts"] {
        let first = server.done("ann", "GET", &format!("{path}?limit=3"), &Value::Null).await;
        let (items, next) = (first["items"].as_array().expect("items"), first["next"].as_str().expect("more"));
        assert_eq!(
            items.iter().map(|item| item["id"].as_u64().expect("an id")).collect::<Vec<_>>(),
            seen[..3],
            "{path}"
        );
        assert_eq!(ids(&server, "ann", &format!("{path}?limit=3&cursor={next}")).await, seen[3..], "{path}");
        assert_eq!(
            server.done("ann", "GET", &format!("{path}?limit=4"), &Value::Null).await["next"],
            Value::Null,
            "{path}"
        );
    }
}

/// The channel of the subscription that the server ends within a second.
async fn access_lost(client: &mut Client, channel: &str) {
    let ended = tokio::time::timeout(Duration::from_secs(1), client.push_of(channel, "unsubscribe")).await;
    let ended = ended.unwrap_or_else(|_| panic!("{channel} is still subscribed"));
    assert_eq!(ended, json!({ "code": 2000, "reason": "no longer visible" }), "{channel}");
}

#[tokio::test]
async fn lost_access_ends_open_subscriptions_on_all_nodes() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("a temporary directory"));
    let (url, ledger) = (redis.url(), format!("sqlite://{}", folder.path().join("ledger.db").display()));
    let shared = [("broker.url", url.as_str()), ("ledger.url", ledger.as_str())];
    for keys in [&[][..], &shared[..]] {
        let server = Server::start_with(keys).await;
        let other_node = if keys.is_empty() { None } else { Some(Server::start_with(keys).await) };
        let node = other_node.as_ref().unwrap_or(&server);
        let (by_ann, by_cy) = (server.post("ann", "by ann").await, server.post("cy", "by cy").await);
        let by_bo = server.post("bo", "by bo").await;
        let own = json!({ "text": "for followers", "visibility": "followers" });
        let narrow = server.done("cy", "POST", "/posts", &own).await["id"].as_u64().expect("an id");
        server.follow("bo", "cy").await;
        let (mut ann, mut bo) = (Client::connect(&server, "ann").await, Client::connect(node, "bo").await);
        let mut bo_here = Client::connect(&server, "bo").await;
        for client in [&mut bo, &mut bo_here] {
            for channel in ["user:ann", "user:cy", "topic:t"] {
                client.subscribe(channel).await;
            }
            for post in [by_ann, by_cy, narrow] {
                client.subscribe(&format!("post:{post}")).await;
            }
        }
        for channel in [format!("post:{by_bo}"), "user:bo".to_owned()] {
            ann.subscribe(&channel).await;
        }

        set(&server, "ann", "block", "bo").await;
        for client in [&mut bo, &mut bo_here] {
            access_lost(client, "user:ann").await;
            access_lost(client, &format!("post:{by_ann}")).await;
        }
        // The blocking user reads the profile of the blocked one to end the block, and none of the posts.
        access_lost(&mut ann, &format!("post:{by_bo}")).await;
        // Only followers may read a post for followers. A repeated subscription is refused.
        server.done("bo", "DELETE", "/users/cy/follow", &Value::Null).await;
        for client in [&mut bo, &mut bo_here] {
            access_lost(client, &format!("post:{narrow}")).await;
            assert_eq!(client.refused(json!({ "subscribe": { "channel": "user:ann" } })).await, 102);
        }
        // A post that is hidden from a user.
        set(&server, "cy", "hide", "bo").await;
        for client in [&mut bo, &mut bo_here] {
            access_lost(client, &format!("post:{by_cy}")).await;
            let left = client.pushed().await;
            let ended = left.iter().filter(|push| push.get("unsubscribe").is_some()).count();
            assert_eq!(ended, 0, "a profile that can still be read, and a topic, stay: {left:?}");
        }
        assert!(ann.pushed().await.iter().all(|push| push.get("unsubscribe").is_none()), "her view of a profile stays");
    }
}

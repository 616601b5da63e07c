//! The rows that each source must be able to tick: a test each, named after the source and what it can do.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::reading::cost;
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server};

async fn get(server: &Server, user: &str, path: &str) -> Value {
    server.done(user, "GET", path, &Value::Null).await
}

async fn put(server: &Server, user: &str, path: &str) -> Value {
    server.done(user, "PUT", path, &Value::Null).await
}

async fn delete(server: &Server, user: &str, path: &str) -> Value {
    server.done(user, "DELETE", path, &Value::Null).await
}

/// Publishes for whom it says; the id.
async fn publish(server: &Server, user: &str, visibility: Value) -> u64 {
    let post = json!({ "text": "a post", "visibility": visibility });
    server.done(user, "POST", "/posts", &post).await["id"].as_u64().expect("an id")
}

fn ids(page: &Value) -> Vec<u64> {
    page["items"].as_array().expect("items").iter().map(|item| item["id"].as_u64().expect("an id")).collect()
}

fn names(page: &Value) -> Vec<&str> {
    page["items"].as_array().expect("items").iter().map(|item| item["id"].as_str().expect("an id")).collect()
}

async fn timeline(server: &Server, user: &str) -> Vec<u64> {
    ids(&get(server, user, "/timeline?limit=100").await)
}

/// All of a list, page by page.
async fn everything(client: &mut Client, method: &str, mut input: Value) -> Vec<u64> {
    let mut all = Vec::new();
    input["limit"] = json!(100);
    loop {
        let page = client.rpc(method, &input).await;
        all.extend(ids(&page));
        match page.get("next") {
            Some(next) => input["cursor"] = next.clone(),
            None => return all,
        }
    }
}

/// Posts many times, a hundred commands on their way at once; the ids, oldest first.
async fn write_many(client: &mut Client, many: usize, text: &str) -> Vec<u64> {
    let mut written = Vec::new();
    while written.len() < many {
        let mut asked = Vec::new();
        for _ in 0..100.min(many - written.len()) {
            let post = json!({ "rpc": { "method": "posts.create", "data": { "text": text } } });
            asked.push(client.command(post).await);
        }
        for id in asked {
            written.push(client.reply(id).await["rpc"]["data"]["id"].as_u64().expect("an id"));
        }
    }
    written
}

/// What the user's timeline tells next: the type, and the post.
async fn told(client: &mut Client, user: &str) -> (String, u64) {
    let data = client.publication(&format!("timeline:{user}")).await["data"].clone();
    let id = data["post"]["id"].as_u64().or(data["id"].as_u64()).expect("a post");
    (data["type"].as_str().expect("a type").to_owned(), id)
}

/// Waits until so many likes of a post are settled.
async fn liked(server: &Server, post: u64, many: u64) {
    let until = Instant::now() + PATIENCE;
    loop {
        let now = get(server, "ann", &format!("/posts/{post}")).await["likes"].clone();
        if now == many {
            return;
        }
        assert!(Instant::now() < until, "{now} likes, not {many}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until so many jobs of fan-out have come to their end.
async fn carried(server: &Server, many: usize) {
    server.metric_is("feedline_fanout_lag_seconds_count", many as f64).await;
}

// --- 000 -------------------------------------------------------------------------------------------------

#[tokio::test]
async fn source_000_a_post_reaches_those_whom_it_is_for_and_stands_in_its_authors_outbox() {
    for inboxes in [Inboxes::Before, Inboxes::After] {
        a_post_reaches_those_whom_it_is_for(inboxes).await;
    }
}

/// When readers come into being as such: what is published goes to their inboxes, or is looked for when they come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Inboxes {
    Before,
    After,
}

async fn a_post_reaches_those_whom_it_is_for(inboxes: Inboxes) {
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
async fn source_000_hiding_from_them_takes_my_posts_out_of_their_timeline() {
    let server = Server::start().await;
    server.follow("bo", "ann").await;
    let mut bo = Client::connect(&server, "bo").await;
    let (mine, theirs) = (server.post("ann", "mine").await, server.post("bo", "theirs").await);
    assert_eq!(BTreeSet::from([told(&mut bo, "bo").await.1, told(&mut bo, "bo").await.1]), [mine, theirs].into());
    put(&server, "ann", "/users/bo/hide").await;
    assert_eq!(told(&mut bo, "bo").await, ("gone".into(), mine));
    assert_eq!(timeline(&server, "bo").await, [theirs]);
}

#[tokio::test]
async fn source_000_a_page_with_its_posts_likers_comments_and_people_takes_a_fixed_number_of_round_trips() {
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
    // `reading` counts those of 1, 20 and 100 posts, with every store; here, that what came of a post costs nothing more.
    let few = cost(&server, &mut ann, "timeline.read", &json!({ "limit": 3, "with": all })).await;
    assert_eq!(cost(&server, &mut ann, "timeline.read", &json!({ "limit": 30, "with": all })).await, few);
    assert!(few.0 + few.1 <= 8, "{few:?}");
}

#[tokio::test]
async fn source_000_posts_carry_media_sound_and_a_place_up_to_a_limit_that_is_said() {
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

// --- 001 -------------------------------------------------------------------------------------------------

#[tokio::test]
async fn source_001_favourites_of_any_type_are_added_removed_checked_listed_and_counted() {
    let server = Server::start().await;
    for id in ["a", "b", "c", "d"] {
        put(&server, "ann", &format!("/favourites/video/{id}")).await;
    }
    put(&server, "ann", "/favourites/article/a").await;
    delete(&server, "ann", "/favourites/video/b").await;
    let first = get(&server, "ann", "/favourites/video?limit=2").await;
    assert_eq!(names(&first), ["d", "c"], "by time, newest first");
    let next = first["next"].as_str().expect("more");
    assert_eq!(names(&get(&server, "ann", &format!("/favourites/video?limit=2&cursor={next}")).await), ["a"]);
    assert_eq!(get(&server, "ann", "/favourites/video/count").await["count"], 3);
    assert_eq!(get(&server, "ann", "/favourites/article/count").await["count"], 1);
    let checked = server.done("ann", "POST", "/favourites/video/check", &json!({ "ids": ["a", "b"] })).await;
    let checked = [0, 1].map(|n| checked["items"][n]["favourited"] == true);
    assert_eq!(checked, [true, false], "one or many");
}

#[tokio::test]
async fn source_001_an_object_has_holders_and_two_people_have_favourites_in_common() {
    let server = Server::start().await;
    for (user, id) in [("ann", "a"), ("ann", "b"), ("bo", "b"), ("bo", "a"), ("bo", "c")] {
        put(&server, user, &format!("/favourites/video/{id}")).await;
    }
    let holders = get(&server, "cy", "/objects/video/a/favourites").await;
    assert_eq!((&holders["count"], names(&holders)), (&json!(2), vec!["bo", "ann"]));
    let common = get(&server, "ann", "/favourites/video/common/bo").await;
    assert_eq!((&common["count"], names(&common)), (&json!(2), vec!["b", "a"]));
}

#[tokio::test]
async fn source_001_people_of_the_second_degree_are_suggested() {
    let server = Server::start().await;
    for (user, whom) in [("ann", "bo"), ("ann", "cy"), ("bo", "dee"), ("cy", "dee"), ("cy", "eve"), ("bo", "cy")] {
        server.follow(user, whom).await;
    }
    let suggested = get(&server, "ann", "/users/suggested").await;
    assert_eq!(names(&suggested), ["dee", "eve"], "most mutual first, and nobody whom one follows");
    assert_eq!(suggested["items"][0]["mutual"], 2);
}

// --- 002 -------------------------------------------------------------------------------------------------

#[tokio::test]
async fn source_002_a_topics_plaza_has_its_newest_thousand_before_and_past_where_the_source_trimmed() {
    let redis = RedisServer::start();
    let url = redis.url();
    let keys = [("broker.url", url.as_str()), ("client.commands_per_second", "0"), ("ledger.durability", "normal")];
    let server = Server::start_with(&keys).await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut newest_first = Vec::new();
    // The source let it grow to 1,020 and cut it back to 1,000: here nobody sees that.
    for many in [999, 1_000, 1_001, 1_020, 1_021] {
        let more = write_many(&mut ann, many - newest_first.len(), "about #feeds").await;
        newest_first.splice(0..0, more.into_iter().rev());
        let seen = many.min(1_000);
        let plaza = everything(&mut ann, "topics.read", json!({ "name": "feeds" })).await;
        assert_eq!(plaza, newest_first[..seen], "of {many}");
        let listed = ann.rpc("topics.list", &json!({})).await;
        assert_eq!((&listed["items"][0]["name"], &listed["items"][0]["posts"]), (&json!("feeds"), &json!(seen)));
    }
    // The plaza is read from the ledger. Redis has no set of it, but the end of the log that listeners recover from, cut
    // back now and then.
    carried(&server, newest_first.len()).await;
    let length: u64 = redis.ask("XLEN feedline:{topic:feeds}:l").trim_start_matches(':').parse().expect("a length");
    assert!((100..=200).contains(&length), "{length} entries");
}

#[tokio::test]
async fn source_002_follows_are_read_both_ways() {
    let server = Server::start().await;
    for (user, whom) in [("ann", "bo"), ("ann", "cy"), ("dee", "bo")] {
        server.follow(user, whom).await;
    }
    assert_eq!(names(&get(&server, "ann", "/users/ann/following").await), ["cy", "bo"]);
    assert_eq!(names(&get(&server, "ann", "/users/bo/followers").await), ["dee", "ann"]);
}

#[tokio::test]
async fn source_002_an_inbox_is_bounded_and_what_is_older_is_pulled_past_its_end() {
    let redis = RedisServer::start();
    let server = Server::start_with(&[("broker.url", &redis.url()), ("timeline.length", "20")]).await;
    server.follow("ann", "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut written = Vec::new();
    for _ in 0..250 {
        written.insert(0, server.post("bo", "a post").await);
        told(&mut ann, "ann").await;
    }
    let length: u64 = redis.ask("XLEN feedline:{timeline:ann}:l").trim_start_matches(':').parse().expect("a length");
    assert!((20..=120).contains(&length), "the inbox is cut back now and then: {length}");
    assert_eq!(everything(&mut ann, "timeline.read", json!({})).await, written, "to the very first");
}

#[tokio::test]
async fn source_002_inboxes_are_written_only_for_those_who_are_active() {
    let server = Server::start().await;
    server.follow("here", "ann").await;
    server.follow("away", "ann").await;
    let mut here = Client::connect(&server, "here").await;
    let post = server.post("ann", "a post").await;
    assert_eq!(told(&mut here, "here").await, ("post".into(), post));
    server.metric_is(r#"feedline_fanout_inboxes_total{outcome="absent"}"#, 2.0).await;
    assert_eq!(server.metric(r#"feedline_fanout_inboxes_total{outcome="live"}"#).await, Some(1.0));
    assert_eq!(timeline(&server, "away").await, [post], "and nobody misses anything");
}

#[tokio::test]
async fn source_002_follows_bring_in_and_take_out_within_the_inboxs_window() {
    let server = Server::start_with(&[("timeline.follow_merge", "3")]).await;
    let mut theirs = Vec::new();
    for _ in 0..5 {
        theirs.insert(0, server.post("bo", "a post").await);
    }
    let mut ann = Client::connect(&server, "ann").await;
    server.follow("ann", "bo").await;
    for id in theirs[..3].iter().rev() {
        assert_eq!(told(&mut ann, "ann").await, ("post".into(), *id), "its newest, in their order");
    }
    assert_eq!(timeline(&server, "ann").await, theirs, "and the rest is pulled");
    delete(&server, "ann", "/users/bo/follow").await;
    let mut gone = BTreeSet::new();
    for _ in 0..3 {
        let (kind, id) = told(&mut ann, "ann").await;
        assert_eq!(kind, "gone");
        gone.insert(id);
    }
    assert_eq!(gone, theirs[..3].iter().copied().collect());
    assert!(timeline(&server, "ann").await.is_empty());
}

#[tokio::test]
async fn source_002_scrolling_stays_put_while_posts_arrive() {
    let server = Server::start().await;
    server.follow("ann", "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut written = Vec::new();
    for _ in 0..12 {
        written.insert(0, server.post("bo", "a post").await);
        told(&mut ann, "ann").await;
    }
    let (mut read, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(&server, "ann", &format!("/timeline?limit=5{cursor}")).await;
        read.extend(ids(&page));
        assert!(written.starts_with(&read), "{read:?}, not {written:?}");
        // More arrive, and another device begins anew.
        server.post("bo", "another").await;
        told(&mut ann, "ann").await;
        get(&server, "ann", "/timeline?limit=5").await;
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(read, written);
}

#[tokio::test]
async fn source_002_a_like_is_lit_at_once_merged_with_others_and_written_as_it_is() {
    let server = Server::start().await;
    let post = server.post("ann", "a post").await;
    let mut bo = Client::connect(&server, "bo").await;
    // On and off in one breath: each is answered at once, and the last state counts.
    let mut asked = Vec::new();
    for n in 0..21 {
        let method = if n % 2 == 0 { "likes.add" } else { "likes.remove" };
        asked.push(bo.command(json!({ "rpc": { "method": method, "data": { "id": post } } })).await);
    }
    for (n, id) in asked.into_iter().enumerate() {
        let answer = bo.reply(id).await["rpc"]["data"].clone();
        let expected = json!({ "state": "accepted", "liked": n % 2 == 0, "likes": u64::from(n % 2 == 0) });
        assert_eq!(answer, expected, "{n}");
    }
    // Checked: a second like is no second one.
    assert_eq!(put(&server, "bo", &format!("/posts/{post}/like")).await["likes"], 1);
    assert_eq!(put(&server, "cy", &format!("/posts/{post}/like")).await["likes"], 2);
    liked(&server, post, 2).await;
    let mut likers = get(&server, "ann", &format!("/posts/{post}/likes")).await;
    likers["items"].as_array_mut().expect("items").sort_by_key(|user| user["id"].to_string());
    assert_eq!(names(&likers), ["bo", "cy"]);
    let merged = server.metric("feedline_likes_merged_total").await.expect("a sample");
    assert!(merged >= 1.0, "some were settled together: {merged}");
}

// --- 003 -------------------------------------------------------------------------------------------------

#[tokio::test]
async fn source_003_people_sign_up_and_in_by_name_and_their_posts_carry_name_and_time() {
    let server = Server::start().await;
    let account = json!({ "user": "ann", "password": "correct horse", "name": "Ann" });
    let made = server.http("POST", "/api/v1/accounts", &[], &account.to_string()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let account = json!({ "user": "ann", "password": "correct horse" });
    let signed_in = server.http("POST", "/api/v1/sessions", &[], &account.to_string()).await;
    let bearer = format!("Bearer {}", signed_in.body["token"].as_str().expect("a token"));
    let posted = server.http("POST", "/api/v1/posts", &[("authorization", &bearer)], r#"{"text":"hello"}"#).await;
    assert_eq!(posted.status, 201, "{posted:?}");
    server.follow("bo", "ann").await;
    let page = get(&server, "bo", "/timeline").await;
    let item = &page["items"][0];
    assert_eq!((&item["text"], &page["people"]["ann"]["name"]), (&json!("hello"), &json!("Ann")));
    assert!(item["created_at"].as_u64().expect("a time").abs_diff(crate::server::unix() * 1_000) < 600_000, "{item}");
}

#[tokio::test]
async fn source_003_fans_and_follows_are_counted() {
    let server = Server::start().await;
    for (user, whom) in [("bo", "ann"), ("cy", "ann"), ("ann", "bo")] {
        server.follow(user, whom).await;
    }
    server.post("ann", "a post").await;
    let profile = get(&server, "bo", "/users/ann").await;
    assert_eq!(["followers", "following", "posts"].map(|of| profile[of].as_u64()), [Some(2), Some(1), Some(1)]);
    delete(&server, "cy", "/users/ann/follow").await;
    assert_eq!(get(&server, "bo", "/users/ann").await["followers"], 1);
}

#[tokio::test]
async fn source_003_what_came_since_the_last_position_is_pulled_without_a_socket() {
    let server = Server::start().await;
    server.follow("ann", "bo").await;
    let since = |position: &Value| {
        format!("/timeline/updates?offset={}&epoch={}", position["offset"], position["epoch"].as_str().expect("one"))
    };
    let mut position = get(&server, "ann", "/timeline").await["position"].clone();
    // More than twenty by one author between two looks, and none is lost.
    let mut written = Vec::new();
    for _ in 0..25 {
        written.push(server.post("bo", "a post").await);
    }
    carried(&server, written.len()).await;
    let mut pulled = Vec::new();
    loop {
        let updates = get(&server, "ann", &since(&position)).await;
        assert_eq!(updates["recovered"], true);
        let items = updates["items"].as_array().expect("items");
        pulled.extend(items.iter().map(|item| item["data"]["post"]["id"].as_u64().expect("a post")));
        position = updates["position"].clone();
        if items.is_empty() {
            break;
        }
    }
    assert_eq!(pulled, written);
}

#[tokio::test]
async fn source_003_own_posts_are_there_beyond_a_thousand() {
    let server = Server::start_with(&[("client.commands_per_second", "0"), ("ledger.durability", "normal")]).await;
    let mut ann = Client::connect(&server, "ann").await;
    // The inbox of a thousand is cut back on the way.
    let mut written = write_many(&mut ann, 1_130, "a post").await;
    written.reverse();
    assert_eq!(everything(&mut ann, "users.posts", json!({ "id": "ann" })).await, written);
    assert_eq!(everything(&mut ann, "timeline.read", json!({})).await, written);
    assert_eq!(get(&server, "ann", "/users/ann").await["posts"], 1_130);
}

// --- 004 -------------------------------------------------------------------------------------------------

#[tokio::test]
async fn source_004_a_post_is_pushed_to_its_own_list_its_own_timeline_and_every_follower() {
    let server = Server::start().await;
    let mut followers = Vec::new();
    for n in 0..30 {
        let name = format!("f{n}");
        server.follow(&name, "ann").await;
        followers.push((name.clone(), Client::connect(&server, &name).await));
    }
    let post = json!({ "text": "a tweet", "platform": "web" });
    let made = server.done("ann", "POST", "/posts", &post).await;
    let id = made["id"].as_u64().expect("an id");
    assert_eq!((&made["author"], &made["platform"]), (&json!("ann"), &json!("web")));
    assert_eq!(timeline(&server, "ann").await, [id], "with the answer");
    assert_eq!(ids(&get(&server, "ann", "/users/ann/posts").await), [id]);
    for (name, client) in &mut followers {
        assert_eq!(told(client, name).await, ("post".into(), id));
    }
    // Whatever the followers wait for: one's own timeline has it with the answer.
    let mut newest_first = vec![id];
    for _ in 0..20 {
        newest_first.insert(0, server.post("ann", "another").await);
        assert_eq!(timeline(&server, "ann").await, newest_first);
    }
}

#[tokio::test]
async fn source_004_thirty_are_read_at_once_newest_first() {
    let server = Server::start().await;
    let mut written = Vec::new();
    for _ in 0..35 {
        written.insert(0, server.post("ann", "a post").await);
    }
    let page = get(&server, "ann", "/timeline?limit=30").await;
    assert_eq!(ids(&page), written[..30], "the newest thirty, and not one more");
    assert!(page["items"].as_array().expect("items").iter().all(|item| item["text"] == "a post"));
}

#[tokio::test]
async fn source_004_a_deleted_post_is_deleted_everywhere() {
    let server = Server::start().await;
    server.follow("here", "ann").await;
    server.follow("away", "ann").await;
    let mut here = Client::connect(&server, "here").await;
    let (stays, goes) = (server.post("ann", "stays").await, server.post("ann", "goes #t").await);
    for id in [stays, goes] {
        assert_eq!(told(&mut here, "here").await, ("post".into(), id));
    }
    delete(&server, "ann", &format!("/posts/{goes}")).await;
    assert_eq!(told(&mut here, "here").await, ("gone".into(), goes));
    for reader in ["ann", "here", "away"] {
        assert_eq!(timeline(&server, reader).await, [stays], "{reader}");
        assert_eq!(ids(&get(&server, reader, "/users/ann/posts").await), [stays], "{reader}");
        assert_eq!(ids(&get(&server, reader, "/topics/t/posts").await), [] as [u64; 0], "{reader}");
        let one = server.call(reader, "GET", &format!("/posts/{goes}"), &Value::Null).await;
        assert_eq!(one.status, 404, "{reader}");
    }
}

#[tokio::test]
async fn source_004_the_active_are_pushed_to_and_the_rest_pull() {
    let redis = RedisServer::start();
    let server = Server::start_with(&[("broker.url", &redis.url())]).await;
    for reader in ["here", "away"] {
        server.follow(reader, "ann").await;
    }
    let mut here = Client::connect(&server, "here").await;
    // Has been here, and not for long enough that the inbox went.
    drop(Client::connect(&server, "away").await);
    let log = "feedline:{timeline:away}:l";
    assert!(redis.ask(&format!("DEL {log} feedline:{{timeline:away}}:m")).starts_with(':'));
    let mut written = Vec::new();
    for _ in 0..3 {
        written.insert(0, server.post("ann", "a post").await);
        assert_eq!(told(&mut here, "here").await, ("post".into(), written[0]));
    }
    carried(&server, written.len()).await;
    assert_eq!(redis.ask(&format!("EXISTS {log}")), ":0", "nothing is written for who is away");
    let mut away = Client::connect(&server, "away").await;
    assert_eq!(ids(&away.rpc("timeline.read", &json!({})).await), written, "a full timeline at once");
}

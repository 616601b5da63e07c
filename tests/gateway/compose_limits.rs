//! The limits of composed timelines: the reposts that decide about repeats and that are hidden with their post, the log
//! of a list, the posts that a new member brings, and the rows of the pull log.

use feedline_test_support::api::entry;
use futures::StreamExt as _;
use futures::stream;
use serde_json::{Value, json};

use crate::both_pairs::{delete, get, ids_by_pages, put, servers, servers_with};
use crate::client::Client;
use crate::postgres_server;
use crate::redis_server::RedisServer;
use crate::reposts::{ids, repost};
use crate::server::{API_KEY, PATIENCE, Server, until};

/// The concurrent requests of a test.
const MAX_CONCURRENT_REQUESTS: usize = 50;

/// The posts of the entries of a pull log, in the order of the log.
const PULL_LOG: &str = "SELECT post FROM pulled ORDER BY mark";

const MINUTE_MILLIS: i64 = 60_000;
const DAY_MILLIS: i64 = 24 * 60 * MINUTE_MILLIS;

/// The next event of a timeline or a list: its type, and its post or repost.
async fn next(client: &mut Client, channel: &str) -> (String, u64) {
    let (_, kind, post) = entry(&client.publication(channel).await);
    (kind, post)
}

fn event(kind: &str, post: u64) -> (String, u64) {
    (kind.to_owned(), post)
}

/// The updates of a timeline or a list since an offset.
async fn updates(server: &Server, user: &str, path: &str, offset: u64, epoch: &str) -> Value {
    server.done(user, "GET", &format!("{path}/updates?offset={offset}&epoch={epoch}"), &Value::Null).await
}

/// Waits until the server has finished this many fan-out jobs since its start.
async fn finished(server: &Server, jobs: u32) {
    server.metric_is("feedline_fanout_lag_seconds_count", f64::from(jobs)).await;
}

/// Reposts a post by this many users, in any order.
async fn repost_by_many(server: &Server, post: u64, users: usize) {
    let path = format!("/api/v1/posts/{post}/repost");
    let repost = |n: usize| {
        let path = &path;
        async move {
            let user = format!("u{n}");
            let headers = [("x-api-key", API_KEY), ("x-user", user.as_str())];
            // Without a validation of the answer, which would take most of the time.
            let answer = Server::request_at(server.port(), "PUT", path, &headers, "").await;
            assert!(answer.as_ref().is_some_and(|answer| answer.status == 200), "{user}: {answer:?}");
        }
    };
    stream::iter(0..users).for_each_concurrent(MAX_CONCURRENT_REQUESTS, repost).await;
}

/// Creates this many posts of a user, some of them concurrently. Returns their ids, oldest first.
async fn create_posts(server: &Server, user: &str, count: usize) -> Vec<u64> {
    server.done(user, "GET", &format!("/users/{user}"), &Value::Null).await;
    let create = |n: usize| json!({ "rpc": { "method": "posts.create", "params": { "text": format!("post {n}") } } });
    let commands: Vec<Value> = (0..count).map(create).collect();
    let body = json!({ "commands": commands, "parallel": true }).to_string();
    let answer = server.http("POST", "/api/batch", &[("x-api-key", API_KEY), ("x-user", user)], &body).await;
    let replies = answer.body["replies"].as_array().expect("replies");
    let id = |reply: &Value| reply["rpc"]["data"]["id"].as_u64().unwrap_or_else(|| panic!("no post: {reply}"));
    let mut posts: Vec<u64> = replies.iter().map(id).collect();
    posts.sort_unstable();
    posts
}

/// Creates a list of ann with these users. Returns its number.
async fn list_with(server: &Server, users: &[&str]) -> u64 {
    let list = server.done("ann", "POST", "/lists", &json!({ "name": users.join(", ") })).await;
    let list = list["id"].as_u64().expect("a number");
    for user in users {
        server.done(user, "GET", &format!("/users/{user}"), &Value::Null).await;
        put(server, &format!("/lists/{list}/users/{user}")).await;
    }
    list
}

#[tokio::test]
async fn the_64_newest_reposts_decide_about_repeats() {
    for (server, _redis) in servers().await {
        for reposter in ["bo", "cy"] {
            server.follow("fan", reposter).await;
        }
        let position = server.done("fan", "GET", "/timeline", &Value::Null).await["position"].take();
        let mut fan = Client::connect(&server, "fan").await;
        let mut shown = Vec::new();
        let mut events = Vec::new();
        // Reposts between those of bo and cy. With these two there are 64 and 65.
        for (between, is_repeat) in [(62, true), (63, false)] {
            let post = server.post("ann", "by ann").await;
            let first = repost(&server, "bo", post).await;
            assert_eq!(next(&mut fan, "timeline:fan").await, event("post", first));
            repost_by_many(&server, post, between).await;
            let newest = repost(&server, "cy", post).await;
            let expected = event(if is_repeat { "reposted" } else { "post" }, newest);
            assert_eq!(next(&mut fan, "timeline:fan").await, expected, "live, {between} between");
            shown.insert(0, first);
            if !is_repeat {
                shown.insert(0, newest);
            }
            assert_eq!(ids(&server, "fan", "/timeline").await, shown, "a page, {between} between");
            events.extend([event("post", first), expected]);
        }
        let offset = position["offset"].as_u64().expect("an offset");
        let epoch = position["epoch"].as_str().expect("an epoch");
        let recovered = updates(&server, "fan", "/timeline", offset, epoch).await;
        let items = recovered["items"].as_array().expect("items").iter().map(entry);
        assert_eq!(items.map(|(_, kind, post)| (kind, post)).collect::<Vec<_>>(), events, "recovered");
    }
}

/// The readers connect after the reposts: these take some seconds, in which nobody would answer pings.
#[tokio::test]
async fn a_deleted_post_takes_its_newest_1000_reposts_off_open_timelines() {
    let server = Server::start().await;
    for (reader, reposter) in [("far", "bo"), ("edge", "cy"), ("near", "dee")] {
        server.follow(reader, reposter).await;
    }
    let post = server.post("ann", "by ann").await;
    // Of 1,001 reposts, the oldest, the next one and the newest are followed.
    let oldest = repost(&server, "bo", post).await;
    let thousandth = repost(&server, "cy", post).await;
    repost_by_many(&server, post, 998).await;
    let newest = repost(&server, "dee", post).await;
    let jobs = 1_002;
    finished(&server, jobs).await;
    let readers = [("far", oldest), ("edge", thousandth), ("near", newest)];
    for (reader, repost) in readers {
        assert_eq!(ids(&server, reader, "/timeline").await, [repost], "{reader}");
    }
    let mut far = Client::connect(&server, "far").await;
    let mut edge = Client::connect(&server, "edge").await;
    let mut near = Client::connect(&server, "near").await;

    server.done("ann", "DELETE", &format!("/posts/{post}"), &Value::Null).await;
    for (reader, repost) in readers {
        assert_eq!(ids(&server, reader, "/timeline").await, [0; 0], "{reader}");
        let answer = server.call(reader, "GET", &format!("/posts/{repost}"), &Value::Null).await;
        assert_eq!(answer.status, 404, "{reader}");
    }
    assert_eq!(next(&mut near, "timeline:near").await, event("gone", newest));
    assert_eq!(next(&mut edge, "timeline:edge").await, event("gone", thousandth));
    // A job of the deletion, and one of each hidden repost.
    finished(&server, jobs + 1 + 1_000).await;
    let later = server.post("bo", "by bo").await;
    assert_eq!(next(&mut far, "timeline:far").await, event("post", later), "the oldest repost is not announced");
    assert_eq!(ids(&server, "far", "/timeline").await, [later]);
}

#[tokio::test]
async fn the_log_of_a_list_keeps_400_entries() {
    // A recovery is not limited by the number of publications, only by the length of the log.
    for (server, _redis) in servers_with(&[("client.recovery_limit", "1000")]).await {
        let list = list_with(&server, &["bo"]).await;
        let path = format!("/lists/{list}");
        let opened = get(&server, &format!("{path}/posts")).await["position"].take();
        assert_eq!(opened["offset"], 0, "{opened}");
        let epoch = opened["epoch"].as_str().expect("an epoch");
        let posts = create_posts(&server, "bo", 500).await;
        server.metric_is("feedline_pulled_seconds_count", 500.0).await;

        let refused = updates(&server, "ann", &path, 0, epoch).await;
        assert_eq!((&refused["recovered"], &refused["items"]), (&json!(false), &json!([])), "{}", refused["position"]);
        let kept = updates(&server, "ann", &path, 100, epoch).await;
        assert_eq!((&kept["recovered"], &kept["position"]["offset"]), (&json!(true), &json!(500)));
        let kept: Vec<(u64, String, u64)> = kept["items"].as_array().expect("items").iter().map(entry).collect();
        assert!(kept.iter().map(|(offset, ..)| *offset).eq(101..=500), "{kept:?}");
        let mut kept_posts: Vec<u64> = kept.iter().map(|(_, _, post)| *post).collect();
        kept_posts.sort_unstable();
        kept_posts.dedup();
        assert_eq!(kept_posts.len(), 400, "each post once");
        assert!(kept_posts.iter().all(|post| posts.contains(post)) && kept.iter().all(|(_, kind, _)| kind == "post"));

        for (offset, expected) in [(0, None), (100, Some(&kept[..])), (400, Some(&kept[300..]))] {
            let mut ann = Client::connect(&server, "ann").await;
            let channel = format!("list:{list}");
            let recover = json!({ "channel": channel, "recover": true, "offset": offset, "epoch": epoch });
            let reply = ann.done(json!({ "subscribe": recover })).await["subscribe"].take();
            let recovered = reply["publications"].as_array().map(|all| all.iter().map(entry).collect::<Vec<_>>());
            assert_eq!((reply["recovered"] == true, recovered.as_deref()), (expected.is_some(), expected), "{offset}");
        }
        let newest_first: Vec<u64> = posts.iter().rev().copied().collect();
        assert_eq!(ids_by_pages(&server, "ann", &format!("{path}/posts"), 100).await, newest_first, "pages have all");
    }
}

/// The expiry of a log can be read and changed in Redis. The tests of brokers wait for the end of a short one.
#[tokio::test]
async fn the_log_of_a_list_is_dropped_after_the_idle_days() {
    let redis = RedisServer::start();
    let server = Server::start_with(&[("broker.url", &redis.url()), ("timeline.idle_days", "1")]).await;
    let first = server.post("bo", "the first").await;
    let list = list_with(&server, &["bo"]).await;
    let path = format!("/lists/{list}");
    let posts = format!("{path}/posts");
    let log = format!("feedline:{{list:{list}}}:l");
    let expires_in_a_day = || {
        let left = redis.ask(&format!("PTTL {log}"));
        let left: i64 = left.trim_start_matches(':').parse().expect("milliseconds");
        assert!((DAY_MILLIS - MINUTE_MILLIS..=DAY_MILLIS).contains(&left), "{left} ms are left");
    };
    let opened = get(&server, &posts).await["position"].take();
    expires_in_a_day();
    let offset = opened["offset"].as_u64().expect("an offset");
    let epoch = opened["epoch"].as_str().expect("an epoch");
    // Each use extends the time.
    assert_eq!(redis.ask(&format!("PEXPIRE {log} {MINUTE_MILLIS}")), ":1");
    assert_eq!(updates(&server, "ann", &path, offset, epoch).await["recovered"], true);
    expires_in_a_day();
    assert_eq!(redis.ask(&format!("PEXPIRE {log} 1")), ":1");
    until("the log has expired", async || redis.ask(&format!("EXISTS {log}")) == ":0").await;

    let second = server.post("bo", "the second").await;
    assert_eq!(ids(&server, "ann", &posts).await, [second, first], "full again");
    let anew = get(&server, &posts).await["position"].take();
    assert_ne!(anew["epoch"], opened["epoch"]);
    assert_eq!(updates(&server, "ann", &path, offset, epoch).await["recovered"], false);
    expires_in_a_day();
}

#[tokio::test]
async fn a_new_member_brings_200_posts_into_an_open_list() {
    for (server, _redis) in servers().await {
        let by_other = server.post("cy", "the oldest").await;
        let posts = create_posts(&server, "bo", 205).await;
        let list = list_with(&server, &["cy"]).await;
        // No queued job brings a post of the new member.
        finished(&server, 206).await;
        let channel = format!("list:{list}");
        let member = format!("/lists/{list}/users/bo");
        let path = format!("/lists/{list}/posts");
        let mut ann = Client::connect(&server, "ann").await;
        ann.subscribe(&channel).await;
        put(&server, &member).await;
        for post in &posts[5..] {
            assert_eq!(next(&mut ann, &channel).await, event("post", *post), "the newest 200, oldest first");
        }
        let live = server.post("bo", "live").await;
        assert_eq!(next(&mut ann, &channel).await, event("post", live), "and no more");
        let mut expected = vec![live];
        expected.extend(posts.iter().rev());
        expected.push(by_other);
        assert_eq!(ids_by_pages(&server, "ann", &path, 100).await, expected, "pages have all");

        delete(&server, &member).await;
        assert_eq!(ids(&server, "ann", &path).await, [by_other], "at once");
        let mut gone = Vec::new();
        for _ in 0..201 {
            let data = ann.publication(&channel).await["data"].take();
            assert_eq!((&data["type"], &data["reason"]), (&json!("gone"), &json!("unlisted")), "{data}");
            gone.push(data["id"].as_u64().expect("an id"));
        }
        gone.sort_unstable();
        assert_eq!(gone, [&posts[5..], &[live]].concat());
    }
}

/// Creates a post, and waits until it was delivered: by the fan-out job of this number since the start of the server.
async fn delivered(server: &Server, job: u32, author: &str, text: &str) -> i64 {
    let post = server.post(author, text).await;
    finished(server, job).await;
    i64::try_from(post).expect("53 bits")
}

/// Checks the rows of the pull log of a new server. `rows`: the posts of the rows.
async fn check_pull_log(server: &Server, rows: impl AsyncFn() -> Vec<i64>) {
    delivered(server, 1, "bo", "by bo, about #rust").await;
    assert_eq!(rows().await, [0; 0], "nobody has a list or follows a topic");
    let list = list_with(server, &["cy"]).await;
    put(server, &format!("/lists/{list}/topics/go")).await;
    put(server, "/topics/zig/follow").await;
    delivered(server, 2, "bo", "by bo, about #rust").await;
    assert_eq!(rows().await, [0; 0], "others are listed, and other topics are followed");

    list_with(server, &["bo"]).await;
    list_with(server, &["bo", "cy"]).await;
    let listed = delivered(server, 3, "bo", "about nothing").await;
    assert_eq!(rows().await, [listed], "two lists have the author");
    put(server, "/topics/rust/follow").await;
    put(server, &format!("/lists/{list}/topics/rust")).await;
    let both = delivered(server, 4, "bo", "about #rust, #go and #zig").await;
    assert_eq!(rows().await, [listed, both], "lists and followed topics match");
    let followed = delivered(server, 5, "dee", "about #zig").await;
    assert_eq!(rows().await, [listed, both, followed], "a topic is followed");
    let topic_of_list = delivered(server, 6, "dee", "about #go").await;
    assert_eq!(rows().await, [listed, both, followed, topic_of_list], "a list has a topic");
    delivered(server, 7, "dee", "about #python").await;
    assert_eq!(rows().await, [listed, both, followed, topic_of_list], "nobody gathers it");
}

#[tokio::test]
async fn the_pull_log_has_a_row_for_each_gathered_post() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ledger.db");
    let server = Server::start_with(&[("ledger.url", &format!("sqlite://{}", path.display()))]).await;
    let db = rusqlite::Connection::open(&path).expect("the ledger");
    db.busy_timeout(PATIENCE).expect("a timeout");
    let rows = async || {
        let mut statement = db.prepare(PULL_LOG).expect("a statement");
        let posts = statement.query_map([], |row| row.get(0)).expect("rows");
        posts.collect::<rusqlite::Result<Vec<i64>>>().expect("posts")
    };
    check_pull_log(&server, rows).await;

    let postgres = postgres_server::shared();
    let database = postgres.migrated().await;
    let server = Server::start_with(&[("ledger.url", &postgres.url(&database))]).await;
    let client = postgres.client(&database).await;
    let rows = async || {
        let rows = client.query(PULL_LOG, &[]).await.expect("rows");
        rows.iter().map(|row| row.get(0)).collect::<Vec<i64>>()
    };
    check_pull_log(&server, rows).await;
}

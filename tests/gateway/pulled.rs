//! Authors above the pull threshold: their followers see no difference.

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::{PATIENCE, Server};

const LIMIT: &str = "5";

fn follower(n: usize) -> String {
    format!("f{n}")
}

/// A server on which `star` has this many followers.
async fn star(followers: usize) -> Server {
    star_with(followers, &[]).await
}

/// The same with additional configuration.
async fn star_with(followers: usize, keys: &[(&str, &str)]) -> Server {
    let keys = [&[("fanout.push_limit", LIMIT), ("fanout.lease", "1s")], keys].concat();
    let server = Server::start_with(&keys).await;
    for n in 0..followers {
        server.follow(&follower(n), "star").await;
    }
    server
}

fn ids(page: &Value) -> Vec<u64> {
    page["items"].as_array().expect("items").iter().map(|post| post["id"].as_u64().expect("an id")).collect()
}

async fn timeline(server: &Server, user: &str) -> Vec<u64> {
    ids(&server.done(user, "GET", "/timeline?limit=100", &Value::Null).await)
}

async fn position(server: &Server, user: &str) -> Value {
    server.done(user, "GET", "/timeline?limit=1", &Value::Null).await["position"].clone()
}

/// The entries that `timeline.updates` returns since a position: type and post, in order. The log must reach back that
/// far.
async fn updates(server: &Server, user: &str, since: &Value) -> Vec<(String, u64)> {
    let (offset, epoch) = (&since["offset"], since["epoch"].as_str().expect("an epoch"));
    let path = format!("/timeline/updates?offset={offset}&epoch={epoch}");
    let updates = server.done(user, "GET", &path, &Value::Null).await;
    assert_eq!(updates["recovered"], true, "{updates}");
    updates["items"].as_array().expect("items").iter().map(word).collect()
}

/// Type and post of a publication.
fn word(publication: &Value) -> (String, u64) {
    let data = &publication["data"];
    let id = data["post"]["id"].as_u64().or(data["id"].as_u64());
    (data["type"].as_str().expect("a type").to_owned(), id.expect("a post"))
}

/// The next publications of a timeline.
async fn received(client: &mut Client, user: &str, many: usize) -> Vec<(String, u64)> {
    let mut received = Vec::new();
    for _ in 0..many {
        received.push(word(&client.publication(&format!("timeline:{user}")).await));
    }
    received
}

fn arrived(posts: &[u64]) -> Vec<(String, u64)> {
    posts.iter().map(|id| ("post".to_owned(), *id)).collect()
}

/// Waits until the pull log has this many entries, and this node has processed all of them.
async fn pulled(server: &Server, many: usize) {
    server.metric_is("feedline_pulled_seconds_count", many as f64).await;
}

#[tokio::test]
async fn connected_followers_get_posts_live_and_others_catch_up() {
    let server = star(9).await;
    // All followers have opened their timeline before.
    let mut stood = Vec::new();
    for n in 0..9 {
        stood.push(position(&server, &follower(n)).await);
    }
    let mut live = Vec::new();
    for n in 0..3 {
        live.push((follower(n), Client::connect(&server, &follower(n)).await));
    }
    let mut other = Client::connect(&server, "other").await;
    let mut posts = Vec::new();
    for n in 0..4 {
        posts.push(server.post("star", &format!("post {n}")).await);
    }
    for (user, client) in &mut live {
        assert_eq!(received(client, user, 4).await, arrived(&posts), "{user}");
    }
    pulled(&server, 4).await;
    // Pulled posts are not written to the inboxes of disconnected users.
    let inboxes = server.metric("feedline_fanout_inboxes_total{outcome=\"stored\"}").await;
    assert_eq!(inboxes, Some(0.0), "inboxes of people who are not connected");

    let newest: Vec<u64> = posts.iter().rev().copied().collect();
    assert_eq!(timeline(&server, "star").await, newest, "the author's own");
    for (user, _) in &live {
        assert_eq!(timeline(&server, user).await, newest, "{user}");
    }
    assert_eq!(timeline(&server, &follower(3)).await, newest, "a page");
    assert_eq!(updates(&server, &follower(4), &stood[4]).await, arrived(&posts), "updates");
    let log = server.backend("history", &json!({ "channel": "timeline:f7", "limit": 10 })).await;
    let log: Vec<_> = log["result"]["publications"].as_array().expect("publications").iter().map(word).collect();
    assert_eq!(log, arrived(&posts), "the log, as a backend reads it");
    let (mut client, timeline_of_5) = Client::recover(&server, &follower(5), &stood[5]).await;
    assert_eq!(timeline_of_5["recovered"], true, "{timeline_of_5}");
    let told_5: Vec<_> = timeline_of_5["publications"].as_array().expect("publications").iter().map(word).collect();
    assert_eq!(told_5, arrived(&posts), "recovered");
    let mut anew = Client::connect(&server, &follower(6)).await;
    assert_eq!(ids(&anew.rpc("timeline.read", &json!({})).await), newest, "connected");
    // No entry appears twice, on any later read.
    for (n, since) in stood.iter().enumerate() {
        assert_eq!(timeline(&server, &follower(n)).await, newest, "{n}");
        assert_eq!(updates(&server, &follower(n), since).await, arrived(&posts), "{n}");
    }
    let last = server.post("star", "the last").await;
    for (user, client) in &mut live {
        assert_eq!(received(client, user, 1).await, arrived(&[last]), "{user}");
    }
    assert_eq!(received(&mut client, &follower(5), 1).await, arrived(&[last]));
    assert_eq!(received(&mut anew, &follower(6), 1).await, arrived(&[last]));
    assert!(other.pushed().await.is_empty(), "users who do not follow receive nothing");
}

#[tokio::test]
async fn deletions_reach_readers_of_the_post() {
    let server = star(8).await;
    let mut live = Client::connect(&server, &follower(0)).await;
    for n in 1..4 {
        position(&server, &follower(n)).await;
    }
    let (kept, deleted) = (server.post("star", "kept").await, server.post("star", "deleted").await);
    assert_eq!(received(&mut live, &follower(0), 2).await, arrived(&[kept, deleted]));
    let [with, without] = [position(&server, &follower(1)).await, position(&server, &follower(4)).await];
    assert_eq!(timeline(&server, &follower(1)).await, [deleted, kept]);
    server.done("star", "DELETE", &format!("/posts/{deleted}"), &Value::Null).await;
    assert_eq!(received(&mut live, &follower(0), 1).await, [("gone".to_owned(), deleted)]);
    pulled(&server, 3).await;
    for n in 0..8 {
        assert_eq!(timeline(&server, &follower(n)).await, [kept], "{n}");
    }
    for (n, since) in [(1, with), (4, without)] {
        assert_eq!(updates(&server, &follower(n), &since).await, [("gone".to_owned(), deleted)], "{n}");
    }
}

#[tokio::test]
async fn edits_reach_readers_who_may_see_the_post() {
    let server = star(8).await;
    let mut live = Client::connect(&server, &follower(0)).await;
    let mut left_out = Client::connect(&server, &follower(1)).await;
    let id = server.post("star", "first").await;
    for (user, client) in [(follower(0), &mut live), (follower(1), &mut left_out)] {
        assert_eq!(received(client, &user, 1).await, arrived(&[id]));
    }
    let since = [position(&server, &follower(2)).await, position(&server, &follower(3)).await];
    for n in [2, 3] {
        assert_eq!(timeline(&server, &follower(n)).await, [id]);
    }
    let edit = json!({ "text": "second", "visibility": { "not_to": [follower(1), follower(3)] } });
    server.done("star", "PATCH", &format!("/posts/{id}"), &edit).await;
    let word = |kind: &str| (kind.to_owned(), id);
    assert_eq!(received(&mut live, &follower(0), 1).await, [word("edited")]);
    assert_eq!(received(&mut left_out, &follower(1), 1).await, [word("gone")]);
    // The post, its edit, the removal for the excluded users, and the update for the others.
    pulled(&server, 4).await;
    for (n, seen) in [(0, vec![id]), (1, vec![]), (2, vec![id]), (3, vec![]), (4, vec![id])] {
        assert_eq!(timeline(&server, &follower(n)).await, seen, "{n}");
    }
    assert_eq!(updates(&server, &follower(2), &since[0]).await, [word("edited")]);
    assert_eq!(updates(&server, &follower(3), &since[1]).await, [word("gone")]);
    // Public again: the post is pushed again to the users who lost it.
    server.done("star", "PATCH", &format!("/posts/{id}"), &json!({ "visibility": "public" })).await;
    assert_eq!(received(&mut left_out, &follower(1), 1).await, arrived(&[id]));
    assert_eq!(timeline(&server, &follower(3)).await, [id]);
}

#[tokio::test]
async fn following_and_unfollowing_update_the_timeline() {
    let server = star(7).await;
    let mut ann = Client::connect(&server, "ann").await;
    let before = server.post("star", "before").await;
    pulled(&server, 1).await;
    ann.rpc("users.follow", &json!({ "id": "star" })).await;
    let after = server.post("star", "after").await;
    assert_eq!(received(&mut ann, "ann", 2).await, arrived(&[before, after]));
    assert_eq!(ids(&ann.rpc("timeline.read", &json!({})).await), [after, before]);
    ann.rpc("users.unfollow", &json!({ "id": "star" })).await;
    server.post("star", "not for ann").await;
    pulled(&server, 3).await;
    let mut gone = received(&mut ann, "ann", 2).await;
    gone.sort_unstable();
    assert_eq!(gone, [("gone".to_owned(), before), ("gone".to_owned(), after)]);
    assert_eq!(ids(&ann.rpc("timeline.read", &json!({})).await), [0; 0]);
    let own = server.post("ann", "mine").await;
    assert_eq!(received(&mut ann, "ann", 1).await, arrived(&[own]), "and no post of the other author");
}

/// The number of followers changes while posts are written: with either fan-out mode, every follower gets all posts
/// exactly once.
#[tokio::test]
async fn no_post_is_lost_when_an_author_crosses_the_pull_threshold() {
    let server = star(3).await;
    let mut live = Client::connect(&server, &follower(0)).await;
    let stood = [position(&server, &follower(1)).await, position(&server, &follower(2)).await];
    let mut posts = Vec::new();
    for round in 0..3 {
        for n in 3..9 {
            server.follow(&follower(n), "star").await;
            posts.push(server.post("star", &format!("up {round} {n}")).await);
        }
        // A read in between may return only some of the posts.
        assert!(timeline(&server, &follower(2)).await.len() <= posts.len());
        for n in (3..9).rev() {
            server.done(&follower(n), "DELETE", "/users/star/follow", &Value::Null).await;
            posts.push(server.post("star", &format!("down {round} {n}")).await);
        }
    }
    let sort = |mut words: Vec<(String, u64)>| {
        words.sort_unstable();
        words
    };
    let count = posts.len();
    assert_eq!(sort(received(&mut live, &follower(0), count).await), arrived(&posts));
    let carried_in_both_ways = server.metric("feedline_pulled_seconds_count").await.expect("some were pulled");
    assert!(carried_in_both_ways > 0.0 && carried_in_both_ways < count as f64, "{carried_in_both_ways} of {count}");
    let begun = std::time::Instant::now();
    for (n, since) in [(1, &stood[0]), (2, &stood[1])] {
        // Posts that are fanned out on write may not have reached disconnected users yet.
        while updates(&server, &follower(n), since).await.len() < count && begun.elapsed() < PATIENCE {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(sort(updates(&server, &follower(n), since).await), arrived(&posts), "{n}");
        let newest: Vec<u64> = posts.iter().rev().copied().collect();
        assert_eq!(timeline(&server, &follower(n)).await, newest, "{n}");
    }
    assert!(live.pushed().await.is_empty());
}

#[tokio::test]
async fn pulled_and_pushed_posts_are_merged_in_order() {
    // The inbox ends within the second page; the rest is read from the ledger.
    let server = star_with(7, &[("timeline.length", "8")]).await;
    let readers = [follower(0), follower(1), follower(2)];
    for reader in &readers {
        server.follow(reader, "bo").await;
    }
    let mut live = Client::connect(&server, &readers[0]).await;
    let since = position(&server, &readers[1]).await;
    let mut posts = Vec::new();
    for n in 0..24 {
        posts.push(server.post(if n % 3 == 0 { "bo" } else { "star" }, &format!("{n}")).await);
    }
    let mut heard = received(&mut live, &readers[0], posts.len()).await;
    heard.sort_unstable();
    assert_eq!(heard, arrived(&posts));
    pulled(&server, 16).await;
    // Posts that are fanned out on write may not have reached disconnected users yet.
    let last_pushed = *posts.iter().rev().nth(2).expect("24 posts");
    let begun = std::time::Instant::now();
    while !updates(&server, &readers[1], &since).await.iter().any(|(_, id)| *id == last_pushed) {
        assert!(begun.elapsed() < PATIENCE, "a pushed post does not arrive");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    for reader in &readers {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        let mut later = Vec::new();
        for n in 0.. {
            let page = server.done(reader, "GET", &format!("/timeline?limit=5{cursor}"), &Value::Null).await;
            seen.extend(ids(&page));
            let Some(next) = page["next"].as_str() else { break };
            cursor = format!("&cursor={next}");
            // Posts written while a client pages do not shift the pages.
            later.push(server.post(["star", "bo"][n % 2], "meanwhile").await);
        }
        let newest: Vec<u64> = posts.iter().rev().copied().collect();
        assert_eq!(seen, newest, "{reader}");
        posts.extend(later);
        server.metric_is("feedline_fanout_jobs", 0.0).await;
    }
}

#[tokio::test]
async fn pulled_posts_respect_their_audience() {
    let server = star(10).await;
    // Two of each kind, one of them connected: followers, friends, and users in `only_to` and in `not_to`.
    for friend in [2, 3] {
        server.follow("star", &follower(friend)).await;
    }
    let mut clients = Vec::new();
    for n in [0, 2, 4, 6] {
        clients.push(Client::connect(&server, &follower(n)).await);
    }
    let mut since = Vec::new();
    for n in 0..8 {
        since.push(position(&server, &follower(n)).await);
    }
    let visibilities = [
        (json!("public"), vec![0, 2, 4, 6]),
        (json!("followers"), vec![0, 2, 4, 6]),
        (json!("friends"), vec![2]),
        (json!({ "only_to": [follower(4), follower(5), "stranger"] }), vec![4]),
        (json!({ "not_to": [follower(6), follower(7)] }), vec![0, 2, 4]),
        (json!({ "only_to": ["stranger"] }), vec![]),
        // The last post; once it arrives, all others have.
        (json!("public"), vec![0, 2, 4, 6]),
    ];
    let mut posts = Vec::new();
    for (visibility, _) in &visibilities {
        let post = json!({ "text": "hello", "visibility": visibility });
        posts.push(server.done("star", "POST", "/posts", &post).await["id"].as_u64().expect("an id"));
    }
    for (kind, client) in [0, 2, 4, 6].into_iter().zip(&mut clients) {
        let theirs = posts.iter().zip(&visibilities).filter(|(_, (_, kinds))| kinds.contains(&kind));
        let theirs: Vec<u64> = theirs.map(|(id, _)| *id).collect();
        assert_eq!(received(client, &follower(kind), theirs.len()).await, arrived(&theirs), "{kind} live");
        // The friends also receive a notification about the follow, at any time.
        let notifications = format!("notifications:{}", follower(kind));
        let mut pushed = client.pushed().await;
        pushed.retain(|push| push["channel"] != notifications.as_str());
        assert!(pushed.is_empty(), "{kind} live: {pushed:?}");
        let newest: Vec<u64> = theirs.iter().rev().copied().collect();
        for n in [kind, kind + 1] {
            assert_eq!(timeline(&server, &follower(n)).await, newest, "{n}");
            assert_eq!(updates(&server, &follower(n), &since[n]).await, arrived(&theirs), "{n}");
        }
    }
    let newest: Vec<u64> = posts.iter().rev().copied().collect();
    assert_eq!(timeline(&server, "star").await, newest, "the author's own");
    assert_eq!(timeline(&server, "stranger").await, [0; 0]);
}

#[tokio::test]
async fn mutes_and_hides_apply_at_once_and_lose_nothing() {
    let server = star(9).await;
    let (here, away) = (follower(0), follower(1));
    let mut live = Client::connect(&server, &here).await;
    let mut other = Client::connect(&server, &follower(2)).await;
    let since = position(&server, &away).await;
    let one = server.post("star", "one").await;
    for (user, client) in [(&here, &mut live), (&follower(2), &mut other)] {
        assert_eq!(received(client, user, 1).await, arrived(&[one]));
    }
    let (mut all, word) = (vec![one], |kind: &str, id: u64| (kind.to_owned(), id));
    for what in ["mute", "hide"] {
        let change = async |method: &str| {
            for reader in [&here, &away] {
                let (maker, target) =
                    if what == "mute" { (reader.as_str(), "star") } else { ("star", reader.as_str()) };
                server.done(maker, method, &format!("/users/{target}/{what}"), &Value::Null).await;
            }
        };
        change("PUT").await;
        // The disconnected reader has not read the pulled posts.
        for reader in [&here, &away] {
            assert_eq!(timeline(&server, reader).await, [0; 0], "{what}: {reader}");
        }
        let gone = received(&mut live, &here, all.len()).await;
        assert_eq!(gone, all.iter().map(|id| word("gone", *id)).collect::<Vec<_>>(), "{what}");
        let unseen = server.post("star", what).await;
        assert_eq!(received(&mut other, &follower(2), 1).await, arrived(&[unseen]));
        assert!(live.pushed().await.is_empty(), "{what}");
        assert_eq!(timeline(&server, &here).await, [0; 0], "{what}");
        let since_then = updates(&server, &away, &since).await;
        assert!(!since_then.contains(&word("post", unseen)), "{what}: {since_then:?}");
        all.push(unseen);
        change("DELETE").await;
        assert_eq!(received(&mut live, &here, all.len()).await, arrived(&all), "{what}");
        let newest: Vec<u64> = all.iter().rev().copied().collect();
        for reader in [&here, &away] {
            assert_eq!(timeline(&server, reader).await, newest, "{what}: {reader}");
        }
    }
    let last = server.post("star", "as before").await;
    assert_eq!(received(&mut live, &here, 1).await, arrived(&[last]));
}

#[tokio::test]
async fn blocks_remove_stored_and_live_posts() {
    let server = star(9).await;
    let (here, away) = (follower(0), follower(1));
    let mut live = Client::connect(&server, &here).await;
    let mut other = Client::connect(&server, &follower(2)).await;
    let since = position(&server, &away).await;
    let one = server.post("star", "one").await;
    assert_eq!(received(&mut live, &here, 1).await, arrived(&[one]));
    assert_eq!(received(&mut other, &follower(2), 1).await, arrived(&[one]));
    server.done(&here, "PUT", "/users/star/block", &Value::Null).await;
    server.done("star", "PUT", &format!("/users/{away}/block"), &Value::Null).await;
    assert_eq!(received(&mut live, &here, 1).await, [("gone".to_owned(), one)]);
    let two = server.post("star", "two").await;
    assert_eq!(received(&mut other, &follower(2), 1).await, arrived(&[two]));
    for reader in [&here, &away] {
        assert_eq!(timeline(&server, reader).await, [0; 0], "{reader}");
    }
    assert!(live.pushed().await.is_empty());
    let told_since = updates(&server, &away, &since).await;
    assert!(told_since.iter().all(|(kind, _)| kind == "gone"), "{told_since:?}");
    // Unblocking does not restore the follow; a new follow restores the posts.
    server.done(&here, "DELETE", "/users/star/block", &Value::Null).await;
    let three = server.post("star", "three").await;
    assert_eq!(received(&mut other, &follower(2), 1).await, arrived(&[three]));
    assert_eq!(timeline(&server, &here).await, [0; 0]);
    server.follow(&here, "star").await;
    assert_eq!(timeline(&server, &here).await, [three, two, one]);
    assert_eq!(received(&mut live, &here, 3).await, arrived(&[one, two, three]));
}

/// For a pulled author, an unfollow purges the inbox a second time after a delay, to remove posts that were written
/// after the first time.
#[tokio::test]
async fn following_again_keeps_earlier_posts() {
    let server = star(8).await;
    let ann = follower(0);
    let one = server.post("star", "one").await;
    pulled(&server, 1).await;
    // No client has opened this timeline yet.
    server.done(&ann, "DELETE", "/users/star/follow", &Value::Null).await;
    server.follow(&ann, "star").await;
    let mut live = Client::connect(&server, &ann).await;
    assert_eq!(timeline(&server, &ann).await, [one]);
    // The post's job, and the second purge of the unfollow.
    server.metric_is("feedline_fanout_lag_seconds_count", 2.0).await;
    assert!(live.pushed().await.is_empty(), "the post was removed and pushed again");
    assert_eq!(timeline(&server, &ann).await, [one]);
}

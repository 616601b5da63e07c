//! Posts that a user may not see are not shown or delivered to them, at any node and during any concurrent operation.

use std::time::Duration;

use feedline::broker::{Append, Broker, InboxOptions, LedgerRecord as _, RedisBroker, RedisOptions};
use feedline::model::{ClientEvent, Entry, PostId, Retention, UserId};
use serde_json::{Value, json};

use crate::chaos;
use crate::client::{Client, Heard};
use crate::cluster::{Cluster, attempt, done, position, post, resume, until};
use crate::random::SeededRandom;
use crate::server::PATIENCE;

/// Enough followers that a fan-out takes a while, in pages of [`PAGE`].
const FOLLOWERS: usize = 240;
const PAGE: &str = "8";

#[tokio::test]
async fn blocks_apply_to_the_next_delivery_and_read_at_the_other_node() {
    let cluster = Cluster::start().await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    done(a, "ann", "GET", "/users/ann").await;
    done(b, "bo", "PUT", "/users/ann/follow").await;
    let mut bo = Client::connect(b, "bo").await;
    for channel in ["user:ann", "topic:t"] {
        bo.subscribe(channel).await;
    }
    for round in 0..5 {
        // The other node has the relation of the two users in its cache.
        let seen = post(a, "ann", "seen #t").await;
        for channel in ["timeline:bo", "user:ann", "topic:t"] {
            assert_eq!(bo.publication(channel).await["data"]["post"]["id"], seen, "round {round}, {channel}");
        }
        let what = ["hide", "block"][round % 2];
        done(a, "ann", "PUT", &format!("/users/bo/{what}")).await;
        assert_eq!(bo.publication("timeline:bo").await["data"]["type"], "gone", "round {round}");
        // The profile of a user who hides can still be read.
        let is_blocked = what == "block";
        if is_blocked {
            assert_eq!(bo.push_of("user:ann", "unsubscribe").await["code"], 2000, "round {round}");
        }
        let secret = post(a, "ann", "secret #t").await;
        cluster.carried(PATIENCE).await;
        let own = post(b, "bo", "own #t").await;
        for channel in ["timeline:bo", "topic:t"] {
            loop {
                let data = bo.publication(channel).await["data"].take();
                if data["post"]["id"] == own {
                    break;
                }
                assert_eq!(data["type"], "gone", "round {round}, {channel}: {data}");
            }
        }
        let heard = bo.pushed().await;
        assert!(!heard.iter().any(|push| push.to_string().contains("secret")), "round {round}: {heard:?}");
        for id in [seen, secret] {
            let (status, _) = attempt(b, "bo", "GET", &format!("/posts/{id}"), &Value::Null).await;
            assert_eq!(status, 404, "round {round}");
        }
        done(a, "ann", "DELETE", &format!("/users/bo/{what}")).await;
        until("the other node knows that it is over", async || {
            attempt(b, "bo", "PUT", "/users/ann/follow", &Value::Null).await.0 == 200
        })
        .await;
        // Waits for the restored posts, so that none arrives in the next round.
        post(b, "bo", "over").await;
        while !bo.publication("timeline:bo").await.to_string().contains("over") {}
        if is_blocked {
            bo.subscribe("user:ann").await;
        }
    }
}

#[tokio::test]
async fn blocks_during_a_fan_out_do_not_leak() {
    let mut random = SeededRandom::new(SeededRandom::seed());
    let cluster = Cluster::start_with(2, &[("fanout.page", PAGE), ("fanout.lease", "1s")]).await;
    let follower = |n: usize| format!("f{n:04}");
    let edges: Vec<_> = (0..FOLLOWERS).map(|n| (follower(n), "ann".to_owned())).collect();
    cluster.load(&edges).await;
    let [still, other] = &cluster.nodes[..] else { panic!("two nodes") };
    for round in 0..chaos::rounds(4, 8) {
        // One user per page, half of them connected to each node.
        let users: Vec<String> = (0..FOLLOWERS).filter(|n| n % 8 == round).map(follower).collect();
        let mut clients = Vec::new();
        for (n, user) in users.iter().enumerate() {
            let since = position(other, user).await;
            clients.push((user, since, Client::connect([still, other][n % 2], user).await));
        }
        let id = post(still, "ann", "secret").await;
        tokio::time::sleep(Duration::from_micros(random.below(25_000) as u64)).await;
        cluster.pause_without_lock(still).await;
        // Some users have the post by now. After the block is answered, no further user may receive it.
        for user in &users {
            done(other, "ann", "PUT", &format!("/users/{user}/block")).await;
        }
        for (_, _, client) in clients.iter_mut().skip(1).step_by(2) {
            // Discards the pushes that arrived before the answers.
            client.pushed().await;
        }
        resume(still);
        cluster.carried(PATIENCE).await;
        for (n, (user, since, mut client)) in clients.into_iter().enumerate() {
            let page = done(other, user, "GET", "/timeline?limit=20").await;
            assert_eq!(page["items"], json!([]), "round {round}, {user}");
            let (offset, epoch) = (&since["offset"], since["epoch"].as_str().expect("an epoch"));
            let updates = done(other, user, "GET", &format!("/timeline/updates?offset={offset}&epoch={epoch}")).await;
            assert!(!updates.to_string().contains("secret"), "round {round}, {user}: {updates}");
            // If the post was inserted, it must have been removed from the log, and not only be hidden on reads.
            let items = updates["items"].as_array().expect("items");
            let last = items.iter().rfind(|item| item["data"]["id"] == id);
            let ends: Vec<_> = items.iter().filter(|item| item["data"]["id"] == id).collect();
            assert!(last.is_none() || ends.len() % 2 == 0, "round {round}, {user}: {ends:?}");
            if n % 2 == 1 {
                let heard = client.pushed().await;
                assert!(
                    !heard.iter().any(|push| push.to_string().contains("secret")),
                    "round {round}, {user}: {heard:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn activity_is_pushed_to_users_who_may_see_actor_and_post() {
    let cluster = Cluster::start().await;
    let [a, b] = &cluster.nodes[..] else { panic!("two nodes") };
    for person in ["ann", "bo", "cy", "dee"] {
        done(a, person, "GET", &format!("/users/{person}")).await;
    }
    let options = RedisOptions {
        url: cluster.redis.url(),
        timeout: Duration::from_secs(5),
        prefix: "feedline".into(),
        inbox: InboxOptions { length: 10, idle: Duration::from_secs(60) },
        probe_every: Duration::from_secs(5),
    };
    let broker = RedisBroker::connect(options).await.expect("a broker");
    // Identifies the ledger's incarnation as the nodes do. Logs of another incarnation count as lost.
    let identity = cluster.redis.ask(r#"EVAL "return {ok=redis.call('HGET','feedline:ledger','i')}" 0"#);
    broker.use_incarnation(identity.trim_start_matches('+').split(' ').next().expect("an incarnation"));
    let id = post(a, "ann", "what do you think").await;
    let channel = format!("post:{id}");
    let mut readers = Vec::new();
    for (user, node) in [("ann", a), ("bo", b), ("dee", a)] {
        let mut client = Client::connect(node, user).await;
        client.subscribe(&channel).await;
        readers.push((user, client));
    }
    // cy blocks dee, and ann hides her posts from bo in the end.
    done(a, "cy", "PUT", "/users/dee/block").await;
    let retention = Retention { size: 100, ttl: Duration::from_secs(60) };
    let say = async |entry: Entry| {
        let append = Append { channel: &channel, entry: &entry, retention, idempotency_key: None, version: None };
        broker.append(append).await.expect("it is said");
    };
    let cy = UserId::parse("cy").expect("an id");
    let number = PostId(id);
    let members = |n: u64| {
        ClientEvent::Counts { id: number, likes: 0, comments: 0, reposts: None, quotes: None, version: n }.encode()
    };
    say(Entry::Restricted(vec![cy.clone()], members(1))).await;
    say(Entry::Data(members(2))).await;
    // Visibility is checked at delivery: bo receives these before ann hides from him.
    let (_, bo) = &mut readers[1];
    for n in [1, 2] {
        assert_eq!(bo.publication(&channel).await["data"]["version"], n, "bo");
    }
    done(b, "ann", "PUT", "/users/bo/hide").await;
    say(Entry::Restricted(vec![cy], members(3))).await;
    say(Entry::Data(members(4))).await;
    let (_, mut bo) = readers.remove(1);
    assert_eq!(bo.push_of(&channel, "unsubscribe").await["code"], 2000);
    let history = bo.call(json!({ "history": { "channel": channel, "limit": -1 } })).await;
    assert_eq!(history["error"]["code"], 103, "{history}");
    assert!(bo.pushed().await.iter().all(|push| push.get("pub").is_none()), "it was not visible any more");
    for (user, client) in &mut readers {
        let expected: &[u64] = if *user == "ann" { &[1, 2, 3, 4] } else { &[2, 4] };
        for n in expected {
            assert_eq!(client.publication(&channel).await["data"]["version"], *n, "{user}");
        }
        let history = client.done(json!({ "history": { "channel": channel, "limit": -1 } })).await;
        let read: Vec<_> = history["history"]["publications"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|it| &it["data"]["version"])
            .collect();
        assert_eq!(read, expected, "{user}");
        let late = client.push_within(Duration::from_millis(50)).await;
        assert!(!matches!(late, Some(Heard::Push(_))), "{user}: {late:?}");
    }
}

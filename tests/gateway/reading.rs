//! What a page of posts is made of, and what it costs.

use serde_json::{Value, json};

use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::server::Server;

#[tokio::test]
async fn a_post_is_shown_with_its_counts_and_a_page_with_its_people() {
    let server = Server::start_with(&[("auth.anonymous", "true")]).await;
    let zero = json!({ "likes": 0, "comments": 0, "favourites": 0 });
    let counts = |post: &Value| json!({ "likes": post["likes"], "comments": post["comments"], "favourites": post["favourites"] });
    let flags = |post: &Value| json!([post["liked"], post["favourited"]]);

    server.follow("ann", "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    let made = server.done("bo", "POST", "/posts", &json!({ "text": "one #here" })).await;
    assert_eq!((counts(&made), flags(&made)), (zero.clone(), json!([false, false])));
    let pushed = ann.publication("timeline:ann").await["data"]["post"].clone();
    assert_eq!((counts(&pushed), flags(&pushed)), (zero.clone(), json!([null, null])), "the same for everyone");

    let mut nobody = Client::open(&server).await;
    nobody.done(json!({ "connect": {} })).await;
    for (method, input) in [
        ("timeline.read", json!({})),
        ("users.posts", json!({ "id": "bo" })),
        ("topics.read", json!({ "name": "here" })),
    ] {
        let page = ann.rpc(method, &input).await;
        let post = &page["items"][0];
        assert_eq!((counts(post), flags(post)), (zero.clone(), json!([false, false])), "{method}");
        assert_eq!(post["text"], "one #here");
        assert_eq!(page["people"], json!({ "bo": { "id": "bo", "name": "bo" } }), "{method}");
        if method != "timeline.read" {
            let page = nobody.rpc(method, &input).await;
            assert_eq!(flags(&page["items"][0]), json!([null, null]), "{method} read by nobody in particular");
        }
    }
    let one = ann.rpc("posts.get", &json!({ "id": made["id"] })).await;
    assert_eq!((counts(&one), flags(&one)), (zero, json!([false, false])));
}

#[tokio::test]
async fn a_page_costs_as_many_round_trips_however_long_it_is() {
    costs_the_same(&Server::start().await).await;
}

#[tokio::test]
async fn a_page_costs_as_many_round_trips_however_long_it_is_with_redis() {
    let redis = RedisServer::start();
    costs_the_same(&Server::start_with(&[("broker.url", &redis.url())]).await).await;
}

async fn costs_the_same(server: &Server) {
    // The posts of a page are by as many people as it has posts.
    let mut ann = Client::connect(server, "ann").await;
    for n in 0..110 {
        let author = format!("author-{n}");
        server.follow("ann", &author).await;
        server.post(&author, "about #all").await;
        server.post("bo", "by one").await;
    }
    for (method, mut input) in [
        ("timeline.read", json!({})),
        ("users.posts", json!({ "id": "bo" })),
        ("topics.read", json!({ "name": "all" })),
    ] {
        let mut costs = Vec::new();
        for limit in [1, 20, 100] {
            input["limit"] = limit.into();
            let page = ann.rpc(method, &input).await;
            assert_eq!(page["items"].as_array().map(Vec::len), Some(limit), "{method}");
            costs.push(cost(server, &mut ann, method, &input).await);
        }
        assert!(costs.iter().all(|cost| *cost == costs[0]), "{method} of 1, 20 and 100: {costs:?}");
        assert!(costs[0].0 >= 3 && costs[0].0 <= 12, "{method} makes some round trips and not many: {costs:?}");
    }
}

/// Round trips to the ledger and to Redis that a page takes: the fewest of a few attempts, for others ask meanwhile, too.
pub(crate) async fn cost(server: &Server, client: &mut Client, method: &str, input: &Value) -> (u64, u64) {
    let mut fewest = (u64::MAX, u64::MAX);
    for _ in 0..8 {
        let before = made(server).await;
        client.rpc(method, input).await;
        let after = made(server).await;
        fewest = (fewest.0.min(after.0 - before.0), fewest.1.min(after.1 - before.1));
    }
    fewest
}

async fn made(server: &Server) -> (u64, u64) {
    let ledger = server.metric("feedline_ledger_round_trips").await.expect("a sample");
    let redis = server.metric("feedline_redis_round_trips").await.expect("a sample");
    (ledger as u64, redis as u64)
}

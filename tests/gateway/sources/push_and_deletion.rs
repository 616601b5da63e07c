//! Source 004: a post pushed to every follower, and deleted everywhere.

use serde_json::{Value, json};

use super::{carried, delete, get, ids, received, timeline};
use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::server::Server;

#[tokio::test]
async fn posts_are_pushed_to_the_author_and_every_follower() {
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
    assert_eq!(timeline(&server, "ann").await, [id], "at once with the reply");
    assert_eq!(ids(&get(&server, "ann", "/users/ann/posts").await), [id]);
    for (name, client) in &mut followers {
        assert_eq!(received(client, name).await, ("post".into(), id));
    }
    // The author's timeline contains the post with the reply, independent of the fan-out to followers.
    let mut newest_first = vec![id];
    for _ in 0..20 {
        newest_first.insert(0, server.post("ann", "another").await);
        assert_eq!(timeline(&server, "ann").await, newest_first);
    }
}

#[tokio::test]
async fn pages_hold_thirty_posts_newest_first() {
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
async fn deleted_posts_disappear_everywhere() {
    let server = Server::start().await;
    server.follow("here", "ann").await;
    server.follow("away", "ann").await;
    let mut here = Client::connect(&server, "here").await;
    let (stays, goes) = (server.post("ann", "stays").await, server.post("ann", "goes #t").await);
    for id in [stays, goes] {
        assert_eq!(received(&mut here, "here").await, ("post".into(), id));
    }
    delete(&server, "ann", &format!("/posts/{goes}")).await;
    assert_eq!(received(&mut here, "here").await, ("gone".into(), goes));
    for reader in ["ann", "here", "away"] {
        assert_eq!(timeline(&server, reader).await, [stays], "{reader}");
        assert_eq!(ids(&get(&server, reader, "/users/ann/posts").await), [stays], "{reader}");
        assert_eq!(ids(&get(&server, reader, "/topics/t/posts").await), [] as [u64; 0], "{reader}");
        let one = server.call(reader, "GET", &format!("/posts/{goes}"), &Value::Null).await;
        assert_eq!(one.status, 404, "{reader}");
    }
}

#[tokio::test]
async fn active_followers_are_pushed_to_and_others_pull() {
    let redis = RedisServer::start();
    let server = Server::start_with(&[("broker.url", &redis.url())]).await;
    for reader in ["here", "away"] {
        server.follow(reader, "ann").await;
    }
    let mut here = Client::connect(&server, "here").await;
    // The user has connected before, and recently enough that the inbox still exists.
    drop(Client::connect(&server, "away").await);
    let log = "feedline:{timeline:away}:l";
    assert!(redis.ask(&format!("DEL {log} feedline:{{timeline:away}}:m")).starts_with(':'));
    let mut written = Vec::new();
    for _ in 0..3 {
        written.insert(0, server.post("ann", "a post").await);
        assert_eq!(received(&mut here, "here").await, ("post".into(), written[0]));
    }
    carried(&server, written.len()).await;
    assert_eq!(redis.ask(&format!("EXISTS {log}")), ":0", "nothing is written for disconnected users");
    let mut away = Client::connect(&server, "away").await;
    assert_eq!(ids(&away.rpc("timeline.read", &json!({})).await), written, "a full timeline at once");
}

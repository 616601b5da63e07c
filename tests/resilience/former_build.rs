//! A node of a former build beside one of this build, on stores that the former one made.
//!
//! `make former FORMER=PATH` runs this with the program at PATH.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::postgres_server::shared;
use crate::reader::Reader;
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server};

/// Writes `many` posts by two authors at two nodes in turn. Returns their ids.
async fn post_at(nodes: [&Server; 2], many: usize) -> BTreeSet<u64> {
    let mut posts = BTreeSet::new();
    for n in 0..many {
        let author = if n % 3 == 0 { "bo" } else { "ann" };
        posts.insert(nodes[n % 2].post(author, &format!("post {n} #news")).await);
    }
    posts
}

async fn serve_together(ledger: &str) {
    let former = PathBuf::from(std::env::var_os("FEEDLINE_FORMER").expect("FEEDLINE_FORMER is the program to run"));
    let redis = RedisServer::start();
    let url = redis.url();
    let keys = [("broker.url", &*url), ("ledger.url", ledger)];
    let mut old = Server::start_program(former, &keys).await;
    for fan in ["fan", "fan2"] {
        for author in ["ann", "bo"] {
            old.done(author, "GET", &format!("/users/{author}"), &Value::Null).await;
            old.follow(fan, author).await;
        }
    }
    let mut posts = post_at([&old, &old], 3).await;
    let readers = ["fan", "fan2"].map(Reader::new);
    readers[0].go(Some(old.port()));
    readers[0].sees(&posts, PATIENCE).await.expect("the posts");

    // The start of the new node migrates the schema below the old one.
    let new = Server::start_with(&keys).await;
    readers[1].go(Some(new.port()));
    posts.extend(post_at([&old, &new], 40).await);
    let (edited, deleted) = (*posts.first().expect("a post"), *posts.last().expect("a post"));
    old.done("bo", "PATCH", &format!("/posts/{edited}"), &json!({ "text": "edited" })).await;
    let author = new.done("fan", "GET", &format!("/posts/{deleted}"), &Value::Null).await["author"].clone();
    let author = author.as_str().expect("a user");
    new.done(author, "DELETE", &format!("/posts/{deleted}"), &Value::Null).await;
    posts.remove(&deleted);
    for reader in &readers {
        reader.sees(&posts, PATIENCE).await.expect("every post once");
    }

    for node in [&old, &new] {
        let shown = node.done("fan", "GET", &format!("/posts/{edited}"), &Value::Null).await;
        assert_eq!(shown["text"], "edited", "at {}", node.port());
    }

    // A quote is a post at the old node.
    let quoted = posts.iter().nth(5).copied();
    let quote = new.done("bo", "POST", "/posts", &json!({ "text": "look", "quote": quoted })).await;
    posts.insert(quote["id"].as_u64().expect("an id"));
    posts.extend(post_at([&old, &new], 4).await);
    for reader in &readers {
        reader.sees(&posts, PATIENCE).await.expect("every post once");
    }

    // The client of the old node moves to the new one, and recovers.
    readers[0].go(None);
    posts.extend(post_at([&old, &new], 6).await);
    readers[0].go(Some(new.port()));
    assert!(old.stop().await.success(), "{}", old.log());
    posts.extend(post_at([&new, &new], 6).await);
    for reader in &readers {
        reader.sees(&posts, PATIENCE).await.expect("every post once");
        reader.look(|view| {
            assert_eq!(view.wrong, [""; 0], "{}", reader.user);
            assert_eq!(view.anew, 1, "{} recovers", reader.user);
        });
    }
}

#[tokio::test]
#[ignore = "needs the program of a former build"]
async fn a_former_build_serves_beside_this_one_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    serve_together(&format!("sqlite://{}", folder.path().join("ledger.db").display())).await;
}

#[tokio::test]
#[ignore = "needs the program of a former build"]
async fn a_former_build_serves_beside_this_one_on_postgres() {
    let name = shared().database("template1").await;
    serve_together(&shared().url(&name)).await;
}

//! Edits: changed and unchanged fields, and the recipients of the push.

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::Server;

async fn write(server: &Server, user: &str, post: &Value) -> u64 {
    server.done(user, "POST", "/posts", post).await["id"].as_u64().expect("an id")
}

async fn edit(server: &Server, user: &str, id: u64, change: &Value) -> Value {
    server.done(user, "PATCH", &format!("/posts/{id}"), change).await
}

/// The next publication on a channel: its type, the post it is about, and its text or reason.
async fn received(client: &mut Client, channel: &str) -> (String, u64, String) {
    let data = client.publication(channel).await["data"].take();
    let id = data["post"]["id"].as_u64().or(data["id"].as_u64()).expect("a post");
    let rest = data["post"]["text"].as_str().or(data["reason"].as_str()).expect("a text or a reason");
    (data["type"].as_str().expect("a type").to_owned(), id, rest.to_owned())
}

fn so(kind: &str, id: u64, rest: &str) -> (String, u64, String) {
    (kind.to_owned(), id, rest.to_owned())
}

#[tokio::test]
async fn patch_sets_given_fields_keeps_absent_and_clears_null() {
    let server = Server::start().await;
    let post = json!({
        "text": "about #rust and @cy", "topics": ["feeds"], "data": { "k": 1 }, "platform": "web",
        "location": { "lat": 1.0, "lon": 2.0 }, "media": [{ "type": "image", "url": "https://a.example/1" }],
        "visibility": "followers",
    });
    let id = write(&server, "bo", &post).await;
    let before = server.done("bo", "GET", &format!("/posts/{id}"), &Value::Null).await;
    assert_eq!(before.get("edited_at"), None);
    let after = edit(&server, "bo", id, &json!({ "text": "about #Go and @dee" })).await;
    let mut expected = before.clone();
    expected["text"] = "about #Go and @dee".into();
    expected["topics"] = json!(["feeds", "go"]);
    expected["mentions"] = json!(["dee"]);
    expected["edited_at"] = after["edited_at"].clone();
    assert!(after["edited_at"].as_u64() >= before["created_at"].as_u64());
    assert_eq!(after, expected, "topics that were given stay, those of the old text go");
    assert_eq!(server.done("bo", "GET", &format!("/posts/{id}"), &Value::Null).await, after);
    let cleared = json!({ "media": null, "location": null, "data": null, "topics": null });
    let after = edit(&server, "bo", id, &cleared).await;
    for gone in ["media", "location", "data"] {
        assert_eq!(after.get(gone), None, "{gone}");
    }
    assert_eq!((&after["topics"], &after["visibility"]), (&json!(["feeds", "go"]), &json!("followers")));
    let after = edit(&server, "bo", id, &json!({ "topics": [], "text": null })).await;
    assert_eq!((&after["topics"], &after["text"]), (&json!(["go"]), &json!("about #Go and @dee")));

    let refused = async |user: &str, id: u64, change: Value| {
        let answer = server.call(user, "PATCH", &format!("/posts/{id}"), &change).await;
        (answer.status.as_u16(), answer.body["error"]["field"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(refused("bo", id, json!({ "text": "" })).await, (400, "text".into()));
    assert_eq!(refused("bo", id, json!({ "text": "x".repeat(5001) })).await, (422, "text".into()));
    assert_eq!(refused("bo", id, json!({ "visibility": { "only_to": [] } })).await, (400, "visibility".into()));
    assert_eq!(refused("bo", id, json!({ "platform": "x" })).await, (400, "platform".into()));
    edit(&server, "bo", id, &json!({ "visibility": "public" })).await;
    assert_eq!(refused("cy", id, json!({ "text": "mine" })).await.0, 403);
    edit(&server, "bo", id, &json!({ "visibility": "friends" })).await;
    assert_eq!(refused("cy", id, json!({ "text": "mine" })).await.0, 404, "an invisible post counts as missing");
    server.done("bo", "DELETE", &format!("/posts/{id}"), &Value::Null).await;
    assert_eq!(refused("bo", id, json!({ "text": "late" })).await.0, 404);
}

/// A text that is saved unchanged is not shown as edited, and nobody is sent anything.
#[tokio::test]
async fn what_changes_nothing_is_no_edit() {
    let server = Server::start().await;
    let post = json!({
        "text": "about #rust and @cy", "topics": ["feeds"], "data": { "k": 1 }, "visibility": { "not_to": ["eve"] },
        "location": { "lat": 1.0, "lon": 2.0 }, "media": [{ "type": "image", "url": "https://a.example/1" }],
    });
    let id = write(&server, "bo", &post).await;
    let comment = server.done("bo", "POST", &format!("/posts/{id}/comments"), &json!({ "text": "hi @cy" })).await;
    let before = server.done("bo", "GET", &format!("/posts/{id}"), &Value::Null).await;
    let mut cy = Client::connect(&server, "cy").await;
    cy.subscribe("user:bo").await;
    cy.subscribe(&format!("post:{id}")).await;
    let mut same = vec![json!({}), json!({ "text": null, "topics": null })];
    for (member, value) in post.as_object().expect("members") {
        same.push(json!({ member: value }));
    }
    for change in &same {
        assert_eq!(edit(&server, "bo", id, change).await, before, "{change}");
    }
    let path = format!("/comments/{}", comment["id"]);
    let mut unchanged = server.done("bo", "PATCH", &path, &json!({ "text": "hi @cy" })).await;
    unchanged.as_object_mut().expect("a comment").remove("liked");
    let mut expected = comment.clone();
    expected.as_object_mut().expect("a comment").remove("liked");
    assert_eq!(unchanged, expected);
    let edited = edit(&server, "bo", id, &json!({ "text": "another" })).await;
    assert!(edited["edited_at"].is_u64(), "{edited}");
    for channel in ["user:bo".to_owned(), format!("post:{id}")] {
        assert_eq!(received(&mut cy, &channel).await, so("edited", id, "another"), "{channel}: the first");
    }
}

#[tokio::test]
async fn no_null_makes_an_audience_larger() {
    let server = Server::start().await;
    let private = json!({ "only_to": ["cy"] });
    let id = write(&server, "bo", &json!({ "text": "for cy", "visibility": private })).await;
    let nulls = [
        json!(null),
        json!({ "public": null }),
        json!({ "followers": null }),
        json!({ "friends": null }),
        json!({ "only_to": null }),
        json!({ "not_to": null }),
        json!({ "only_to": [null] }),
        json!({}),
        json!([]),
    ];
    for visibility in nulls {
        let change = json!({ "visibility": visibility });
        let draft = json!({ "text": "a post", "visibility": visibility });
        for (method, path, body) in [("PATCH", format!("/posts/{id}"), &change), ("POST", "/posts".into(), &draft)] {
            let answer = server.call("bo", method, &path, body).await;
            assert_eq!(answer.status.as_u16(), 400, "{method} {body}: {}", answer.body);
        }
        let mut client = Client::connect(&server, "bo").await;
        for (method, params) in [("posts.edit", json!({ "id": id, "visibility": visibility })), ("posts.create", draft)]
        {
            let reply = client.call(json!({ "rpc": { "method": method, "data": params } })).await;
            assert_eq!(reply["error"]["code"], 400, "{method} {params}: {reply}");
        }
    }
    let post = server.done("bo", "GET", &format!("/posts/{id}"), &Value::Null).await;
    assert_eq!(post["visibility"], private);
    assert_eq!(server.call("ann", "GET", &format!("/posts/{id}"), &Value::Null).await.status.as_u16(), 404);
    let written = server.done("bo", "GET", "/users/bo/posts", &Value::Null).await;
    assert_eq!(written["items"].as_array().map(Vec::len), Some(1), "{written}");
}

#[tokio::test]
async fn edits_are_pushed_to_every_channel_of_the_post() {
    let server = Server::start().await;
    server.follow("ann", "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    let id = write(&server, "bo", &json!({ "text": "one #a #b" })).await;
    let channels = ["timeline:ann", "user:bo", "topic:a", "topic:b", "topic:c", &format!("post:{id}")];
    assert_eq!(received(&mut ann, "timeline:ann").await, so("post", id, "one #a #b"));
    for channel in &channels[1..] {
        ann.subscribe(channel).await;
    }
    edit(&server, "bo", id, &json!({ "text": "two #b #c" })).await;
    let edited = so("edited", id, "two #b #c");
    for channel in ["timeline:ann", "user:bo", "topic:b", &format!("post:{id}")] {
        assert_eq!(received(&mut ann, channel).await, edited, "{channel}");
    }
    assert_eq!(received(&mut ann, "topic:a").await, so("gone", id, "hidden"));
    assert_eq!(received(&mut ann, "topic:c").await, so("post", id, "two #b #c"));
    let page = server.done("ann", "GET", "/timeline", &Value::Null).await;
    assert_eq!((&page["items"][0]["text"], page["items"].as_array().map(Vec::len)), (&json!("two #b #c"), Some(1)));
}

#[tokio::test]
async fn audience_changes_remove_and_deliver_posts_live() {
    let server = Server::start().await;
    for reader in ["ann", "cy"] {
        server.follow(reader, "bo").await;
    }
    server.follow("bo", "cy").await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut cy = Client::connect(&server, "cy").await;
    let mut stranger = Client::connect(&server, "dee").await;
    let id = write(&server, "bo", &json!({ "text": "one #t" })).await;
    let newer = write(&server, "bo", &json!({ "text": "newer" })).await;
    for (client, user) in [(&mut ann, "ann"), (&mut cy, "cy"), (&mut stranger, "dee")] {
        if user != "dee" {
            assert_eq!(received(client, &format!("timeline:{user}")).await.1, id);
            assert_eq!(received(client, &format!("timeline:{user}")).await.1, newer);
        }
        for channel in ["user:bo".to_owned(), "topic:t".to_owned(), format!("post:{id}")] {
            client.subscribe(&channel).await;
        }
    }
    let everywhere = ["user:bo", "topic:t", &format!("post:{id}")];
    edit(&server, "bo", id, &json!({ "visibility": "friends" })).await;
    for client in [&mut ann, &mut stranger] {
        for channel in everywhere {
            assert_eq!(received(client, channel).await, so("gone", id, "hidden"), "{channel}");
        }
    }
    assert_eq!(received(&mut ann, "timeline:ann").await, so("gone", id, "hidden"));
    for channel in ["timeline:cy", "user:bo", "topic:t", &format!("post:{id}")] {
        assert_eq!(received(&mut cy, channel).await, so("edited", id, "one #t"), "{channel}");
    }
    let texts = async |user: &str| {
        let page = server.done(user, "GET", "/timeline", &Value::Null).await;
        page["items"]
            .as_array()
            .expect("items")
            .iter()
            .map(|item| item["id"].as_u64().expect("an id"))
            .collect::<Vec<_>>()
    };
    assert_eq!((texts("ann").await, texts("cy").await), (vec![newer], vec![newer, id]));

    // From one restricted audience to another; users in neither receive nothing.
    edit(&server, "bo", id, &json!({ "visibility": { "only_to": ["ann"] }, "text": "two #t" })).await;
    assert_eq!(received(&mut ann, "timeline:ann").await, so("post", id, "two #t"), "the post is added");
    assert_eq!(received(&mut cy, "timeline:cy").await, so("gone", id, "hidden"));
    for channel in everywhere {
        assert_eq!(received(&mut ann, channel).await, so("edited", id, "two #t"), "{channel}");
        assert_eq!(received(&mut cy, channel).await, so("gone", id, "hidden"), "{channel}");
    }
    assert_eq!((texts("ann").await, texts("cy").await), (vec![newer, id], vec![newer]), "in its right place");
    server.done("bo", "DELETE", &format!("/posts/{id}"), &Value::Null).await;
    for channel in everywhere {
        assert_eq!(received(&mut ann, channel).await, so("gone", id, "deleted"), "{channel}");
    }
    let mut left = received(&mut ann, "timeline:ann").await;
    // The first edit's job may already have found the second edit's audience and added the post: then the second pushed
    // its text.
    if left == so("edited", id, "two #t") {
        left = received(&mut ann, "timeline:ann").await;
    }
    assert_eq!(left, so("gone", id, "deleted"));
    let last = write(&server, "bo", &json!({ "text": "last #t" })).await;
    for client in [&mut cy, &mut stranger] {
        for channel in ["user:bo", "topic:t"] {
            assert_eq!(received(client, channel).await, so("post", last, "last #t"), "{channel}: nothing before it");
        }
        let heard = client.pushed().await;
        assert!(heard.iter().all(|push| push["channel"] != format!("post:{id}")), "{heard:?}");
    }
}

#[tokio::test]
async fn only_the_author_reads_the_audience_list() {
    let server = Server::start().await;
    for reader in ["ann", "cy"] {
        server.follow(reader, "bo").await;
    }
    let mut bo = Client::connect(&server, "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    for (visibility, shown) in [
        (json!({ "not_to": ["cy"] }), json!("public")),
        (json!({ "only_to": ["ann", "cy", "ann"] }), json!({ "only_to": [] })),
    ] {
        let post = json!({ "text": "who else", "visibility": visibility });
        let id = write(&server, "bo", &post).await;
        let path = format!("/posts/{id}");
        let once = if visibility.get("only_to").is_some() { json!({ "only_to": ["ann", "cy"] }) } else { visibility };
        for (user, expected) in [("bo", &once), ("ann", &shown)] {
            let post = server.done(user, "GET", &path, &Value::Null).await;
            assert_eq!(post["visibility"], *expected, "{user} by id");
            let page = server.done(user, "GET", "/timeline", &Value::Null).await;
            assert_eq!(page["items"][0]["visibility"], *expected, "{user} on the page");
        }
        assert_eq!(ann.publication("timeline:ann").await["data"]["post"]["visibility"], shown);
        assert_eq!(bo.publication("timeline:bo").await["data"]["post"]["visibility"], once);
    }
}

#[tokio::test]
async fn concurrent_edits_of_one_post_all_survive() {
    let server = Server::start().await;
    for round in 0..10 {
        let id = write(&server, "bo", &json!({ "text": "before" })).await;
        let (shut, text, data, place) = (
            json!({ "visibility": "followers" }),
            json!({ "text": "after" }),
            json!({ "data": { "round": round } }),
            json!({ "location": { "lat": 1.0, "lon": 2.0 } }),
        );
        tokio::join!(
            edit(&server, "bo", id, &text),
            edit(&server, "bo", id, &data),
            edit(&server, "bo", id, &shut),
            edit(&server, "bo", id, &place),
        );
        let post = server.done("bo", "GET", &format!("/posts/{id}"), &Value::Null).await;
        for (field, change) in [("visibility", &shut), ("text", &text), ("data", &data), ("location", &place)] {
            assert_eq!(post[field], change[field], "round {round}: {post}");
        }
    }
}

/// Edits and removals go to users who could see the post, both with fan-out on write and with pulled authors. Other
/// users receive nothing.
#[tokio::test]
async fn users_who_never_saw_a_post_get_no_edit() {
    for push_limit in ["10000", "1"] {
        let server = Server::start_with(&[("fanout.push_limit", push_limit)]).await;
        for reader in ["ann", "cy", "eve"] {
            server.follow(reader, "bo").await;
        }
        let mut clients = Vec::new();
        for reader in ["ann", "cy", "eve"] {
            clients.push((reader, Client::connect(&server, reader).await));
        }
        // Every inbox contains a newer entry than the post when the post changes.
        let id = write(&server, "bo", &json!({ "text": "one", "visibility": { "only_to": ["ann", "cy"] } })).await;
        let newer = write(&server, "bo", &json!({ "text": "newer" })).await;
        edit(&server, "bo", id, &json!({ "text": "two" })).await;
        edit(&server, "bo", id, &json!({ "visibility": { "only_to": ["ann"] } })).await;
        server.metric_is("feedline_fanout_jobs", 0.0).await;
        server.done("bo", "DELETE", &format!("/posts/{id}"), &Value::Null).await;
        let last = write(&server, "bo", &json!({ "text": "last" })).await;
        for (reader, client) in &mut clients {
            let mut heard = Vec::new();
            while heard.last().is_none_or(|(_, id, _)| *id != last) {
                heard.push(received(client, &format!("timeline:{reader}")).await);
            }
            let about: Vec<&str> =
                heard.iter().filter(|(_, about, _)| *about == id).map(|(kind, ..)| kind.as_str()).collect();
            assert!(heard.iter().any(|(_, about, _)| *about == newer));
            match *reader {
                "ann" => assert!(about.first() == Some(&"post") && about.last() == Some(&"gone"), "{about:?}"),
                // Pushes of events before the second edit may arrive after it.
                "cy" => assert_eq!(about.last(), Some(&"gone"), "{about:?}"),
                _ => assert_eq!(about, [""; 0], "{reader} got a push for a post never visible to them ({push_limit})"),
            }
        }
    }
}

/// Edits use up entries of inboxes; pages continue in the ledger after the posts that the edits displaced.
#[tokio::test]
async fn frequent_edits_leave_pages_complete() {
    let server = Server::start_with(&[("timeline.length", "20")]).await;
    server.follow("ann", "bo").await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut posts = Vec::new();
    for n in 0..12 {
        posts.push(write(&server, "bo", &json!({ "text": format!("{n}") })).await);
    }
    posts.reverse();
    let mut text = String::new();
    for n in 0..250 {
        text = format!("edited {n}");
        edit(&server, "bo", posts[3], &json!({ "text": text })).await;
    }
    while received(&mut ann, "timeline:ann").await.2 != text {}
    for reader in [&mut ann, &mut Client::connect(&server, "ann").await] {
        let page = reader.rpc("timeline.read", &json!({ "limit": 12 })).await;
        let items = page["items"].as_array().expect("items");
        let ids: Vec<u64> = items.iter().filter_map(|post| post["id"].as_u64()).collect();
        assert_eq!((&ids, &items[3]["text"]), (&posts, &json!(text)));
    }
}

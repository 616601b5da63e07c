//! Comments, likes, favourites, notifications and people, checked against the visibility table.

use serde_json::{Value, json};

use crate::audience::{
    AUTHOR, Differences, END, POSTS, TABLE, call, connect, divide, done, mentioned_in, publish, server, subscribed_over,
};
use crate::client::{Client, Wire};
use crate::server::{API_KEY, Server, signed, token, until};

/// Friends of the author until the test creates restrictions between them and the author.
const DIVIDED: [&str; 4] = ["muting", "hidden", "blocked", "blocking"];

/// A row of [`TABLE`] without the timeline column: the reader, posts opened directly, posts delivered.
type Row = (&'static str, &'static str, &'static str);

fn row(who: &str) -> Row {
    let (who, direct, unrequested, _) = *TABLE.iter().find(|row| row.0 == who).expect("a row");
    (who, direct, unrequested)
}

/// The table before any restriction exists.
fn undivided() -> Vec<Row> {
    let before = |(who, direct, unrequested)| {
        if DIVIDED.contains(&who) { (who, "+++-+", "+++-+") } else { (who, direct, unrequested) }
    };
    TABLE.iter().map(|(who, direct, unrequested, _)| before((*who, *direct, *unrequested))).collect()
}

fn divided() -> Vec<Row> {
    TABLE.iter().map(|(who, direct, unrequested, _)| (*who, *direct, *unrequested)).collect()
}

/// Which of the post ids appear anywhere in a value.
fn named(received: &Value, ids: &[u64]) -> String {
    let text = received.to_string();
    ids.iter().map(|id| if text.contains(&id.to_string()) { '+' } else { '-' }).collect()
}

fn both(one: &str, other: &str) -> String {
    one.chars().zip(other.chars()).map(|it| if it == ('+', '+') { '+' } else { '-' }).collect()
}

/// A backend call with a body on behalf of a user (anonymous if the name is empty). Returns whether its object was
/// found.
pub(crate) async fn finds(server: &Server, who: &str, method: &str, path: &str, body: &Value) -> bool {
    let headers = [("x-api-key", API_KEY), ("x-user", who)];
    let headers = if who.is_empty() { &headers[..1] } else { &headers[..] };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = server.http(method, &format!("/api/v1{path}"), headers, &body).await;
    assert!(answer.status.is_success() || answer.status == 404, "{who:?} {method} {path}: {answer:?}");
    answer.status.is_success()
}

/// For which of these paths the object is found.
async fn found(server: &Server, who: &str, method: &str, paths: impl Iterator<Item = String>, body: &Value) -> String {
    let mut found = String::new();
    for path in paths {
        found.push(if finds(server, who, method, &path, body).await { '+' } else { '-' });
    }
    found
}

/// Checks all reads and actions below posts, and all of a user's lists; `comments` are the author's, one per post.
async fn check(server: &Server, ids: &[u64], comments: &[u64], rows: &[Row], differences: &mut Differences) {
    let friend = row("friend").1;
    for (who, direct, unrequested) in rows.iter().copied() {
        let along = "posts/{id}?with=likers,comments,people";
        for way in ["posts/{id}/comments", "posts/{id}/likes", "objects/post/{id}/favourites", along] {
            let paths = ids.iter().map(|id| format!("/{}", way.replace("{id}", &id.to_string())));
            differences.note(who, way, &found(server, who, "GET", paths, &Value::Null).await, direct);
        }
        for way in ["comments/{id}", "comments/{id}/likes"] {
            let paths = comments.iter().map(|id| format!("/{}", way.replace("{id}", &id.to_string())));
            differences.note(who, way, &found(server, who, "GET", paths, &Value::Null).await, direct);
        }
        let oldest = ids.iter().map(|id| format!("/posts/{id}/comments?order=oldest"));
        differences.note(who, "comments, oldest first", &found(server, who, "GET", oldest, &Value::Null).await, direct);
        // Whom the author blocks finds no profile.
        let liked = call(server, who, "GET", &format!("/users/{AUTHOR}/likes?limit=100")).await.body;
        differences.note(who, "users.likes", &named(&liked["items"], ids), direct);
        let wrote = call(server, who, "GET", &format!("/users/{AUTHOR}/comments?limit=100")).await.body;
        differences.note(who, "users.comments", &named(&wrote["items"], comments), direct);
        if who.is_empty() {
            continue;
        }
        for (method, way, body) in [
            ("POST", "posts/{id}/comments", json!({ "text": "seen" })),
            ("PUT", "posts/{id}/like", Value::Null),
            ("PUT", "favourites/post/{id}", Value::Null),
            ("PUT", "posts/{id}/mute", Value::Null),
            ("DELETE", "posts/{id}/mute", Value::Null),
        ] {
            let paths = ids.iter().map(|id| format!("/{}", way.replace("{id}", &id.to_string())));
            let way = format!("{method} {way}");
            differences.note(who, &way, &found(server, who, method, paths, &body).await, direct);
        }
        let paths = comments.iter().map(|comment| format!("/comments/{comment}/like"));
        differences.note(who, "likes of comments", &found(server, who, "PUT", paths, &Value::Null).await, direct);
        let replies = ids.iter().zip(comments).map(|(id, comment)| format!("/posts/{id}/comments?reply_to={comment}"));
        differences.note(who, "replies", &found(server, who, "GET", replies, &Value::Null).await, direct);

        let kept = done(server, who, "GET", "/favourites/post").await;
        differences.note(who, "favourites.list", &named(&kept, ids), direct);
        let count = done(server, who, "GET", "/favourites/post/count").await["count"].to_string();
        differences.note(who, "favourites.count", &count, &direct.matches('+').count().to_string());
        let mut client = connect(server, who).await;
        let checked = client.rpc("favourites.check", &json!({ "type": "post", "ids": ids })).await;
        let is_one = |item: &Value| if item["favourited"] == true { '+' } else { '-' };
        let checked: String = checked["items"].as_array().expect("items").iter().map(is_one).collect();
        differences.note(who, "favourites.check", &checked, direct);
        if who != "friend" {
            let common = done(server, who, "GET", "/favourites/post/common/friend").await;
            differences.note(who, "favourites.common", &named(&common["items"], ids), &both(direct, friend));
            let many = both(direct, friend).matches('+').count();
            differences.note(who, "the count of favourites.common", &common["count"].to_string(), &many.to_string());
        }
        let export = done(server, who, "GET", "/accounts/export").await.to_string();
        let texts: String = POSTS.iter().map(|text| if export.contains(text) { '+' } else { '-' }).collect();
        differences.note(who, "accounts.export", &texts, if who == AUTHOR { "+++++" } else { "-----" });
        let notified = done(server, who, "GET", "/notifications?limit=100").await;
        let is_mention = |it: &&Value| it["kind"] == "mention";
        let mentions: Vec<Value> =
            notified["items"].as_array().expect("items").iter().filter(is_mention).cloned().collect();
        differences.note(who, "notifications.list", &named(&mentions.into(), ids), mentioned_in(who, unrequested));
        let recovered = recovered_notifications(server, who).await;
        let recovered = recovered.as_array().expect("publications").iter().map(|it| &it["data"]["notification"]);
        let mentions: Vec<Value> = recovered.filter(is_mention).cloned().collect();
        differences.note(
            who,
            "recovery of notifications:",
            &named(&mentions.into(), ids),
            mentioned_in(who, unrequested),
        );
    }
}

/// All entries of a user's notification log, as a client recovers them that never connected before.
pub(crate) async fn recovered_notifications(server: &Server, who: &str) -> Value {
    let channel = format!("notifications:{who}");
    let history = connect(server, who).await.done(json!({ "history": { "channel": channel } })).await;
    let from = json!({ "recover": true, "offset": 0, "epoch": history["history"]["epoch"] });
    let mut client = Client::open(server).await;
    let connected = client.done(json!({ "connect": { "token": token(who), "subs": { channel.clone(): from } } })).await;
    let recovered = connected["connect"]["subs"][&channel].clone();
    assert_eq!(recovered["recovered"], true, "{who}: {recovered}");
    recovered["publications"].clone()
}

/// Waits until the mentions of all users are stored, so that later notifications are ordered after them.
pub(crate) async fn noted(server: &Server) {
    let people: Vec<&str> = TABLE.iter().map(|row| row.0).filter(|who| !who.is_empty()).collect();
    let mut clients = Vec::new();
    for who in &people {
        clients.push((*who, Client::connect(server, who).await));
    }
    let names: Vec<String> = people.iter().map(|who| format!("@{who}")).collect();
    let id = server.post("herald", &names.join(" ")).await.to_string();
    for (who, client) in &mut clients {
        while !client.publication(&format!("notifications:{who}")).await.to_string().contains(&id) {}
    }
}

/// A reader's connection that is subscribed to posts.
struct PostWatcher {
    who: &'static str,
    wire: Wire,
    client: Client,
    /// The posts, each with the subscription.
    posts: Vec<(u64, Value)>,
}

impl PostWatcher {
    /// Subscribes to the posts that the reader sees.
    async fn subscribe(server: &Server, (who, wire): (&'static str, Wire), ids: &[u64], direct: &str) -> Self {
        let sees = ids.iter().zip(direct.chars()).filter(|(_, sees)| *sees == '+').map(|(id, _)| *id);
        let sees: Vec<(u64, String)> = sees.map(|id| (id, format!("post:{id}"))).collect();
        let mut named: Vec<&str> = sees.iter().map(|(_, channel)| channel.as_str()).collect();
        named.push(END);
        let channels = if wire.is_unidirectional() { &named[..] } else { &[] };
        let (mut client, subs) = subscribed_over(server, who, wire, channels).await;
        let mut posts = Vec::new();
        for (id, channel) in &sees {
            let subscription = match wire.is_unidirectional() {
                true => subs.get(channel).unwrap_or_else(|| panic!("{who} {wire:?}: no {channel}")).clone(),
                false => client.subscribe(channel).await,
            };
            posts.push((*id, subscription));
        }
        Self { who, wire, client, posts }
    }

    /// A client over the same transport that reconnects and recovers the missed entries.
    async fn check_recovery(&self, server: &Server, ids: &[u64], differences: &mut Differences) {
        let Self { who, wire, posts, .. } = self;
        let from = |position: &Value| {
            let (offset, epoch) = (position["offset"].as_u64().unwrap_or(0), &position["epoch"]);
            json!({ "recover": true, "offset": offset, "epoch": epoch })
        };
        let channels: Vec<String> = posts.iter().map(|(id, _)| format!("post:{id}")).collect();
        let mut replies = Vec::new();
        if wire.is_unidirectional() {
            let mut again = Client::open_over(server, *wire).await;
            let subs: serde_json::Map<String, Value> =
                channels.iter().zip(posts).map(|(channel, (_, position))| (channel.clone(), from(position))).collect();
            let token = signed(&json!({ "sub": who, "channels": channels }));
            let connected = again.done(json!({ "connect": { "token": token, "subs": subs } })).await;
            replies.extend(channels.iter().map(|channel| connected["connect"]["subs"][channel].clone()));
        } else {
            let (mut again, _) = subscribed_over(server, who, *wire, &[]).await;
            for (channel, (_, position)) in channels.iter().zip(posts) {
                let mut request = from(position);
                request["channel"] = channel.as_str().into();
                let reply = again.call(json!({ "subscribe": request })).await;
                let history = again.call(json!({ "history": { "channel": channel, "limit": -1 } })).await;
                let [recovers, replays] = [&reply, &history].map(|received| received.to_string().contains("<after>"));
                assert_eq!(recovers, replays, "{who:?} {wire:?}: recovery and history of {channel}");
                replies.push(reply);
            }
        }
        let mut recovered = String::new();
        for id in ids {
            let reply = posts.iter().zip(&replies).find(|((post, _), _)| post == id).map(|(_, reply)| reply);
            let recovers = reply.is_some_and(|reply| reply.to_string().contains("<after>"));
            recovered.push(if recovers { '+' } else { '-' });
        }
        differences.note(who, &format!("recovery and history of post: over {wire:?}"), &recovered, row(who).1);
    }
}

/// Checks that an event with this text, one for each post, arrives at the watchers that see the post, and at no others.
async fn live_events(
    server: &Server,
    watchers: &mut [PostWatcher],
    ids: &[u64],
    text: &str,
    differences: &mut Differences,
) {
    for PostWatcher { who, client, .. } in &mut *watchers {
        for (id, _) in ids.iter().zip(row(who).1.chars()).filter(|(_, sees)| *sees == '+') {
            while !client.publication(&format!("post:{id}")).await.to_string().contains(text) {}
        }
    }
    // An unexpected push would have arrived by now.
    server.backend("publish", &json!({ "channel": END, "data": 1 })).await;
    for PostWatcher { who, wire, client, .. } in watchers {
        let direct = row(who).1;
        let mut heard = direct.to_owned();
        let rest = match wire.is_unidirectional() {
            true => client.pushed_before(END).await,
            false => client.pushed().await,
        };
        for push in rest.iter().filter(|push| push.to_string().contains(text)) {
            heard.push_str(&push.to_string());
        }
        differences.note(who, &format!("live {text} of post: over {wire:?}"), &heard, direct);
    }
}

#[tokio::test]
async fn content_of_a_post_is_hidden_with_the_post() {
    let server = server().await;
    let ids = publish(&server).await;
    noted(&server).await;
    let mut comments = Vec::new();
    for id in &ids {
        let said = json!({ "text": "the author was here" });
        let comment = server.done(AUTHOR, "POST", &format!("/posts/{id}/comments"), &said).await;
        comments.push(comment["id"].as_u64().expect("an id"));
    }
    // The friend's favourites must exist first: they are the common favourites that others see.
    for (id, _) in ids.iter().zip(row("friend").1.chars()).filter(|(_, sees)| *sees == '+') {
        done(&server, "friend", "PUT", &format!("/favourites/post/{id}")).await;
    }
    // The author likes every post, so that others may see it in the list of the author's likes.
    for id in &ids {
        done(&server, AUTHOR, "PUT", &format!("/posts/{id}/like")).await;
    }
    let mine = format!("/users/{AUTHOR}/likes");
    let listed = async || done(&server, AUTHOR, "GET", &mine).await["items"].as_array().expect("items").len();
    until("all likes are settled", async || listed().await >= ids.len()).await;
    let mut differences = Differences::default();
    check(&server, &ids, &comments, &undivided(), &mut differences).await;
    differences.none();

    // Existing subscribers of a post stay subscribed, and receive only events that they may see.
    let mut watchers = Vec::new();
    for wire in Wire::all() {
        for (who, direct, _) in undivided() {
            watchers.push(PostWatcher::subscribe(&server, (who, wire), &ids, direct).await);
        }
    }
    divide(&server).await;
    let mut differences = Differences::default();
    for id in &ids {
        let said = json!({ "text": "<after>" });
        server.done(AUTHOR, "POST", &format!("/posts/{id}/comments"), &said).await;
    }
    live_events(&server, &mut watchers, &ids, "<after>", &mut differences).await;
    for watcher in &watchers {
        watcher.check_recovery(&server, &ids, &mut differences).await;
    }
    for comment in &comments {
        server.done(AUTHOR, "PATCH", &format!("/comments/{comment}"), &json!({ "text": "<edited>" })).await;
    }
    live_events(&server, &mut watchers, &ids, "<edited>", &mut differences).await;
    check(&server, &ids, &comments, &divided(), &mut differences).await;
    differences.none();
}

#[tokio::test]
async fn revoked_tokens_are_rejected_by_every_operation() {
    let server = Server::start().await;
    let post = server.post("ann", "a post").await;
    let comment = server.done("ann", "POST", &format!("/posts/{post}/comments"), &json!({ "text": "x" })).await;
    let now = crate::server::unix();
    let tokens = ["revoked", "invalidated", "blocked"]
        .map(|user| signed(&json!({ "sub": user, "jti": user, "iat": now - 9, "exp": now + 600 })));
    let document = server.http("GET", "/api/openapi.json", &[], "").await.body;
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let id = if path.contains("/comments/{") { &comment["id"] } else { &json!(post) };
        let user = if path.contains("/users/{id}") { "ann".to_owned() } else { id.to_string() };
        let named = path
            .replace("{post}", &user)
            .replace("{comment}", &user)
            .replace("{id}", &user)
            .replace("{type}", "book")
            .replace("{user}", "ann");
        for (method, operation) in methods.as_object().expect("methods") {
            let open =
                ["accounts.create", "sessions.create"].contains(&operation["operationId"].as_str().unwrap_or(""));
            if path.starts_with("/api/v1") && !open {
                operations.push((method.to_uppercase(), named.replace("{name}", "rust")));
            }
        }
    }
    assert!(operations.len() > 40, "{operations:?}");
    let ask = async |token: &str, method: &str, path: &str| {
        let bearer = format!("Bearer {token}");
        server.http(method, path, &[("authorization", &bearer)], "").await.status.as_u16()
    };
    for token in &tokens {
        assert_eq!(ask(token, "GET", "/api/v1/timeline").await, 200);
    }
    server.backend("revoke_token", &json!({ "uid": "revoked" })).await;
    server.backend("invalidate_user_tokens", &json!({ "user": "invalidated" })).await;
    server.backend("block_user", &json!({ "user": "blocked" })).await;
    for (token, expected) in tokens.iter().zip([401, 401, 403]) {
        for (method, path) in &operations {
            assert_eq!(ask(token, method, path).await, expected, "{method} {path}");
        }
    }
}

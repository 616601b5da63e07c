//! Comments, likes and favourites of a user who is hidden from some readers: on every read and every push.

use crate::audience::{AUTHOR, Differences, call, connect, divide, done, server};
use crate::client::Client;
use crate::server::Server;
use crate::visibility::{finds, noted, recovered_notifications};
use serde_json::{Value, json};

/// Readers, and whether they see the author's activity on other users' posts: when opened directly, when delivered to
/// them, and on the author's profile.
const DEEDS: [(&str, bool, bool, bool); 8] = [
    ("stranger", true, true, true),
    ("follower", true, true, true),
    ("friend", true, true, true),
    ("muting", true, false, true),
    // A missing user must not reveal a hide.
    ("hidden", false, false, true),
    ("blocked", false, false, false),
    ("blocking", false, false, true),
    ("", true, true, true),
];

/// Whether the author appears in the expansions of the host's post, for each way to read it.
async fn brought_along(server: &Server, who: &str, post: u64) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for way in [format!("/posts/{post}?"), "/users/host/posts?".into(), "/topics/open/posts?".into()] {
        let page = call(server, who, "GET", &format!("{way}with=likers,comments,people")).await.body;
        let item = page["items"].get(0).unwrap_or(&page);
        assert_eq!(item["id"], post, "{who:?} {way}");
        for (part, what) in [("likers", r#""bo""#), ("newest_comments", "<bo")] {
            found.push((format!("{part} of {way}"), item[part].to_string().contains(what)));
        }
        found.push((format!("people of {way}"), page["people"].get(AUTHOR).is_some()));
    }
    found
}

/// The author comments on and likes the post and one post of each reader; each reader is notified of both. Returns the
/// comments, the one on the post first.
async fn act_in_every_place(server: &Server, post: u64) -> Vec<u64> {
    let mut places = vec![post];
    for (who, ..) in DEEDS.iter().filter(|row| !row.0.is_empty()) {
        places.push(server.post(who, "my own").await);
    }
    let mut comments = Vec::new();
    for place in &places {
        done(server, AUTHOR, "PUT", &format!("/posts/{place}/like")).await;
        let said = json!({ "text": "<bo was here>" });
        let said = server.done(AUTHOR, "POST", &format!("/posts/{place}/comments"), &said).await;
        comments.push(said["id"].as_u64().expect("an id"));
    }
    // Waits until all notifications are stored: one for each like and one for each comment.
    for (who, ..) in DEEDS.iter().filter(|row| !row.0.is_empty()) {
        let mut client = connect(server, who).await;
        loop {
            let kinds = client.rpc("notifications.list", &json!({ "limit": 100 })).await["items"].to_string();
            if kinds.contains(r#""like""#) && kinds.contains(r#""comment""#) {
                break;
            }
            client.publication(&format!("notifications:{who}")).await;
        }
    }
    comments
}

/// One client per reader, subscribed to the post's channel.
async fn watch_post(server: &Server, post: u64) -> Vec<Client> {
    let mut watchers = Vec::new();
    for (who, ..) in DEEDS {
        let mut client = connect(server, who).await;
        client.subscribe(&format!("post:{post}")).await;
        watchers.push(client);
    }
    watchers
}

/// The pushes on the post's channel up to the last comment of the test.
async fn live_until_the_end(client: &mut Client, post: u64) -> Value {
    let mut live = Vec::new();
    while !live.last().is_some_and(|received: &Value| received.to_string().contains("<the end>")) {
        live.push(client.publication(&format!("post:{post}")).await);
    }
    live.into()
}

/// Checks whether the author is in the lists of a signed-in reader.
async fn note_own_lists(
    server: &Server,
    who: &str,
    client: &mut Client,
    unrequested: bool,
    direct: bool,
    differences: &mut Differences,
) {
    let word = |yes: bool| if yes { "yes" } else { "no" };
    let shows = |received: &Value, what: &str| word(received.to_string().contains(what));
    let bo = r#""id":"bo""#;
    let common = finds(server, who, "GET", "/favourites/post/common/bo", &Value::Null).await;
    differences.note(who, "favourites.common with them", word(common), word(direct));
    let notified = call(server, who, "GET", "/notifications?limit=100").await.body;
    differences.note(who, "notifications.list", shows(&notified["items"], bo), word(unrequested));
    let history = client.done(json!({ "history": { "channel": format!("notifications:{who}"), "limit": -1 } })).await;
    differences.note(who, "history of notifications:", shows(&history, bo), word(unrequested));
    let recovered = recovered_notifications(server, who).await;
    differences.note(who, "recovery of notifications:", shows(&recovered, bo), word(unrequested));
    // The host follows the author, so the author may be suggested to users who follow only the host.
    note_people(server, who, differences).await;
    done(server, who, "DELETE", "/users/bo/follow").await;
    done(server, who, "PUT", "/users/host/follow").await;
    let suggested = call(server, who, "GET", "/users/suggested?limit=100").await.body;
    differences.note(who, "users.suggest", shows(&suggested["items"], bo), word(unrequested));
}

/// Checks whether the author is in the lists of users of a signed-in reader, who follows the author unless a block
/// ended it.
async fn note_people(server: &Server, who: &str, differences: &mut Differences) {
    let word = |yes: bool| if yes { "yes" } else { "no" };
    let follows = ["follower", "friend", "muting", "hidden"].contains(&who);
    let is_friend = ["friend", "muting", "hidden"].contains(&who);
    for (path, expected) in [
        ("/users/host/shared", follows),
        ("/users/me/friends", is_friend),
        ("/users/me/hidden", false),
        ("/users/me/muted", who == "muting"),
        ("/users/me/blocked", who == "blocking"),
    ] {
        let listed = call(server, who, "GET", path).await.body["items"].to_string();
        differences.note(who, path, word(listed.contains(r#""id":"bo""#)), word(expected));
    }
    let shared = finds(server, who, "GET", "/users/bo/shared", &Value::Null).await;
    differences.note(who, "users.shared of the author", word(shared), word(who != "blocked"));
}

/// Checks which actions a reader may take on replies below the author's comments.
async fn note_replies(
    server: &Server,
    who: &str,
    path: &str,
    comments: [&Value; 3],
    direct: bool,
    differences: &mut Differences,
) {
    let word = |yes: bool| if yes { "yes" } else { "no" };
    for comment in comments {
        let replies = finds(server, who, "GET", &format!("{path}?reply_to={comment}"), &Value::Null).await;
        differences.note(who, "comments.list", word(replies), word(direct));
        if who.is_empty() {
            continue;
        }
        for method in ["PUT", "DELETE"] {
            let liked = finds(server, who, method, &format!("/comments/{comment}/like"), &Value::Null).await;
            differences.note(who, &format!("{method} like"), word(liked), word(direct));
        }
        let said = finds(server, who, "POST", path, &json!({ "text": "me too", "reply_to": comment })).await;
        differences.note(who, "comments.create", word(said), word(direct));
        let refused = call(server, who, "DELETE", &format!("/comments/{comment}")).await.status;
        differences.note(who, "comments.delete", refused.as_str(), if direct { "403" } else { "404" });
    }
}

#[tokio::test]
async fn activity_is_visible_only_to_users_who_may_see_the_actor() {
    let server = server().await;
    // The author comments on, likes and favourites the public post and each reader's own post.
    let post = server.post("host", "come in #open").await;
    done(&server, AUTHOR, "PUT", "/users/host/follow").await;
    done(&server, "host", "PUT", "/users/bo/follow").await;
    done(&server, AUTHOR, "PUT", &format!("/favourites/post/{post}")).await;
    let comments = act_in_every_place(&server, post).await;
    let mut watchers = watch_post(&server, post).await;
    divide(&server).await;
    let said = json!({ "text": "<bo again>" });
    server.done(AUTHOR, "POST", &format!("/posts/{post}/comments"), &said).await;
    server.done("host", "POST", &format!("/posts/{post}/comments"), &json!({ "text": "<the end>" })).await;

    let mut differences = Differences::default();
    let word = |yes: bool| if yes { "yes" } else { "no" };
    for ((who, direct, unrequested, profile), client) in DEEDS.into_iter().zip(&mut watchers) {
        let shows = |received: &Value, what: &str| word(received.to_string().contains(what));
        let bo = r#""id":"bo""#;
        let under = call(&server, who, "GET", &format!("/posts/{post}/comments?limit=100")).await.body;
        differences.note(who, "comments.list", shows(&under, "<bo"), word(direct));
        differences.note(who, "its people", shows(&under["people"], bo), word(direct));
        for (way, saw) in brought_along(&server, who, post).await {
            differences.note(who, &way, word(saw), word(direct));
        }
        let replies = format!("/posts/{post}/comments?reply_to={}", comments[0]);
        let replies = finds(&server, who, "GET", &replies, &Value::Null).await;
        differences.note(who, "replies to the author", word(replies), word(direct));
        let likes = call(&server, who, "GET", &format!("/posts/{post}/likes")).await.body;
        differences.note(who, "likes.list", shows(&likes, bo), word(direct));
        let holders = call(&server, who, "GET", &format!("/objects/post/{post}/favourites")).await.body;
        differences.note(who, "favourites.holders", shows(&holders["items"], bo), word(direct));
        let live = live_until_the_end(client, post).await;
        differences.note(who, "live post:", shows(&live, "<bo again>"), word(direct));
        let history = client.done(json!({ "history": { "channel": format!("post:{post}"), "limit": -1 } })).await;
        differences.note(who, "history of post:", shows(&history, "<bo"), word(direct));
        let profiled = finds(&server, who, "GET", "/users/bo", &Value::Null).await;
        differences.note(who, "users.get", word(profiled), word(profile));
        let unblocked = !["blocked", "blocking"].contains(&who);
        let people = call(&server, who, "GET", "/users?q=bo").await.body;
        differences.note(who, "users.search", shows(&people, bo), word(unblocked));
        let followers = call(&server, who, "GET", "/users/host/followers").await.body;
        differences.note(who, "users.followers", shows(&followers, bo), word(unblocked));
        if who.is_empty() {
            continue;
        }
        note_own_lists(&server, who, client, unrequested, direct, &mut differences).await;
    }
    differences.none();
}

#[tokio::test]
async fn replies_are_visible_only_to_users_who_may_see_the_comments_author() {
    let server = server().await;
    let reply = async |who: &str, post: u64, to: Value, text: &str| {
        let said = json!({ "text": text, "reply_to": to });
        server.done(who, "POST", &format!("/posts/{post}/comments"), &said).await["id"].clone()
    };
    // The author's comments, and the host's replies below them, direct and nested.
    let post = server.post("host", "come in").await;
    let (top, other) =
        (reply(AUTHOR, post, Value::Null, "one").await, reply(AUTHOR, post, Value::Null, "another").await);
    let first = reply("host", post, top, "below").await;
    let second = reply("host", post, first.clone(), "further below").await;
    let orphan = reply("host", post, other.clone(), "below another").await;
    let mut own = Vec::new();
    for (who, ..) in DEEDS.iter().filter(|row| !row.0.is_empty()) {
        let post = server.post(who, "my own").await;
        own.push((post, reply(AUTHOR, post, Value::Null, "on yours").await));
    }
    let mut watchers = watch_post(&server, post).await;
    divide(&server).await;
    let names: Vec<String> = DEEDS.iter().map(|row| format!("@{}", row.0)).collect();
    let named = reply("host", post, second.clone(), &format!("<below> {}", names.join(" "))).await;
    let taken = reply("host", post, second.clone(), "taken back").await;
    done(&server, "host", "DELETE", &format!("/comments/{taken}")).await;
    reply("host", post, Value::Null, "<the end>").await;
    for (post, comment) in own {
        reply("host", post, comment, "below on yours").await;
    }
    noted(&server).await;

    let mut differences = Differences::default();
    let path = format!("/posts/{post}/comments");
    for ((who, direct, ..), client) in DEEDS.into_iter().zip(&mut watchers) {
        let live = live_until_the_end(client, post).await;
        let history = client.done(json!({ "history": { "channel": format!("post:{post}"), "limit": -1 } })).await;
        for (way, received) in [("live post:", live), ("history of post:", history)] {
            let received = [&named, &taken].map(|id| received.to_string().contains(&id.to_string()));
            differences.note(who, way, &format!("{received:?}"), &format!("{:?}", [direct; 2]));
        }
        note_replies(&server, who, &path, [&first, &second, &orphan], direct, &mut differences).await;
        if who.is_empty() {
            continue;
        }
        let notified = call(&server, who, "GET", "/notifications?limit=100").await.body;
        let by_host = notified["items"].as_array().expect("items").iter().filter(|it| it["people"][0]["id"] == "host");
        let kinds: Vec<&str> = by_host.filter_map(|it| it["kind"].as_str()).filter(|kind| *kind != "follow").collect();
        let expected: &[&str] = if direct { &["comment", "mention"] } else { &[] };
        differences.note(who, "notifications.list", &format!("{kinds:?}"), &format!("{expected:?}"));
    }
    // A deleted comment does not hide its replies, regardless of its author.
    done(&server, AUTHOR, "DELETE", &format!("/comments/{other}")).await;
    for (who, ..) in DEEDS.into_iter().filter(|row| !row.0.is_empty()) {
        let liked = finds(&server, who, "PUT", &format!("/comments/{orphan}/like"), &Value::Null).await;
        let said = finds(&server, who, "POST", &path, &json!({ "text": "me too", "reply_to": orphan })).await;
        differences.note(who, "below what was deleted", &format!("{:?}", (liked, said)), "(true, true)");
    }
    differences.none();
}

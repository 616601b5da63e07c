//! The logs of lists: what their owner gets live, recovers and reads as updates, and who else gets nothing.

use serde_json::{Value, json};

use crate::both_pairs::{delete, get, put, servers};
use crate::client::Client;
use crate::moderation::{suspend, unsuspend};
use crate::server::{Server, until};

/// A list of ann with bo, and its number.
async fn list_of_ann(server: &Server, exclusive: bool) -> u64 {
    let list = server.done("ann", "POST", "/lists", &json!({ "name": "near", "exclusive": exclusive })).await;
    let id = list["id"].as_u64().expect("a number");
    server.done("bo", "GET", "/users/bo", &Value::Null).await;
    put(server, &format!("/lists/{id}/users/bo")).await;
    id
}

/// The next event of a list: its type, its post, and the reason.
async fn next(client: &mut Client, list: u64) -> (String, u64, String) {
    let data = client.publication(&format!("list:{list}")).await["data"].take();
    let kind = data["type"].as_str().expect("a type").to_owned();
    let id = data["post"]["id"].as_u64().or(data["id"].as_u64()).unwrap_or_default();
    (kind, id, data["reason"].as_str().or(data["author"].as_str()).unwrap_or_default().to_owned())
}

fn event(kind: &str, id: u64, detail: &str) -> (String, u64, String) {
    (kind.to_owned(), id, detail.to_owned())
}

#[tokio::test]
async fn the_owner_of_a_list_gets_its_posts_live() {
    for (server, _redis) in servers().await {
        let past = server.post("bo", "before").await;
        let list = list_of_ann(&server, false).await;
        let mut ann = Client::connect(&server, "ann").await;
        let subscribed = ann.subscribe(&format!("list:{list}")).await;
        assert_eq!(subscribed["recoverable"], true, "{subscribed}");
        let live = server.post("bo", "live").await;
        assert_eq!(next(&mut ann, list).await, event("post", live, ""));
        server.done("bo", "PATCH", &format!("/posts/{live}"), &json!({ "text": "edited" })).await;
        assert_eq!(next(&mut ann, list).await, event("edited", live, ""));
        // What ann may not see, and what no member brings, does not arrive.
        let draft = json!({ "text": "for followers", "visibility": "followers" });
        server.done("bo", "POST", "/posts", &draft).await;
        server.post("cy", "elsewhere").await;
        let elsewhere = server.post("cy", "about #rust").await;
        put(&server, &format!("/lists/{list}/topics/rust")).await;
        assert_eq!(next(&mut ann, list).await, event("post", elsewhere, ""));
        let tagged = server.post("dee", "more #rust").await;
        assert_eq!(next(&mut ann, list).await, event("post", tagged, ""));
        let later = server.post("dee", "yet more #rust").await;
        assert_eq!(next(&mut ann, list).await, event("post", later, ""));
        server.done("dee", "PATCH", &format!("/posts/{later}"), &json!({ "text": "of something else" })).await;
        let left = loop {
            let event = next(&mut ann, list).await;
            if event.0 == "gone" {
                break event;
            }
        };
        assert_eq!(left, event("gone", later, "unlisted"));
        delete(&server, &format!("/lists/{list}/topics/rust")).await;
        for _ in 0..2 {
            let (kind, id, reason) = next(&mut ann, list).await;
            assert!([elsewhere, tagged].contains(&id), "{id}");
            assert_eq!((&*kind, &*reason), ("gone", "unlisted"));
        }
        server.done("bo", "DELETE", &format!("/posts/{live}"), &Value::Null).await;
        assert_eq!(next(&mut ann, list).await, event("gone", live, "deleted"));
        // The posts of a member leave while the owner mutes the member.
        put(&server, "/users/bo/mute").await;
        assert_eq!(next(&mut ann, list).await, event("gone", past, "hidden"));
        delete(&server, "/users/bo/mute").await;
        assert_eq!(next(&mut ann, list).await, event("post", past, ""));
        server.done("bo", "PUT", "/users/ann/block", &Value::Null).await;
        assert_eq!(next(&mut ann, list).await, event("gone", past, "hidden"));
        server.done("bo", "DELETE", "/users/ann/block", &Value::Null).await;
        assert_eq!(next(&mut ann, list).await, event("post", past, ""));
        server.done("bo", "PATCH", "/users/me", &json!({ "locked": true })).await;
        assert_eq!(next(&mut ann, list).await, event("gone", past, "hidden"));
        server.done("bo", "PATCH", "/users/me", &json!({ "locked": false })).await;
        assert_eq!(next(&mut ann, list).await, event("post", past, ""));
        suspend(&server, "bo", "suspended").await;
        assert_eq!(next(&mut ann, list).await, event("gone", 0, "hidden"));
        unsuspend(&server, "bo").await;
        // The log has posts of a member who is limited now; a delivery omits them.
        let position = get(&server, &format!("/lists/{list}/posts")).await["position"].clone();
        let epoch = position["epoch"].as_str().expect("an epoch").to_owned();
        let before = server.post("bo", "before the limit").await;
        assert_eq!(next(&mut ann, list).await, event("post", before, ""));
        suspend(&server, "bo", "limited").await;
        let path = format!("/lists/{list}/updates?offset={}&epoch={epoch}", position["offset"]);
        let updates = get(&server, &path).await;
        assert_eq!(
            updates["items"][0]["data"],
            json!({ "type": "gone", "id": before, "reason": "hidden" }),
            "{updates}"
        );
        unsuspend(&server, "bo").await;
        // A filter of lists hides, and the end of the list ends the subscription.
        server.done("ann", "POST", "/filters", &json!({ "words": ["noise"], "in": ["lists"] })).await;
        let noise = server.post("bo", "noise").await;
        assert_eq!(next(&mut ann, list).await, event("gone", noise, "filtered"));
        delete(&server, &format!("/lists/{list}")).await;
        let ended = ann.push_of(&format!("list:{list}"), "unsubscribe").await;
        assert_eq!(ended["code"], 2000, "{ended}");
    }
}

#[tokio::test]
async fn logs_of_lists_are_recovered_from_any_offset() {
    for (server, redis) in servers().await {
        let list = list_of_ann(&server, true).await;
        let channel = format!("list:{list}");
        let page = get(&server, &format!("/lists/{list}/posts")).await;
        let position = page["position"].clone();
        assert_eq!((page["items"].as_array().map(Vec::len), position["offset"].as_u64()), (Some(0), Some(0)), "{page}");
        // Written while nobody subscribes.
        let mut posts = Vec::new();
        for n in 0..4 {
            posts.push(server.post("bo", &format!("post {n}")).await);
        }
        let epoch = position["epoch"].as_str().expect("an epoch").to_owned();
        let updates = async |offset: u64| {
            let path = format!("/lists/{list}/updates?offset={offset}&epoch={epoch}");
            let updates = get(&server, &path).await;
            assert_eq!(updates["recovered"], true, "{updates}");
            let items = updates["items"].as_array().expect("items").iter();
            items.filter_map(|item| item["data"]["post"]["id"].as_u64()).collect::<Vec<u64>>()
        };
        until("all are updates", async || updates(0).await == posts).await;
        for offset in 1..=4 {
            assert_eq!(updates(offset).await, posts[usize::try_from(offset).unwrap()..]);
        }
        let mut ann = Client::connect(&server, "ann").await;
        let recover = json!({ "subscribe": { "channel": channel, "recover": true, "offset": 2, "epoch": epoch } });
        let reply = ann.done(recover).await;
        let publications = reply["subscribe"]["publications"].as_array().expect("publications").clone();
        let recovered: Vec<u64> =
            publications.iter().filter_map(|publication| publication["data"]["post"]["id"].as_u64()).collect();
        assert_eq!((recovered, &reply["subscribe"]["recovered"]), (posts[2..].to_vec(), &json!(true)), "{reply}");
        // Another epoch, after Redis has lost everything: the page is read again, and is full.
        let Some(redis) = redis else { continue };
        redis.ask("flushall");
        until("the list has a new epoch", async || {
            let answer = server.call("ann", "GET", &format!("/lists/{list}/posts"), &Value::Null).await;
            let ids: Vec<u64> = answer.body["items"]
                .as_array()
                .map(|items| items.iter().filter_map(|item| item["id"].as_u64()).collect())
                .unwrap_or_default();
            let newest_first: Vec<u64> = posts.iter().rev().copied().collect();
            ids == newest_first && answer.body["position"]["epoch"] != json!(epoch)
        })
        .await;
        let answer = get(&server, &format!("/lists/{list}/updates?offset=2&epoch={epoch}")).await;
        assert_eq!(answer["recovered"], false, "{answer}");
    }
}

#[tokio::test]
async fn logs_of_lists_are_for_their_owner_alone() {
    for (server, _redis) in servers().await {
        let list = list_of_ann(&server, false).await;
        let channel = format!("list:{list}");
        let mut bo = Client::connect(&server, "bo").await;
        for name in [&channel, "list:999", "list:x", "list:07"] {
            let code = bo.refused(json!({ "subscribe": { "channel": name } })).await;
            assert!([102, 107].contains(&code), "{name}: {code}");
        }
        let path = format!("/lists/{list}/updates?offset=0&epoch=x");
        assert_eq!(server.call("bo", "GET", &path, &Value::Null).await.status.as_u16(), 404);
        let mut ann = Client::connect(&server, "ann").await;
        ann.subscribe(&channel).await;
        ann.refused(json!({ "publish": { "channel": channel, "data": {} } })).await;
        let post = server.post("bo", "for ann").await;
        assert_eq!(next(&mut ann, list).await, event("post", post, ""));
        let history = ann.done(json!({ "history": { "channel": channel, "limit": 5 } })).await;
        assert_eq!(history["history"]["publications"][0]["data"]["post"]["id"], post, "{history}");
        // A backend neither reads nor writes it.
        let publication = json!({ "channel": channel, "data": {} });
        for (method, body, code) in [("history", json!({ "channel": channel }), 108), ("publish", publication, 103)] {
            let answer = server.backend(method, &body).await;
            assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
        }
    }
}

#[tokio::test]
async fn posts_deleted_just_before_their_member_leave_the_log() {
    for (server, _redis) in servers().await {
        let list = list_of_ann(&server, false).await;
        let mut ann = Client::connect(&server, "ann").await;
        ann.subscribe(&format!("list:{list}")).await;
        for n in 0..6 {
            let post = server.post("bo", &format!("post {n} #rust")).await;
            assert_eq!(next(&mut ann, list).await, event("post", post, ""));
            server.done("bo", "DELETE", &format!("/posts/{post}"), &Value::Null).await;
            let member = format!("/lists/{list}/users/bo");
            delete(&server, &member).await;
            let gone = next(&mut ann, list).await;
            assert_eq!((&*gone.0, gone.1), ("gone", post), "round {n}");
            put(&server, &member).await;
        }
    }
}

#[tokio::test]
async fn a_list_shows_a_post_once_live_too() {
    for (server, _redis) in servers().await {
        let list = list_of_ann(&server, false).await;
        put(&server, &format!("/lists/{list}/users/bo")).await;
        server.done("cy", "GET", "/users/cy", &Value::Null).await;
        put(&server, &format!("/lists/{list}/users/cy")).await;
        let mut ann = Client::connect(&server, "ann").await;
        ann.subscribe(&format!("list:{list}")).await;
        let post = server.post("bo", "first").await;
        assert_eq!(next(&mut ann, list).await, event("post", post, ""));
        server.done("cy", "PUT", &format!("/posts/{post}/repost"), &Value::Null).await;
        assert_eq!(next(&mut ann, list).await.0, "reposted");
        // Of somebody else's post, the first repost is shown.
        let elsewhere = server.post("dee", "elsewhere").await;
        let repost = server.done("cy", "PUT", &format!("/posts/{elsewhere}/repost"), &Value::Null).await;
        assert_eq!(next(&mut ann, list).await, event("post", repost["id"].as_u64().expect("an id"), ""));
    }
}

//! Comments by id, in both orders, of a user; their likers, and the posts that a user likes.

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::{Server, until};

fn ids(page: &Value) -> Vec<Value> {
    page["items"].as_array().expect("items").iter().map(|item| item["id"].clone()).collect()
}

/// Waits until a list has this many items.
async fn grown(server: &Server, user: &str, path: &str, many: usize) -> Value {
    let mut page = Value::Null;
    until("the list has grown", async || {
        page = server.done(user, "GET", path, &Value::Null).await;
        page["items"].as_array().expect("items").len() >= many
    })
    .await;
    page
}

/// All pages of a list over the socket; `between` runs after each page.
async fn all_pages(client: &mut Client, method: &str, input: &Value, between: impl AsyncFn()) -> Vec<Value> {
    let (mut read, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let mut input = input.clone();
        input["cursor"] = cursor;
        let page = client.rpc(method, &input).await;
        read.extend(ids(&page));
        between().await;
        if page["next"].is_null() {
            return read;
        }
        assert_eq!(Some(ids(&page).len() as u64), input["limit"].as_u64(), "{page}");
        cursor = page["next"].clone();
    }
}

async fn say(server: &Server, user: &str, post: u64, body: Value) -> Value {
    server.done(user, "POST", &format!("/posts/{post}/comments"), &body).await["id"].clone()
}

#[tokio::test]
async fn comments_are_listed_in_both_orders() {
    let server = Server::start().await;
    let post = server.post("ann", "hello").await;
    let mut expected = Vec::new();
    for n in 0..7 {
        expected.push(say(&server, "bo", post, json!({ "text": format!("comment {n}") })).await);
    }
    let mut replies = Vec::new();
    for _ in 0..3 {
        replies.push(say(&server, "ann", post, json!({ "text": "well", "reply_to": expected[0] })).await);
    }
    let mut cy = Client::connect(&server, "cy").await;
    let oldest = json!({ "id": post, "order": "oldest", "limit": 3 });
    assert_eq!(all_pages(&mut cy, "comments.list", &oldest, async || ()).await, expected);
    let under = json!({ "id": post, "order": "oldest", "reply_to": expected[0], "limit": 2 });
    assert_eq!(all_pages(&mut cy, "comments.list", &under, async || ()).await, replies);
    let same = server.done("cy", "GET", &format!("/posts/{post}/comments?order=oldest&limit=3"), &Value::Null).await;
    assert_eq!(ids(&same), expected[..3]);
    // New comments come before the first page of the one order, and after the last page of the other.
    let arrives = async || drop(say(&server, "bo", post, json!({ "text": "late" })).await);
    let newest = json!({ "id": post, "order": "newest", "limit": 3 });
    let read = all_pages(&mut cy, "comments.list", &newest, arrives).await;
    assert_eq!(read, expected.iter().rev().cloned().collect::<Vec<_>>());
    let default = server.done("cy", "GET", &format!("/posts/{post}/comments?limit=1"), &Value::Null).await;
    assert_eq!(default["items"][0]["text"], "late");
    for query in ["order=best".to_owned(), format!("order=newest&cursor={}", same["next"].as_str().expect("a cursor"))]
    {
        let answer = server.call("cy", "GET", &format!("/posts/{post}/comments?{query}"), &Value::Null).await;
        assert_eq!(answer.status, 400, "{query}: {answer:?}");
    }
}

#[tokio::test]
async fn likers_of_a_comment_are_listed_and_the_reader_sees_their_own_like() {
    let server = Server::start().await;
    let post = server.post("ann", "hello").await;
    let id = say(&server, "bo", post, json!({ "text": "hi" })).await;
    let other = say(&server, "bo", post, json!({ "text": "and" })).await;
    let path = format!("/comments/{id}/likes");
    let fans = ["c1", "c2", "hides", "c3", "c4", "c5"];
    for (n, fan) in fans.iter().enumerate() {
        server.done(fan, "PUT", &format!("/comments/{id}/like"), &Value::Null).await;
        grown(&server, "ann", &path, n + 1).await;
    }
    server.done("reader", "GET", "/users/reader", &Value::Null).await;
    server.done("hides", "PUT", "/users/reader/hide", &Value::Null).await;
    let mut reader = Client::connect(&server, "reader").await;
    let read = all_pages(&mut reader, "comments.likers", &json!({ "id": id, "limit": 2 }), async || ()).await;
    assert_eq!(read, ["c5", "c4", "c3", "c2", "c1"], "latest first, without users that the reader may not see");

    let comment = server.done("c1", "GET", &format!("/comments/{id}"), &Value::Null).await;
    assert_eq!((&comment["liked"], &comment["likes"], &comment["author"]), (&json!(true), &json!(6), &json!("bo")));
    let page = server.done("c1", "GET", &format!("/posts/{post}/comments"), &Value::Null).await;
    let liked: Vec<_> = page["items"].as_array().expect("items").iter().map(|item| &item["liked"]).collect();
    assert_eq!((ids(&page), liked), (vec![other, id.clone()], vec![&json!(false), &json!(true)]));
    assert_eq!(server.done("reader", "GET", &format!("/comments/{id}"), &Value::Null).await["liked"], false);
    for path in ["/comments/7", "/comments/7/likes"] {
        assert_eq!(server.call("reader", "GET", path, &Value::Null).await.status, 404);
    }
}

#[tokio::test]
async fn liked_posts_are_paged_newest_post_first() {
    let server = Server::start().await;
    let mut posts = Vec::new();
    for n in 0..7 {
        let who = if n % 3 == 2 { "followers" } else { "public" };
        let post = json!({ "text": format!("post {n}"), "visibility": who });
        posts.push(server.done("ann", "POST", "/posts", &post).await["id"].clone());
    }
    server.follow("fan", "ann").await;
    // Not in the order of the posts.
    let order = [3, 0, 6, 2, 5, 1, 4];
    for (n, place) in order.iter().enumerate() {
        server.done("fan", "PUT", &format!("/posts/{}/like", posts[*place]), &Value::Null).await;
        grown(&server, "fan", "/users/fan/likes", n + 1).await;
    }
    let latest: Vec<Value> = posts.iter().rev().cloned().collect();
    let (mut fan, mut bo) = (Client::connect(&server, "fan").await, Client::connect(&server, "bo").await);
    assert_eq!(all_pages(&mut fan, "users.likes", &json!({ "id": "fan", "limit": 3 }), async || ()).await, latest);
    // A stranger sees the public ones, on full pages, while another like arrives.
    let late = json!(server.post("ann", "late").await);
    let like = async || drop(server.done("fan", "PUT", &format!("/posts/{late}/like"), &Value::Null).await);
    let public: Vec<Value> = [6, 4, 3, 1, 0].map(|place: usize| posts[place].clone()).into();
    assert_eq!(all_pages(&mut bo, "users.likes", &json!({ "id": "fan", "limit": 2 }), like).await, public);
    let page = grown(&server, "bo", "/users/fan/likes", 6).await;
    assert_eq!((&page["items"][0]["id"], &page["people"]["ann"]["name"]), (&late, &json!("ann")));
    server.done("fan", "DELETE", &format!("/posts/{late}/like"), &Value::Null).await;
    let listed = async || ids(&server.done("bo", "GET", "/users/fan/likes", &Value::Null).await).len();
    until("the like is gone", async || listed().await <= 5).await;
    server.done("bo", "GET", "/users/bo", &Value::Null).await;
    // Hidden from a user, nothing is listed; of an unknown user, or one who blocks, there is no list.
    server.done("fan", "PUT", "/users/bo/hide", &Value::Null).await;
    assert_eq!(server.done("bo", "GET", "/users/fan/likes", &Value::Null).await["items"], json!([]));
    server.done("fan", "PUT", "/users/bo/block", &Value::Null).await;
    for path in ["/users/fan/likes", "/users/fan/comments", "/users/nobody/likes", "/users/nobody/comments"] {
        assert_eq!(server.call("bo", "GET", path, &Value::Null).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn comments_of_a_user_are_listed_where_the_reader_may_see_them() {
    let server = Server::start().await;
    let open = server.post("ann", "for all").await;
    let closed = json!({ "text": "for followers", "visibility": "followers" });
    let closed = server.done("ann", "POST", "/posts", &closed).await["id"].as_u64().expect("an id");
    server.follow("bo", "ann").await;
    let above = say(&server, "cy", open, json!({ "text": "first" })).await;
    let mut wrote = Vec::new();
    for n in 0..4 {
        wrote.push(say(&server, "bo", open, json!({ "text": format!("open {n}") })).await);
        say(&server, "bo", closed, json!({ "text": "closed" })).await;
    }
    let reply = say(&server, "bo", open, json!({ "text": "to cy", "reply_to": above })).await;
    let mut own = Client::connect(&server, "bo").await;
    let all = all_pages(&mut own, "users.comments", &json!({ "id": "bo", "limit": 4 }), async || ()).await;
    assert_eq!((all.len(), &all[0]), (9, &reply));
    // A stranger sees those under the public post, on full pages, while others are written.
    let mut dan = Client::connect(&server, "dan").await;
    let write = async || drop(say(&server, "bo", open, json!({ "text": "more" })).await);
    let mut expected: Vec<Value> = wrote.iter().rev().cloned().collect();
    expected.insert(0, reply.clone());
    assert_eq!(all_pages(&mut dan, "users.comments", &json!({ "id": "bo", "limit": 2 }), write).await, expected);
    let page = server.done("dan", "GET", "/users/bo/comments?limit=1", &Value::Null).await;
    assert_eq!((&page["items"][0]["post"], &page["people"]["bo"]["id"]), (&json!(open), &json!("bo")));
    // Below a comment that the reader may not see, nothing is shown; a hide empties the list.
    server.done("dan", "GET", "/users/dan", &Value::Null).await;
    server.done("cy", "PUT", "/users/dan/block", &Value::Null).await;
    assert!(!ids(&server.done("dan", "GET", "/users/bo/comments?limit=100", &Value::Null).await).contains(&reply));
    server.done("bo", "PUT", "/users/dan/hide", &Value::Null).await;
    assert_eq!(ids(&server.done("dan", "GET", "/users/bo/comments", &Value::Null).await), Vec::<Value>::new());
}

#[tokio::test]
async fn comments_are_read_by_id() {
    let server = Server::start().await;
    let posts = [server.post("ann", "one").await, server.post("ann", "two").await];
    server.follow("bo", "ann").await;
    let hidden = json!({ "text": "for some", "visibility": { "only_to": ["bo"] } });
    let hidden = server.done("ann", "POST", "/posts", &hidden).await["id"].as_u64().expect("an id");
    let first = say(&server, "bo", posts[0], json!({ "text": "first" })).await;
    let under = say(&server, "dee", posts[0], json!({ "text": "under it", "reply_to": first })).await;
    let other = say(&server, "ann", posts[1], json!({ "text": "other" })).await;
    let unseen = say(&server, "bo", hidden, json!({ "text": "between us" })).await;
    let asked = json!({ "ids": [other, unseen, 7, under, first, other] });
    let mut cy = Client::connect(&server, "cy").await;
    let read = cy.rpc("comments.many", &asked).await;
    assert_eq!(ids(&read), [&other, &under, &first].map(Value::clone), "in the order of the request, each once");
    assert_eq!(read["items"][1]["text"], "under it");
    assert_eq!(read["items"][0]["liked"], false);
    assert_eq!(read["people"].as_object().expect("people").keys().collect::<Vec<_>>(), ["ann", "bo", "dee"]);
    assert_eq!(ids(&Client::connect(&server, "bo").await.rpc("comments.many", &asked).await).len(), 4);
    // One above it is out of sight.
    server.done("bo", "PUT", "/users/cy/block", &Value::Null).await;
    assert_eq!(ids(&cy.rpc("comments.many", &asked).await), std::slice::from_ref(&other));
    server.done("ann", "DELETE", &format!("/posts/{}", posts[1]), &Value::Null).await;
    assert_eq!(ids(&cy.rpc("comments.many", &asked).await), [] as [Value; 0]);
    assert_eq!(cy.refused(json!({ "rpc": { "method": "comments.many", "data": { "ids": [] } } })).await, 400);
    let many: Vec<u64> = (1..102).collect();
    assert_eq!(cy.refused(json!({ "rpc": { "method": "comments.many", "data": { "ids": many } } })).await, 422);
}

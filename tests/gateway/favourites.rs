//! Favourites from the users' view, over HTTP and over a socket.

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::Server;

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().expect("items").iter().map(|item| item["id"].as_str().expect("an id")).collect()
}

async fn get(server: &Server, user: &str, path: &str) -> Value {
    server.done(user, "GET", path, &Value::Null).await
}

async fn add(server: &Server, user: &str, kind: &str, id: impl std::fmt::Display) -> Value {
    server.done(user, "PUT", &format!("/favourites/{kind}/{id}"), &Value::Null).await
}

#[tokio::test]
async fn objects_of_any_type_are_added_listed_counted_and_checked() {
    let server = Server::start().await;
    let first = add(&server, "ann", "video", "a").await;
    add(&server, "ann", "video", "b").await;
    add(&server, "ann", "song", "a").await;
    assert_eq!(add(&server, "ann", "video", "a").await, first, "adding again keeps the first time");
    let page = get(&server, "ann", "/favourites/video").await;
    assert_eq!((ids(&page), &page["items"][1]["created_at"]), (vec!["b", "a"], &first["created_at"]));
    assert_eq!(get(&server, "ann", "/favourites/video/count").await, json!({ "count": 2 }));

    let asked = json!({ "ids": ["c", "a", 17] });
    let checked = server.done("ann", "POST", "/favourites/video/check", &asked).await;
    let expected = [("c", None), ("a", Some(&first["created_at"])), ("17", None)].map(|(id, at)| match at {
        Some(at) => json!({ "id": id, "favourited": true, "created_at": at }),
        None => json!({ "id": id, "favourited": false }),
    });
    assert_eq!(checked["items"], json!(expected));

    server.done("ann", "DELETE", "/favourites/video/a", &Value::Null).await;
    server.done("ann", "DELETE", "/favourites/video/a", &Value::Null).await;
    assert_eq!(ids(&get(&server, "ann", "/favourites/video").await), ["b"], "only this one is removed");
    assert_eq!(ids(&get(&server, "ann", "/favourites/song").await), ["a"]);
    assert_eq!(get(&server, "ann", "/favourites/video/count").await["count"], 1);
    assert_eq!(ids(&get(&server, "bo", "/favourites/video").await), Vec::<&str>::new(), "other users have none");
}

#[tokio::test]
async fn pages_have_no_gap_or_repeat_while_a_list_grows() {
    let server = Server::start().await;
    let mut ann = Client::connect(&server, "ann").await;
    let mut added: Vec<String> = (0..25).map(|n| format!("v-{n}")).collect();
    for id in &added {
        ann.rpc("favourites.add", &json!({ "type": "video", "id": id })).await;
    }
    let (mut read, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = ann.rpc("favourites.list", &json!({ "type": "video", "limit": 7, "cursor": cursor })).await;
        assert!(page["items"].as_array().unwrap().len() <= 7);
        read.extend(ids(&page).into_iter().map(str::to_owned));
        ann.rpc("favourites.add", &json!({ "type": "video", "id": format!("late-{}", read.len()) })).await;
        if page["next"].is_null() {
            break;
        }
        cursor = page["next"].clone();
    }
    added.reverse();
    assert_eq!(read, added);
}

#[tokio::test]
async fn favourite_posts_are_rendered_and_deleted_ones_omitted() {
    let server = Server::start().await;
    let mut posts = Vec::new();
    for n in 0..9 {
        let author = ["bo", "cy"][n % 2];
        posts.push(server.post(author, &format!("post {n}")).await);
        add(&server, "ann", "post", posts[n]).await;
        add(&server, "dee", "post", posts[n]).await;
    }
    let page = get(&server, "ann", "/favourites/post?limit=100").await;
    let newest = &page["items"][0]["post"];
    assert_eq!((&newest["id"], &newest["text"]), (&json!(posts[8]), &json!("post 8")));
    assert_eq!(
        (&newest["favourites"], &newest["favourited"], &newest["liked"]),
        (&json!(2), &json!(true), &json!(false))
    );
    assert_eq!(page["people"]["cy"]["name"], "cy");
    let seen = get(&server, "bo", &format!("/posts/{}", posts[8])).await;
    assert_eq!((&seen["favourites"], &seen["favourited"]), (&json!(2), &json!(false)));

    // All but the first and the last two.
    for (n, post) in posts.iter().enumerate().take(7).skip(1) {
        server.done(["bo", "cy"][n % 2], "DELETE", &format!("/posts/{post}"), &Value::Null).await;
    }
    let left: Vec<String> = [posts[8], posts[7], posts[0]].iter().map(u64::to_string).collect();
    let (mut read, mut path, mut pages) = (Vec::new(), "/favourites/post?limit=2".to_owned(), Vec::new());
    loop {
        let page = get(&server, "ann", &path).await;
        pages.push(ids(&page).len());
        read.extend(ids(&page).into_iter().map(str::to_owned));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/favourites/post?limit=2&cursor={next}");
    }
    assert_eq!((read, pages), (left, vec![2, 1]), "the page is filled with the remaining posts");
    assert_eq!(get(&server, "ann", "/favourites/post/count").await["count"], 3);
    let asked = json!({ "ids": [posts[0], posts[3]] });
    let checked = server.done("ann", "POST", "/favourites/post/check", &asked).await;
    assert_eq!(checked["items"][0]["favourited"], true);
    assert_eq!(checked["items"][1]["favourited"], false);
    for (path, verb) in [("favourites/post/{id}", "PUT"), ("objects/post/{id}/favourites", "GET")] {
        let path = format!("/{}", path.replace("{id}", &posts[3].to_string()));
        assert_eq!(server.call("ann", verb, &path, &Value::Null).await.status, 404, "{verb} {path}");
    }
}

#[tokio::test]
async fn deleted_posts_free_their_favourite_slots() {
    let server = Server::start_with(&[("limits.favourites", "2")]).await;
    let (one, two) = (server.post("bo", "one").await, server.post("bo", "two").await);
    add(&server, "ann", "post", one).await;
    add(&server, "ann", "post", two).await;
    let three = server.post("bo", "three").await;
    let refused = server.call("ann", "PUT", &format!("/favourites/post/{three}"), &Value::Null).await;
    assert_eq!((refused.status.as_u16(), &refused.body["error"]["code"]), (422, &json!("limit_exceeded")));
    assert_eq!(refused.body["error"]["message"], "favourites of one type: at most 2");
    assert_eq!(ids(&get(&server, "ann", "/favourites/post").await).len(), 2, "the rejected favourite was not stored");
    server.done("bo", "DELETE", &format!("/posts/{one}"), &Value::Null).await;
    // The worker of the deletion frees the slot.
    let until = std::time::Instant::now() + crate::server::PATIENCE;
    while !server.call("ann", "PUT", &format!("/favourites/post/{three}"), &Value::Null).await.status.is_success() {
        assert!(std::time::Instant::now() < until, "the slot is never freed");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let left = [three, two].map(|id| id.to_string());
    assert_eq!(ids(&get(&server, "ann", "/favourites/post").await), left);
}

#[tokio::test]
async fn objects_list_and_count_their_users() {
    let server = Server::start_with(&[("auth.anonymous", "true")]).await;
    let people = ["ann", "bo", "cy", "dee", "eve"];
    for user in people {
        add(&server, user, "video", "a").await;
    }
    server.done("cy", "DELETE", "/favourites/video/a", &Value::Null).await;
    let mut nobody = Client::open(&server).await;
    nobody.done(json!({ "connect": {} })).await;
    let asked = json!({ "type": "video", "id": "a", "limit": 3 });
    let page = nobody.rpc("favourites.holders", &asked).await;
    assert_eq!((ids(&page), &page["count"]), (vec!["eve", "dee", "bo"], &json!(4)));
    assert_eq!(page["items"][0]["name"], "eve");
    let path = format!("/objects/video/a/favourites?cursor={}", page["next"].as_str().unwrap());
    let rest = get(&server, "ann", &path).await;
    assert_eq!((ids(&rest), &rest["next"]), (vec!["ann"], &Value::Null));
    assert_eq!(get(&server, "ann", "/objects/video/unheard-of/favourites").await["count"], 0);
}

#[tokio::test]
async fn shared_favourites_of_two_users_are_listed() {
    let server = Server::start().await;
    for id in ["a", "b", "c", "d", "e"] {
        add(&server, "ann", "video", id).await;
    }
    for id in ["e", "x", "c", "a"] {
        add(&server, "bo", "video", id).await;
    }
    let page = get(&server, "ann", "/favourites/video/common/bo?limit=2").await;
    assert_eq!((ids(&page), &page["count"]), (vec!["e", "c"], &json!(3)));
    let path = format!("/favourites/video/common/bo?limit=2&cursor={}", page["next"].as_str().unwrap());
    let rest = get(&server, "ann", &path).await;
    assert_eq!((ids(&rest), &rest["next"]), (vec!["a"], &Value::Null));
    let nobody = server.call("ann", "GET", "/favourites/video/common/nobody", &Value::Null).await;
    assert_eq!(nobody.status, 404);

    let (one, two) = (server.post("cy", "one").await, server.post("cy", "two").await);
    for user in ["ann", "bo"] {
        add(&server, user, "post", one).await;
        add(&server, user, "post", two).await;
    }
    server.done("cy", "DELETE", &format!("/posts/{one}"), &Value::Null).await;
    let page = get(&server, "ann", "/favourites/post/common/bo").await;
    assert_eq!((&page["count"], &page["items"][0]["post"]["text"]), (&json!(1), &json!("two")));
    assert_eq!(ids(&page).len(), 1);
}

#[tokio::test]
async fn invalid_object_names_are_rejected_by_field() {
    let server = Server::start().await;
    // Escaped characters of a path arrive unchanged, even if the plain path would address another operation.
    for (path, id) in [("caf%C3%A9%3F%23", "café?#"), ("%63ount", "count"), ("a%25b", "a%b")] {
        assert_eq!(add(&server, "ann", "video", path).await["id"], id);
    }
    let long = "x".repeat(201);
    for (path, field) in [
        ("/favourites/Video/a", "type"),
        ("/favourites/2d/a", "type"),
        ("/favourites/video/a%20b", "id"),
        ("/favourites/video/a%2Fb", "id"),
        (&*format!("/favourites/video/{long}"), "id"),
        ("/favourites/post/abc", "id"),
    ] {
        let refused = server.call("ann", "PUT", path, &Value::Null).await;
        assert_eq!(refused.status, 400, "{path}: {refused:?}");
        let said = refused.body["error"].to_string();
        assert!(said.contains(field), "{path}: {said}");
    }
    for ids in [json!([]), json!((0..101).collect::<Vec<_>>())] {
        let refused = server.call("ann", "POST", "/favourites/video/check", &json!({ "ids": ids })).await;
        assert_eq!(refused.body["error"]["field"], "ids");
    }
    for cursor in ["x", "p12", "e"] {
        let refused = server.call("ann", "GET", &format!("/favourites/video?cursor={cursor}"), &Value::Null).await;
        assert_eq!(refused.body["error"]["field"], "cursor", "{cursor}");
    }
    let mut ann = Client::connect(&server, "ann").await;
    let post = server.post("ann", "mine").await;
    let added = ann.rpc("favourites.add", &json!({ "type": "post", "id": format!("0{post}") })).await;
    assert_eq!(added["id"], post.to_string(), "a post has one name");
}

#[tokio::test]
async fn excluded_users_see_neither_posts_nor_users() {
    let server = Server::start().await;
    let (bos, cys) = (server.post("bo", "by bo").await, server.post("cy", "by cy").await);
    for user in ["ann", "bo", "cy"] {
        for post in [bos, cys] {
            add(&server, user, "post", post).await;
        }
        add(&server, user, "video", "a").await;
    }
    let sees = async || {
        let list = get(&server, "ann", "/favourites/post").await;
        let count = get(&server, "ann", "/favourites/post/count").await["count"].clone();
        let checked = json!({ "ids": [bos, cys] });
        let checked = server.done("ann", "POST", "/favourites/post/check", &checked).await;
        let common = get(&server, "ann", "/favourites/post/common/cy").await;
        let holders = get(&server, "ann", "/objects/video/a/favourites").await;
        let texts = |items: &[&str]| items.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        json!({
            "list": texts(&ids(&list)),
            "count": count,
            "checked": [checked["items"][0]["favourited"], checked["items"][1]["favourited"]],
            "common": [json!(texts(&ids(&common))), common["count"].clone()],
            "holders": texts(&ids(&holders)),
        })
    };
    let (bo_id, cy_id) = (bos.to_string(), cys.to_string());
    let all = json!({
        "list": [cy_id, bo_id], "count": 2, "checked": [true, true], "common": [[cy_id, bo_id], 2],
        "holders": ["cy", "bo", "ann"],
    });
    assert_eq!(sees().await, all);
    server.done("bo", "PUT", "/users/ann/block", &Value::Null).await;
    let without_bo = json!({
        "list": [cy_id], "count": 1, "checked": [false, true], "common": [[cy_id], 1], "holders": ["cy", "ann"],
    });
    assert_eq!(sees().await, without_bo);
    for path in ["/favourites/video/common/bo", &format!("/objects/post/{bos}/favourites")] {
        assert_eq!(server.call("ann", "GET", path, &Value::Null).await.status, 404, "{path}");
    }
    let again = server.call("ann", "PUT", &format!("/favourites/post/{bos}"), &Value::Null).await;
    assert_eq!(again.status, 404);
    server.done("bo", "DELETE", "/users/ann/block", &Value::Null).await;
    assert_eq!(sees().await, all, "nothing was lost by it");
}

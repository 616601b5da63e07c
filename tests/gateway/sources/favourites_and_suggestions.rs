//! Source 001: favourites of any type, and follow suggestions.

use serde_json::json;

use super::{delete, get, names, put};
use crate::server::Server;

#[tokio::test]
async fn favourites_of_any_type_are_added_removed_checked_listed_and_counted() {
    let server = Server::start().await;
    for id in ["a", "b", "c", "d"] {
        put(&server, "ann", &format!("/favourites/video/{id}")).await;
    }
    put(&server, "ann", "/favourites/article/a").await;
    delete(&server, "ann", "/favourites/video/b").await;
    let first = get(&server, "ann", "/favourites/video?limit=2").await;
    assert_eq!(names(&first), ["d", "c"], "by time, newest first");
    let next = first["next"].as_str().expect("more");
    assert_eq!(names(&get(&server, "ann", &format!("/favourites/video?limit=2&cursor={next}")).await), ["a"]);
    assert_eq!(get(&server, "ann", "/favourites/video/count").await["count"], 3);
    assert_eq!(get(&server, "ann", "/favourites/article/count").await["count"], 1);
    let checked = server.done("ann", "POST", "/favourites/video/check", &json!({ "ids": ["a", "b"] })).await;
    let checked = [0, 1].map(|n| checked["items"][n]["favourited"] == true);
    assert_eq!(checked, [true, false], "one or many");
}

#[tokio::test]
async fn objects_list_their_users_and_two_users_share_favourites() {
    let server = Server::start().await;
    for (user, id) in [("ann", "a"), ("ann", "b"), ("bo", "b"), ("bo", "a"), ("bo", "c")] {
        put(&server, user, &format!("/favourites/video/{id}")).await;
    }
    let holders = get(&server, "cy", "/objects/video/a/favourites").await;
    assert_eq!((&holders["count"], names(&holders)), (&json!(2), vec!["bo", "ann"]));
    let common = get(&server, "ann", "/favourites/video/common/bo").await;
    assert_eq!((&common["count"], names(&common)), (&json!(2), vec!["b", "a"]));
}

#[tokio::test]
async fn followees_of_followees_are_suggested() {
    let server = Server::start().await;
    for (user, target) in [("ann", "bo"), ("ann", "cy"), ("bo", "dee"), ("cy", "dee"), ("cy", "eve"), ("bo", "cy")] {
        server.follow(user, target).await;
    }
    let suggested = get(&server, "ann", "/users/suggested").await;
    assert_eq!(names(&suggested), ["dee", "eve"], "most mutual first, and no user who is already followed");
    assert_eq!(suggested["items"][0]["mutual"], 2);
}

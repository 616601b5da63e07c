//! Reports of users, their limits, and the events of moderation for the outlet.

use serde_json::{Value, json};

use crate::moderation::{Scene, moderate, set, suspend};
use crate::server::{API_KEY, Server, until};

#[tokio::test]
async fn users_report_what_they_see_once() {
    let server = Server::start().await;
    let scene = Scene::set(&server).await;
    let report = async |user: &str, body: Value| server.call(user, "POST", "/reports", &body).await;
    let first = report("fan", json!({ "post": scene.post, "reason": "spam", "text": "look" })).await;
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!((&first.body["about"], &first.body["post"]), (&json!("offender"), &json!(scene.post)));
    let again = report("fan", json!({ "post": scene.post, "reason": "other" })).await;
    assert_eq!((again.status.as_u16(), &again.body), (201, &first.body));
    let second = report("fan", json!({ "comment": scene.comment, "reason": "abuse" })).await.body;
    let third = report("stranger", json!({ "user": "offender", "reason": "illegal" })).await.body;
    for body in [
        json!({ "reason": "spam" }),
        json!({ "user": "offender", "post": scene.post, "reason": "spam" }),
        json!({ "user": "offender", "reason": "dull" }),
        json!({ "user": "fan", "reason": "spam" }),
    ] {
        assert_eq!(report("fan", body.clone()).await.status, 400, "{body}");
    }
    let long = json!({ "user": "offender", "reason": "spam", "text": "x".repeat(1_001) });
    assert_eq!(report("fan", long).await.status, 422);
    server.done("offender", "PUT", "/users/other/hide", &Value::Null).await;
    for body in [json!({ "post": scene.post, "reason": "spam" }), json!({ "user": "nobody", "reason": "spam" })] {
        assert_eq!(report("other", body.clone()).await.status, 404, "{body}: not visible");
    }
    let list = async |query: &str| set(&server, "GET", &format!("/reports{query}"), &Value::Null).await;
    let page = list("?limit=2").await;
    assert_eq!(page["items"], json!([third, second]));
    let next = page["next"].as_str().expect("a cursor");
    assert_eq!(list(&format!("?limit=2&cursor={next}")).await, json!({ "items": [first.body] }));
    let closed = set(&server, "PUT", &format!("/reports/{}", second["id"]), &json!({ "action": "removed" })).await;
    assert_eq!(closed["action"], "removed");
    assert_eq!(list("?open=false").await["items"], json!([closed]));
    assert_eq!(list("").await["items"], json!([third, first.body]));
    assert_eq!(moderate(&server, "PUT", "/reports/99", &json!({ "action": "none" })).await.status, 404);
    let export = server.done("fan", "GET", "/accounts/export", &Value::Null).await;
    assert_eq!(export["reports"].as_array().expect("reports").len(), 2, "{export}");
    // The API for backends takes the same operations.
    let input = json!({ "method": "reports.list", "params": { "open": "true" } });
    let over_rpc = server.backend("rpc", &input).await;
    assert_eq!(over_rpc["result"]["data"]["items"], json!([third, first.body]), "{over_rpc}");
}

#[tokio::test]
async fn the_outlet_has_the_ids_of_what_was_moderated() {
    let server = Server::start_with(&[("outlet.consumers", "app")]).await;
    let scene = Scene::set(&server).await;
    server.done("fan", "POST", "/reports", &json!({ "post": scene.post, "reason": "spam", "text": "secret" })).await;
    set(&server, "PUT", &format!("/posts/{}/removal", scene.post), &json!({ "reason": "secret" })).await;
    set(&server, "PUT", &format!("/comments/{}/removal", scene.comment), &json!({ "reason": "secret" })).await;
    suspend(&server, "offender", "suspended").await;
    let kinds = ["report.created", "post.removed", "comment.removed", "user.suspended"];
    let read = async || {
        server.http("GET", "/api/events?consumer=app&limit=100", &[("x-api-key", API_KEY)], "").await.body.to_string()
    };
    until("all events are there", async || {
        let all = read().await;
        kinds.iter().all(|kind| all.contains(kind))
    })
    .await;
    let all = read().await;
    assert!(!all.contains("secret") && !all.contains("by the offender"), "{all}");
}

#[tokio::test]
async fn reports_are_limited_to_thirty_a_minute() {
    let server = Server::start_with(&[("rates.writes", "1000")]).await;
    server.follow("fan", "offender").await;
    let mut taken = 0;
    for _ in 0..70 {
        let answer = server.call("fan", "POST", "/reports", &json!({ "user": "offender", "reason": "spam" })).await;
        taken += usize::from(answer.status == 201);
    }
    assert!((60..65).contains(&taken), "a bucket holds twice the amount of a minute: {taken}");
}

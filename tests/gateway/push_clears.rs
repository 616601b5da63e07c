//! What was read on one device is withdrawn from the others by a silent message.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::client::Client;
use crate::identity::{account, sign_in, with_token};
use crate::push_browser::Browser;
use crate::push_receiver::{CLEAR_DELAY, GRACE, Receiver, register, server, server_with};
use crate::server::Server;

/// A server with Web Push.
pub(crate) async fn web_push() -> Server {
    let key = URL_SAFE_NO_PAD.encode([7; 32]);
    let keys = [("push.vapid_private_key", key.as_str()), ("push.vapid_subject", "mailto:ops@example.org")];
    server_with(&keys).await
}

/// Ann registers a browser.
pub(crate) async fn subscribe(server: &Server, token: &str, device: &str, browser: &Browser, endpoint: &str) {
    let (p256dh, auth) = browser.keys();
    let body = json!({ "platform": "webpush", "endpoint": endpoint, "p256dh": p256dh, "auth": auth });
    let answer = with_token(server, token, "PUT", &format!("/devices/{device}"), &body).await;
    assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
}

fn decrypted(browser: &Browser, body: &Value) -> Value {
    let bytes: Vec<u8> = serde_json::from_value(body.clone()).expect("bytes");
    serde_json::from_slice(&browser.decrypt(&bytes)).expect("JSON")
}

#[tokio::test]
async fn a_browser_withdraws_what_was_read_elsewhere() {
    let (server, here, there) = (web_push().await, Receiver::start(&[]).await, Receiver::start(&[]).await);
    account(&server, "ann").await;
    let (one, two) = (sign_in(&server, "ann", "correct horse").await, sign_in(&server, "ann", "correct horse").await);
    let (phone, laptop) = (Browser::new(), Browser::new());
    subscribe(&server, &one, "phone", &phone, &here.url).await;
    subscribe(&server, &two, "laptop", &laptop, &there.url).await;
    server.post("bo", "@ann one").await;
    let first = decrypted(&laptop, &there.wait_for(1).await[0]);
    assert_eq!((&first["kind"], &first["badge"]), (&json!("alert"), &json!(1)));
    server.post("cy", "@ann two").await;
    let second = decrypted(&laptop, &there.wait_for(2).await[1]);
    here.wait_for(2).await;
    let oldest: Option<u64> = first["data"]["notification"].as_str().and_then(|id| id.parse().ok());
    let done = with_token(&server, &one, "PUT", "/notifications/read", &json!({ "id": oldest })).await;
    assert_eq!(done.body["unread"], 1);
    let clear = decrypted(&laptop, &there.wait_for(3).await[2]);
    assert_eq!((&clear["kind"], &clear["badge"]), (&json!("clear"), &json!(1)));
    let newest = &second["data"]["notification"];
    assert_eq!(clear["data"], json!({ "unread": newest, "upto": newest, "seen_post": "0" }));
    assert_eq!((clear.get("title"), clear.get("body")), (None, None));
    tokio::time::sleep(CLEAR_DELAY).await;
    assert_eq!((here.received.lock().len(), there.received.lock().len()), (2, 3), "none to the phone itself");
}

#[tokio::test]
async fn clears_are_coalesced_and_reach_users_with_a_live_socket() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    server.post("bo", "@ann one").await;
    server.post("cy", "@ann two").await;
    let pushes = receiver.wait_for(2).await;
    let mut client = Client::connect(&server, "ann").await;
    for push in &pushes {
        let id: u64 = push["data"]["notification"].as_str().and_then(|id| id.parse().ok()).expect("an id");
        client.rpc("notifications.mark_read", &json!({ "id": id })).await;
    }
    let clear = receiver.wait_for(3).await.remove(2);
    assert_eq!((&clear["push"], &clear["badge"], &clear["data"]["unread"]), (&json!("clear"), &json!(0), &json!("")));
    let newest = pushes.iter().filter_map(|push| push["data"]["notification"].as_str()?.parse::<u64>().ok()).max();
    assert_eq!(clear["data"]["upto"], json!(newest.expect("an id").to_string()), "the newest one, though it is read");
    client.rpc("notifications.mark_read", &json!({})).await;
    tokio::time::sleep(CLEAR_DELAY).await;
    assert_eq!(receiver.received.lock().len(), 3, "nothing new was read");
}

#[tokio::test]
async fn alerts_about_posts_are_withdrawn_by_the_read_marker() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    server.post("bo", "the first post").await;
    register(&server, "ann", "hook", &receiver.url).await;
    server.done("ann", "PUT", "/users/bo/notify", &Value::Null).await;
    let post = server.post("bo", "seen elsewhere").await;
    receiver.wait_for(1).await;
    server.done("ann", "PUT", "/timeline/read", &json!({ "id": post })).await;
    let clear = receiver.wait_for(2).await.remove(1);
    assert_eq!((&clear["push"], &clear["data"]["seen_post"]), (&json!("clear"), &json!(post.to_string())));
}

#[tokio::test]
async fn quiet_hours_and_caps_do_not_hold_clears() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    server.post("bo", "@ann one").await;
    receiver.wait_for(1).await;
    let quiet = json!({ "from": "00:00", "to": "23:59", "time_zone": "UTC" });
    server.done("ann", "PUT", "/push/preferences", &json!({ "quiet_hours": quiet, "daily_cap": 1 })).await;
    server.done("ann", "PUT", "/notifications/read", &json!({})).await;
    assert_eq!(receiver.wait_for(2).await[1]["push"], "clear");
}

#[tokio::test]
async fn a_killed_server_sends_the_clear() {
    let receiver = Receiver::start(&[]).await;
    let mut server = server().await;
    register(&server, "ann", "hook", &receiver.url).await;
    server.post("bo", "@ann one").await;
    receiver.wait_for(1).await;
    tokio::time::sleep(GRACE).await;
    server.done("ann", "PUT", "/notifications/read", &json!({})).await;
    server.kill();
    server.start_again().await;
    assert_eq!(receiver.wait_for(2).await[1]["push"], "clear");
}

#[tokio::test]
async fn a_device_that_ended_gets_no_clear() {
    let (server, receiver) = (server().await, Receiver::start(&[]).await);
    register(&server, "ann", "hook", &receiver.url).await;
    server.post("bo", "@ann one").await;
    receiver.wait_for(1).await;
    server.done("ann", "PUT", "/notifications/read", &json!({})).await;
    server.backend("block_user", &json!({ "user": "ann" })).await;
    tokio::time::sleep(CLEAR_DELAY + GRACE).await;
    assert_eq!(receiver.received.lock().len(), 1);
}

//! Old notifications end: in lists, counts, exports, and for clients that are connected, were away, or hold a cursor.

use serde_json::{Value, json};

use crate::client::Client;
use crate::postgres_server::PostgresServer;
use crate::redis_server::RedisServer;
use crate::server::{PATIENCE, Server, token};

#[tokio::test]
async fn old_notifications_end() {
    old_ones_end(&[]).await;
}

#[tokio::test]
async fn old_notifications_end_on_redis_and_postgres() {
    let (redis, postgres) = (RedisServer::start(), PostgresServer::start());
    let (broker, ledger) = (redis.url(), postgres.url("postgres"));
    old_ones_end(&[("broker.url", &broker), ("ledger.url", &ledger)]).await;
}

async fn old_ones_end(stores: &[(&str, &str)]) {
    let keys: Vec<_> = stores.iter().copied().chain([("notifications.retention", "4s")]).collect();
    let server = Server::start_with(&keys).await;
    let mut ann = Client::open(&server).await;
    let connected = ann.done(json!({ "connect": { "token": token("ann") } })).await;
    let epoch = connected["connect"]["subs"]["notifications:ann"]["epoch"].clone();
    let post = server.post("ann", "mine").await;
    server.done("bo", "PUT", &format!("/posts/{post}/like"), &Value::Null).await;
    server.follow("bo", "ann").await;
    let mut ids = Vec::new();
    let mut offset = Value::Null;
    while ids.len() < 2 {
        let received = ann.publication("notifications:ann").await;
        assert_eq!(received["data"]["type"], "notification", "{received}");
        ids.push(received["data"]["notification"]["id"].clone());
        offset = received["offset"].clone();
    }
    let list = async |query: &str| server.done("ann", "GET", &format!("/notifications{query}"), &Value::Null).await;
    let first = list("?limit=1").await;
    assert_eq!((&first["unread"], first["items"].as_array().map(Vec::len)), (&json!(2), Some(1)), "{first}");

    // The socket is informed of each.
    let mut gone = Vec::new();
    while gone.len() < 2 {
        let data = ann.publication("notifications:ann").await["data"].clone();
        assert_eq!(data["type"], "notification.gone", "{data}");
        gone.push(data["id"].clone());
    }
    let sorted = |ids: &[Value]| {
        let mut ids: Vec<u64> = ids.iter().filter_map(Value::as_u64).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(sorted(&gone), sorted(&ids));
    let empty = list("").await;
    assert_eq!((&empty["items"], &empty["unread"], &empty["unseen"]), (&json!([]), &json!(0), &json!(0)));
    let export = server.done("ann", "GET", "/accounts/export", &Value::Null).await;
    assert!(export.get("notifications").is_none_or(|rows| *rows == json!([])), "{export}");

    // A client that goes on from a page, marks one, or was away.
    let next = first["next"].as_str().expect("a cursor");
    assert_eq!(list(&format!("?cursor={next}")).await["items"], json!([]));
    let marked = server.done("ann", "PUT", "/notifications/read", &json!({ "id": ids[0] })).await;
    assert_eq!(marked, json!({ "unread": 0, "unseen": 0 }));
    let mut back = Client::open(&server).await;
    let from = json!({ "recover": true, "offset": offset, "epoch": epoch });
    let connect = json!({ "connect": { "token": token("ann"), "subs": { "notifications:ann": from } } });
    let connected = back.done(connect).await["connect"]["subs"]["notifications:ann"].clone();
    assert_eq!(connected["recovered"], true, "{connected}");
    let missed = connected["publications"].as_array().expect("publications");
    assert!(missed.iter().all(|missed| missed["data"]["type"] == "notification.gone") && missed.len() == 2);

    // What happens again is a new group.
    server.done("bo", "DELETE", "/users/ann/follow", &Value::Null).await;
    server.follow("bo", "ann").await;
    let again = tokio::time::timeout(PATIENCE, async {
        loop {
            let data = ann.publication("notifications:ann").await["data"].clone();
            if data["type"] == "notification" {
                return data["notification"]["id"].clone();
            }
        }
    });
    assert!(!ids.contains(&again.await.expect("a notification")));
}

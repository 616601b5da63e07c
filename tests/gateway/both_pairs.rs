//! Servers with each pair of stores, and what ann does on them.

use serde_json::Value;

use crate::redis_server::RedisServer;
use crate::server::Server;

/// A server in memory with SQLite, and one on Redis and PostgreSQL with that Redis.
pub(crate) async fn servers() -> [(Server, Option<RedisServer>); 2] {
    servers_with(&[]).await
}

/// The same with these keys.
pub(crate) async fn servers_with(keys: &[(&str, &str)]) -> [(Server, Option<RedisServer>); 2] {
    let redis = RedisServer::start();
    let postgres = crate::postgres_server::shared();
    let broker = redis.url();
    let ledger = postgres.url(&postgres.migrated().await);
    let stores = [("broker.url", broker.as_str()), ("ledger.url", ledger.as_str())];
    let server = Server::start_with(&[&stores[..], keys].concat()).await;
    [(Server::start_with(keys).await, None), (server, Some(redis))]
}

pub(crate) async fn get(server: &Server, path: &str) -> Value {
    server.done("ann", "GET", path, &Value::Null).await
}

pub(crate) async fn put(server: &Server, path: &str) {
    server.done("ann", "PUT", path, &Value::Null).await;
}

pub(crate) async fn delete(server: &Server, path: &str) {
    server.done("ann", "DELETE", path, &Value::Null).await;
}

/// The ids of the posts on all pages of `limit`.
pub(crate) async fn ids_by_pages(server: &Server, user: &str, path: &str, limit: usize) -> Vec<u64> {
    let mut ids = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.done(user, "GET", &format!("{path}?limit={limit}{cursor}"), &Value::Null).await;
        ids.extend(page["items"].as_array().expect("items").iter().filter_map(|item| item["id"].as_u64()));
        let Some(next) = page["next"].as_str() else { return ids };
        cursor = format!("&cursor={next}");
    }
}

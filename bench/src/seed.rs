//! Users, tokens, commands and Redis connections of the bench.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use feedline::broker::{Broker, InboxOptions, LedgerRecord as _, RedisBroker, RedisOptions};
use feedline::model::UserId;
use jsonwebtoken::{EncodingKey, Header, encode};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

use super::ledger;
use super::messages::MARK;

/// Bytes of a payload, quotes included.
const PAYLOAD: usize = 200;
/// The lifetime of tokens.
const TOKEN_TTL: Duration = Duration::from_secs(3600);
/// The length of an inbox: the default of `timeline.length`.
pub(super) const LENGTH: u64 = 1_000;
/// The time limit of a reply of Redis.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The author that all users follow.
pub(super) const AUTHOR: &str = "author";

/// A new secret to sign tokens with: 64 hexadecimal digits.
pub(super) fn secret() -> String {
    (0..4).map(|_| format!("{:016x}", rand::random::<u64>())).collect()
}

/// The API key of a server with this secret.
pub(super) fn api_key(secret: &str) -> String {
    format!("{secret}-backend")
}

/// The secret of a server that is already running.
pub(super) fn secret_from_environment() -> Result<String> {
    std::env::var("FEEDLINE__AUTH__HMAC_SECRET")
        .context("--server needs the server's secret in FEEDLINE__AUTH__HMAC_SECRET")
}

/// The id of a user. Ids sort like the numbers.
pub(super) fn user(n: usize) -> String {
    format!("u{n:05}")
}

/// The token of a user.
pub(super) fn token(secret: &str, user: &str) -> Result<String> {
    let expires = SystemTime::now().duration_since(UNIX_EPOCH)? + TOKEN_TTL;
    let claims = json!({ "sub": user, "exp": expires.as_secs() });
    Ok(encode(&Header::default(), &claims, &EncodingKey::from_secret(secret.as_bytes()))?)
}

/// The connect command of a user, with command id 1.
pub(super) fn connect(secret: &str, user: &str) -> Result<String> {
    connect_with(secret, user, Value::Null)
}

/// The same, recovering: `subs` as in `connect.subs`.
pub(super) fn connect_with(secret: &str, user: &str, subs: Value) -> Result<String> {
    let mut command = json!({ "id": 1, "connect": { "token": token(secret, user)? } });
    if !subs.is_null() {
        command["connect"]["subs"] = subs;
    }
    Ok(command.to_string())
}

/// A JSON string of [`PAYLOAD`] bytes with one mark.
pub(super) fn payload() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| format!("\"{}{}\"", char::from(MARK), "x".repeat(PAYLOAD - 3)));
    &TEXT
}

/// The command that creates a post.
pub(super) fn post(id: u64) -> String {
    post_of(id, payload())
}

/// The command that creates a post of this text, which is a JSON string.
pub(super) fn post_of(id: u64, text: &str) -> String {
    format!(r#"{{"id":{id},"rpc":{{"method":"posts.create","data":{{"text":{text}}}}}}}"#)
}

/// Fills a ledger before its server starts: `followers` people, who all follow [`AUTHOR`]. Returns the incarnation of
/// the ledger, under which inboxes are filled.
pub(super) async fn followers(ledger: &str, followers: usize) -> Result<String> {
    let ledger = ledger::open(ledger).await?;
    let author = UserId::parse(AUTHOR).context("the author's name is no id")?;
    let mut people: Vec<UserId> = (0..followers).filter_map(|n| UserId::parse(&user(n))).collect();
    let edges: Vec<(UserId, UserId)> = people.iter().map(|person| (person.clone(), author.clone())).collect();
    people.push(author);
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
    ledger.load_users(&people, now).await?;
    ledger.load_follows(&edges, now).await?;
    let incarnation = ledger.lineage().await?.incarnation;
    ledger.close().await;
    Ok(incarnation)
}

/// A broker beside the server's, on the same Redis, for the same incarnation of the ledger.
pub(super) async fn broker(url: &str, prefix: &str, incarnation: &str) -> Result<Arc<dyn Broker>> {
    let options = RedisOptions {
        url: url.to_owned(),
        timeout: TIMEOUT,
        prefix: prefix.to_owned(),
        inbox: InboxOptions { length: LENGTH, idle: Duration::from_secs(14 * 24 * 3600) },
        probe_every: Duration::from_secs(3),
    };
    let broker = RedisBroker::connect(options).await?;
    broker.use_incarnation(incarnation);
    Ok(Arc::new(broker))
}

/// A plain connection to Redis.
pub(super) async fn connection(url: &str) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(TIMEOUT));
    Ok(redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?)
}

/// Removes all keys that begin with `prefix` from a Redis.
pub(super) async fn remove_keys(url: &str, prefix: &str) -> Result<()> {
    let mut redis = connection(url).await?;
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(format!("{prefix}*")).arg("COUNT").arg(1_000);
        let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(&mut redis).await?;
        if !keys.is_empty() {
            redis::cmd("UNLINK").arg(keys).query_async::<()>(&mut redis).await?;
        }
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
}

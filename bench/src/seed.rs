//! What exists before the load: users, tokens, the content of the ledger; connections to Redis.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Error, Result};
use feedline::broker::{Broker, InboxOptions, LedgerRecord as _, RedisBroker, RedisOptions};
use feedline::ledger::{
    BulkLoad, Durability, PostgresLedger, PostgresOptions, PostgresUrl, SqliteLedger, SqliteOptions,
};
use feedline::model::{Post, PostId, UserId, Visibility};
use futures::TryStreamExt as _;
use jsonwebtoken::{EncodingKey, Header, encode};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, AsyncConnectionConfig};
use serde_json::json;

use super::frames::MARK;

/// The length of an inbox: the default of `timeline.length`.
pub(super) const INBOX_LENGTH: u64 = 1_000;
/// The author that all users of some scenarios follow.
pub(super) const AUTHOR: &str = "author";
/// Bytes of a text as JSON, quotes included.
pub(super) const TEXT: usize = 200;
/// The prefix of a SQLite address, before the path.
pub(super) const SQLITE: &str = "sqlite://";
/// The lifetime of tokens.
const TOKEN_TTL: Duration = Duration::from_secs(3600);
/// The time limit of a reply of Redis.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A new secret to sign tokens with: 64 hexadecimal digits.
pub(super) fn secret() -> String {
    (0..4).map(|_| format!("{:016x}", rand::random::<u64>())).collect()
}

/// The API key of a server with this secret.
pub(super) fn api_key(secret: &str) -> String {
    format!("{secret}-backend")
}

/// The name of a user. Names sort like the numbers.
pub(super) fn user(n: usize) -> String {
    format!("u{n:05}")
}

/// The name of an author, where there are many.
pub(super) fn author(n: usize) -> String {
    format!("a{n:04}")
}

/// The id with this name.
pub(super) fn id(name: &str) -> Result<UserId> {
    UserId::parse(name).with_context(|| format!("{name} is no id"))
}

/// The ids of users or authors: [`user`] or [`author`] from 0 to `count`.
pub(super) fn ids(name: fn(usize) -> String, count: usize) -> Result<Vec<UserId>> {
    (0..count).map(|n| id(&name(n))).collect()
}

/// The token of a user.
pub(super) fn token(secret: &str, user: &str) -> Result<String> {
    let expires = SystemTime::now().duration_since(UNIX_EPOCH)? + TOKEN_TTL;
    let claims = json!({ "sub": user, "exp": expires.as_secs() });
    Ok(encode(&Header::default(), &claims, &EncodingKey::from_secret(secret.as_bytes()))?)
}

/// A text of [`TEXT`] bytes as a JSON string, with one mark and what comes behind it.
pub(super) fn text(behind_mark: &str) -> String {
    format!("\"{}{behind_mark}{}\"", char::from(MARK), "x".repeat(TEXT - 3 - behind_mark.len()))
}

/// The command that creates a post.
pub(super) fn post_command(id: u64) -> String {
    let text = text("");
    format!(r#"{{"id":{id},"rpc":{{"method":"posts.create","data":{{"text":{text}}}}}}}"#)
}

/// The command that reposts a post.
pub(super) fn repost_command(id: u64, post: PostId) -> String {
    format!(r#"{{"id":{id},"rpc":{{"method":"posts.repost","data":{{"id":{post}}}}}}}"#)
}

/// A post of an author, at the time of its id.
pub(super) fn post(id: PostId, author: &UserId) -> Post {
    Post {
        id,
        author: author.clone(),
        text: "x".repeat(TEXT),
        media: Vec::new(),
        location: None,
        topics: Vec::new(),
        mentions: Vec::new(),
        platform: None,
        removed: None,
        visibility: Visibility::Public,
        comment_policy: feedline::model::CommentPolicy::Everyone,
        data: None,
        repost: None,
        quote: None,
        created_at: id.time(),
        edited_at: None,
    }
}

/// Opens the ledger at an address beside its server; creates a missing one.
pub(super) async fn open_ledger(url: &str) -> Result<Box<dyn BulkLoad>> {
    Ok(match url.strip_prefix(SQLITE) {
        Some(path) => {
            let options = SqliteOptions { durability: Durability::Normal, ..SqliteOptions::new(path) };
            Box::new(SqliteLedger::open(options).await?)
        }
        None => {
            let url = PostgresUrl::parse(url).map_err(Error::msg).context("the address of PostgreSQL")?;
            Box::new(PostgresLedger::open(PostgresOptions::new(url)).await?)
        }
    })
}

/// Fills a ledger before its server starts: with users, edges (follower, followee) and posts. Returns the incarnation
/// of the ledger, under which inboxes are filled.
pub(super) async fn fill(url: &str, users: &[UserId], edges: &[(UserId, UserId)], posts: &[Post]) -> Result<String> {
    let ledger = open_ledger(url).await?;
    let now = feedline::feed::now();
    ledger.load_users(users, now).await?;
    ledger.load_follows(edges, now).await?;
    ledger.load_posts(posts).await?;
    let incarnation = ledger.lineage().await?.incarnation;
    ledger.close().await;
    Ok(incarnation)
}

/// Fills a ledger with users who all follow [`AUTHOR`].
pub(super) async fn fill_followers(url: &str, followers: &[UserId]) -> Result<String> {
    let author = id(AUTHOR)?;
    let edges: Vec<_> = followers.iter().map(|follower| (follower.clone(), author.clone())).collect();
    fill(url, &[followers, &[author]].concat(), &edges, &[]).await
}

/// A broker beside the server's, on the same Redis, for the same incarnation of the ledger.
pub(super) async fn broker(url: &str, prefix: &str, incarnation: &str) -> Result<Arc<dyn Broker>> {
    let options = RedisOptions {
        url: url.to_owned(),
        timeout: TIMEOUT,
        prefix: prefix.to_owned(),
        inbox: InboxOptions { length: INBOX_LENGTH, idle: Duration::from_secs(14 * 24 * 3600) },
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
    let keys: Vec<String> = redis.scan_match(format!("{prefix}*")).await?.try_collect().await?;
    for keys in keys.chunks(1_000) {
        redis.unlink::<_, ()>(keys).await?;
    }
    Ok(())
}

//! Which rights of its user in Redis Feedline lacks: `feedline doctor`.

use std::time::{SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, Value};

use super::command_connections::RedisEndpoint;
use super::keys::Keys;
use super::{RedisOptions, connection_info};
use crate::broker::Result;

/// The commands that Feedline sends itself and in scripts, with arguments of a valid number. `KEY` is a key of its
/// prefix, `CHANNEL` one of its channels. docs/operations.md lists the same.
const COMMANDS: &[&str] = &[
    "DEL KEY",
    "EVALSHA 0000000000000000000000000000000000000000 1 KEY",
    "EXISTS KEY",
    "EXPIRE KEY 1",
    "GET KEY",
    "HDEL KEY f",
    "HGET KEY f",
    "HGETALL KEY",
    "HINCRBY KEY f 1",
    "HMGET KEY f",
    "HSET KEY f v",
    "HSETNX KEY f v",
    "INFO server",
    "PEXPIRE KEY 1",
    "PING",
    "PTTL KEY",
    "PUBLISH CHANNEL m",
    "PUBSUB NUMSUB CHANNEL",
    "SCRIPT LOAD return",
    "SET KEY v",
    "SUBSCRIBE CHANNEL",
    "TIME",
    "UNLINK KEY",
    "UNSUBSCRIBE CHANNEL",
    "XADD KEY * f v",
    "XGROUP DESTROY KEY g",
    "XINFO STREAM KEY",
    "XLEN KEY",
    "XRANGE KEY - +",
    "XREVRANGE KEY + -",
    "XSETID KEY 1-0",
    "XTRIM KEY MAXLEN 0",
    "ZADD KEY 1 m",
    "ZCOUNT KEY 0 1",
    "ZRANGE KEY 0 1",
    "ZREM KEY m",
    "ZREMRANGEBYSCORE KEY 0 1",
];

/// What was found out about a Redis and the rights of its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisFindings {
    /// The version of the server.
    pub version: String,
    /// Its `maxmemory-policy`, if it reports it.
    pub eviction_policy: Option<String>,
    /// Refused commands, each with the reason.
    pub refused: Vec<String>,
    /// How far the clock of this machine is ahead of that of the server, in milliseconds. `None` if the server does
    /// not return its time.
    pub clock_ahead: Option<i64>,
}

/// A connection of a command, which subscribes to nothing.
pub(super) struct CommandConnection {
    pub(super) endpoint: RedisEndpoint,
    pub(super) connection: MultiplexedConnection,
    pub(super) keys: Keys,
}

impl CommandConnection {
    pub(super) async fn open(options: &RedisOptions) -> Result<Self> {
        let info = connection_info(&options.url)?;
        let database = info.redis_settings().db();
        let client = Client::open(info).map_err(|error| super::errors::classify(&error))?;
        let endpoint = RedisEndpoint { client, timeout: options.timeout };
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connecting = endpoint.client.get_multiplexed_async_connection_with_config(&config);
        let connection = endpoint.in_time(connecting).await?;
        Ok(Self { endpoint, connection, keys: Keys::new(&options.prefix, database) })
    }
}

/// Connects, and asks for each command whether it is permitted. Nothing is executed: the commands are queued in a
/// transaction that is discarded, and Redis checks rights as it queues.
///
/// # Errors
/// If Redis cannot be reached, refuses the login, or does not permit `MULTI`.
pub async fn redis_rights(options: &RedisOptions) -> Result<RedisFindings> {
    let CommandConnection { endpoint, mut connection, keys } = CommandConnection::open(options).await?;
    let info: String = endpoint.in_time(redis::cmd("INFO").query_async(&mut connection)).await?;
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    let eviction_policy = Some(field("maxmemory_policy:")).filter(|policy| !policy.is_empty()).map(str::to_owned);
    let version = field("redis_version:").to_owned();
    let clock_ahead = clock_ahead(&endpoint, &mut connection).await?;
    endpoint.in_time(redis::cmd("MULTI").query_async::<Value>(&mut connection)).await?;
    let mut refused = Vec::new();
    // Outside of a transaction, the last one is an error of another kind.
    for command in COMMANDS.iter().chain(&["DISCARD", "EXEC"]) {
        let asked = async { Ok(command_of(command, &keys).query_async::<Value>(&mut connection).await) };
        if let Err(error) = endpoint.in_time(asked).await?
            && let Some(reason) = refusal(&error)
        {
            let name = command.split(' ').next().unwrap_or_default().to_lowercase();
            refused.push(format!("{name}: {reason}"));
        }
    }
    Ok(RedisFindings { version, eviction_policy, refused, clock_ahead })
}

/// Compares the clocks, as of the middle of the call. `None`: the user may not ask for the time.
async fn clock_ahead(endpoint: &RedisEndpoint, connection: &mut MultiplexedConnection) -> Result<Option<i64>> {
    let asked = unix_millis();
    let time = async { Ok(redis::cmd("TIME").query_async::<(i64, i64)>(connection).await) };
    let time = endpoint.in_time(time).await?.ok();
    let middle = i64::midpoint(asked, unix_millis());
    Ok(time.map(|(seconds, micros)| middle.saturating_sub(seconds.saturating_mul(1_000)) - micros / 1_000))
}

fn unix_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn command_of(text: &str, keys: &Keys) -> Cmd {
    let mut parts = text.split(' ');
    let mut command = redis::cmd(parts.next().unwrap_or_default());
    for part in parts {
        match part {
            "KEY" => command.arg(keys.single("doctor")),
            "CHANNEL" => command.arg(keys.single("doctor:channel")),
            other => command.arg(other),
        };
    }
    command
}

/// The reason of an error about rights; other errors concern the transaction.
fn refusal(error: &RedisError) -> Option<String> {
    // Of EXEC, it is the reason of another error.
    let detail = error.detail().unwrap_or("no permission");
    (error.code() == Some("NOPERM") || detail.contains("NOPERM")).then(|| detail.to_owned())
}

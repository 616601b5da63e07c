//! The queue in Streams: one for each partition, with ids that Redis generates.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redis::Value;

use super::command_connections::millis;
use super::keys::Keys;
use super::replies::{parse, strange};
use super::rights::CommandConnection;
use super::scripts::SCRIPTS;
use super::{RedisBroker, RedisOptions};
use crate::broker::epoch::new_epoch;
use crate::broker::{DurableQueue, QueueBacklog, QueueItem, QueueOffset, QueuePage, QueuedEntry, Result};
use crate::model::Epoch;

/// The number of partitions. After a change of the number, waiting entries would be read from the wrong partitions.
const PARTITIONS: u16 = 8;

/// The backlog of the queue, over a connection of its own: for commands.
///
/// # Errors
/// If Redis cannot be reached, or refuses the login or the commands.
pub async fn queue_backlog(options: &RedisOptions) -> Result<QueueBacklog> {
    let CommandConnection { endpoint, mut connection, keys } = CommandConnection::open(options).await?;
    let answers = async { backlog_commands(&keys).query_async::<Vec<Value>>(&mut connection).await };
    parse_backlog(endpoint.in_time(answers).await?)
}

/// Reads the length and the first entry of each partition.
fn backlog_commands(keys: &Keys) -> redis::Pipeline {
    let mut pipe = redis::pipe();
    for partition in 0..PARTITIONS {
        let [_, stream, _] = keys.partition(partition);
        pipe.cmd("XLEN").arg(&stream);
        pipe.cmd("XRANGE").arg(stream).arg("-").arg("+").arg("COUNT").arg(1);
    }
    pipe
}

fn parse_backlog(answers: Vec<Value>) -> Result<QueueBacklog> {
    let mut backlog = QueueBacklog::default();
    let mut answers = answers.into_iter();
    while let (Some(length), Some(first)) = (answers.next(), answers.next()) {
        backlog.entries += parse::<u64>(length)?;
        let first: Vec<Value> = parse(first)?;
        // Redis generates the ids: they begin with the time.
        let appended = first.into_iter().next().and_then(waiting).map(|entry| entry.place.major);
        backlog.oldest = backlog.oldest.into_iter().chain(appended).min();
    }
    Ok(backlog)
}

/// How long the generation of an owner is kept after it trimmed. A ledger that was restored without notice counts
/// generations from a lower one: its owners are refused for this time, not for good.
const FENCE_KEPT: Duration = Duration::from_secs(660);

/// Parses `[id, [field, value]]`. An entry that another program added has an empty body, which no like has.
fn waiting(entry: Value) -> Option<QueuedEntry> {
    let (id, fields): (String, Vec<Vec<u8>>) = redis::from_redis_value(entry).ok()?;
    let is_ours = fields.first().is_some_and(|field| field == b"b");
    let body = fields.into_iter().nth(1).filter(|_| is_ours).unwrap_or_default();
    Some(QueuedEntry { place: QueueOffset::parse(&id)?, body: Bytes::from(body) })
}

#[async_trait]
impl DurableQueue for RedisBroker {
    fn partitions(&self) -> u16 {
        PARTITIONS
    }

    async fn enqueue(&self, items: &[QueueItem], most: u64) -> Result<Vec<Option<QueueOffset>>> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = SCRIPTS.enqueue.call(PARTITIONS.into());
        for partition in 0..PARTITIONS {
            let [_, stream, _] = self.keys.partition(partition);
            call.arg(stream);
        }
        call.arg(most);
        for item in items {
            call.arg(item.partition + 1).arg(&item.body[..]);
        }
        let places: Vec<String> = parse(self.commands.send(&call).await?)?;
        let place = |id: String| match id.as_str() {
            "" => Ok(None),
            id => QueueOffset::parse(id).map(Some).ok_or_else(|| strange("a place")),
        };
        places.into_iter().map(place).collect()
    }

    async fn read(&self, partition: u16, after: QueueOffset, limit: usize) -> Result<QueuePage> {
        let mut call = SCRIPTS.read_queue.call(2);
        call.arg(&self.keys.partition(partition)[1..]).arg(after.to_string());
        call.arg(i64::try_from(limit).unwrap_or(i64::MAX)).arg(&*new_epoch());
        let (life, entries): (String, Vec<Value>) = parse(self.commands.send(&call).await?)?;
        let items = entries.into_iter().map(waiting).collect::<Option<_>>().ok_or_else(|| strange("an entry"))?;
        Ok(QueuePage { life: life.into(), items })
    }

    async fn trim(&self, partition: u16, generation: u64, life: &Epoch, before: QueueOffset) -> Result<bool> {
        let incarnation = self.incarnation.read().clone();
        let mut call = SCRIPTS.trim_queue.call(3);
        call.arg(&self.keys.partition(partition)[..]).arg(generation).arg(&*incarnation);
        call.arg(&**life).arg(before.to_string()).arg(millis(FENCE_KEPT));
        parse(self.commands.send(&call).await?)
    }

    async fn length(&self) -> Result<u64> {
        let mut pipe = redis::pipe();
        for partition in 0..PARTITIONS {
            let [_, stream, _] = self.keys.partition(partition);
            pipe.cmd("XLEN").arg(stream);
        }
        let lengths: Vec<u64> = self.commands.send_pipeline(&pipe).await?;
        Ok(lengths.iter().sum())
    }

    async fn backlog(&self) -> Result<Option<QueueBacklog>> {
        parse_backlog(self.commands.send_pipeline(&backlog_commands(&self.keys)).await?).map(Some)
    }
}

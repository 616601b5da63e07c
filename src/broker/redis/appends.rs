//! Appends to logs and publications without a log: one script call serves many channels.

use std::future::Future;

use futures::StreamExt as _;
use futures::stream::FuturesOrdered;

use super::command_connections::millis;
use super::scripts::SCRIPTS;
use super::{RedisBroker, hint, replies};
use crate::broker::logs::{IDEMPOTENCY_TTL, is_for_listeners};
use crate::broker::{Append, AppendOutcome, Broadcast, BrokerError, Result, is_inbox};
use crate::model::Entry;

/// Channels that one script call serves: a log takes some 5 microseconds of Redis, during which nothing else runs.
const MAX_CHANNELS: usize = 64;

/// Calls of one broadcast that are under way at once, so that Redis has work while replies are read.
const MAX_CALLS: usize = 4;

/// The keys of a log in the script: its entries, its metadata, its counts.
const LOG_KEYS: usize = 3;

impl RedisBroker {
    /// Appends to one log.
    pub(super) async fn append_to_one(&self, append: Append<'_>) -> Result<AppendOutcome> {
        let Append { channel, entry, retention, idempotency_key, version } = append;
        let channels = &[channel][..];
        let mut outcomes = self.call_append(Broadcast { channels, entry, retention, idempotency_key, version }).await?;
        outcomes.pop().unwrap_or_else(|| Err(replies::strange("an append without a result")))
    }

    /// Appends to any number of logs. One result for each channel, in their order.
    pub(super) async fn append_to_all(&self, broadcast: Broadcast<'_>) -> Vec<Result<AppendOutcome>> {
        in_parts(broadcast.channels, |channels| self.call_append(Broadcast { channels, ..broadcast })).await
    }

    /// Publishes without a log. One result for each channel, in their order.
    pub(super) async fn publish_on_all(
        &self,
        channels: &[&str],
        entry: &Entry,
        idempotency_key: Option<&str>,
    ) -> Vec<Result<AppendOutcome>> {
        let message = &hint::unlogged(entry)[..];
        in_parts(channels, |channels| self.call_publish(channels, message, idempotency_key)).await
    }

    async fn call_publish(
        &self,
        channels: &[&str],
        message: &[u8],
        idempotency_key: Option<&str>,
    ) -> Result<Vec<Result<AppendOutcome>>> {
        let mut call = SCRIPTS.publish.call(if idempotency_key.is_some() { channels.len() } else { 0 });
        if let Some(key) = idempotency_key {
            channels.iter().for_each(|channel| _ = call.arg(self.keys.idempotency(channel, key)));
        }
        call.arg(IDEMPOTENCY_TTL.as_secs()).arg(message);
        channels.iter().for_each(|channel| _ = call.arg(self.keys.hints(channel)));
        replies::published(self.commands.send(&call).await?, channels.len())
    }

    async fn call_append(&self, broadcast: Broadcast<'_>) -> Result<Vec<Result<AppendOutcome>>> {
        let Broadcast { channels, entry, retention, idempotency_key, version } = broadcast;
        if channels.iter().any(|channel| is_inbox(channel)) {
            return Err(BrokerError::Failed("an inbox is not appended to".to_owned()));
        }
        let per_log = LOG_KEYS + idempotency_key.iter().len();
        let mut call = SCRIPTS.append.call(1 + per_log * channels.len());
        call.arg(self.keys.epochs());
        for channel in channels {
            let [log, meta, counts, _] = self.log_keys(channel);
            call.arg(log).arg(meta).arg(counts);
            call.arg(idempotency_key.map(|key| self.keys.idempotency(channel, key)));
        }
        let answer = self.call_with_epoch(call, |call| {
            let (kind, body) = entry.encode();
            call.arg(&[kind][..]).arg(&body[..]).arg(retention.size);
            call.arg(millis(retention.ttl)).arg(u8::from(channels.iter().all(|channel| is_for_listeners(channel))));
            // Numbers of 20 digits sort as text in numeric order.
            let number = version.map_or(String::new(), |(version, _)| format!("{version:020}"));
            call.arg(number).arg(version.map_or("", |(_, life)| life)).arg(IDEMPOTENCY_TTL.as_secs()).arg(per_log);
        });
        let written: Vec<Vec<u8>> = replies::parse(answer.await?)?;
        if written.len() != channels.len() {
            return Err(replies::strange("the result of an append is missing"));
        }
        Ok(written.iter().map(|outcome| replies::appended(outcome)).collect())
    }
}

/// Makes a call for each part of some channels, a few of them at once. The error of a call is that of its channels.
async fn in_parts<'c, F>(
    channels: &'c [&'c str],
    call: impl Fn(&'c [&'c str]) -> F + Send,
) -> Vec<Result<AppendOutcome>>
where
    F: Future<Output = Result<Vec<Result<AppendOutcome>>>> + Send,
{
    let mut outcomes = Vec::with_capacity(channels.len());
    let mut under_way = FuturesOrdered::new();
    for part in channels.chunks(MAX_CHANNELS) {
        if under_way.len() >= MAX_CALLS
            && let Some(written) = under_way.next().await
        {
            outcomes.extend(written);
        }
        let calling = call(part);
        under_way.push_back(async move {
            calling.await.unwrap_or_else(|error| part.iter().map(|_| Err(error.clone())).collect())
        });
    }
    while let Some(written) = under_way.next().await {
        outcomes.extend(written);
    }
    outcomes
}

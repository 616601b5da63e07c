//! Appends to logs: one script call writes an entry to many of them.

use futures::StreamExt as _;
use futures::stream::FuturesOrdered;

use super::commands::millis;
use super::scripts::SCRIPTS;
use super::{RedisBroker, replies};
use crate::broker::logs::IDEMPOTENCY_TTL;
use crate::broker::{Append, AppendOutcome, Broadcast, BrokerError, Result, inbox_owner};

/// Logs that one script call writes: some 6 microseconds of Redis each, during which nothing else runs.
const MAX_LOGS: usize = 64;

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
        let mut outcomes = Vec::with_capacity(broadcast.channels.len());
        let mut under_way = FuturesOrdered::new();
        for channels in broadcast.channels.chunks(MAX_LOGS) {
            if under_way.len() >= MAX_CALLS
                && let Some(written) = under_way.next().await
            {
                outcomes.extend(written);
            }
            under_way.push_back(self.append_to_some(Broadcast { channels, ..broadcast }));
        }
        while let Some(written) = under_way.next().await {
            outcomes.extend(written);
        }
        outcomes
    }

    /// Appends with one script call.
    async fn append_to_some(&self, broadcast: Broadcast<'_>) -> Vec<Result<AppendOutcome>> {
        match self.call_append(broadcast).await {
            Ok(outcomes) => outcomes,
            Err(error) => broadcast.channels.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn call_append(&self, broadcast: Broadcast<'_>) -> Result<Vec<Result<AppendOutcome>>> {
        let Broadcast { channels, entry, retention, idempotency_key, version } = broadcast;
        if channels.iter().any(|channel| inbox_owner(channel).is_some()) {
            return Err(BrokerError::Refused("an inbox is not appended to".to_owned()));
        }
        let per_log = LOG_KEYS + idempotency_key.iter().len();
        let mut call = SCRIPTS.append.call(1 + per_log * channels.len());
        call.arg(self.keys.seed());
        for channel in channels {
            let [log, meta, counts, _] = self.log_keys(channel);
            call.arg(log).arg(meta).arg(counts);
            call.arg(idempotency_key.map(|key| self.keys.idempotency(channel, key)));
        }
        let answer = self.call_with_epoch(call, |call| {
            let (kind, body) = entry.encode();
            call.arg(&[kind][..]).arg(&body[..]).arg(retention.size);
            call.arg(millis(retention.ttl)).arg(millis(retention.ttl.saturating_add(self.position_ttl)));
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

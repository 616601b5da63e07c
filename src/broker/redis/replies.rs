//! Parsers of replies of Redis.

use bytes::Bytes;
use redis::{FromRedisValue, Value};

use super::errors::failed_in_script;
use crate::broker::{AppendOutcome, BrokerError, FannedOut, Inbox, InboxState, Receipt, Result};
use crate::model::{Entry, Position, PostId};

/// A part of a log, and the state of the whole log.
pub(super) struct StreamSlice {
    pub(super) top: Position,
    pub(super) floor: PostId,
    pub(super) mark: u64,
    pub(super) entries: Vec<(u64, Entry)>,
}

/// The prefix of an inbox's head while the inbox is unfilled; see `scripts/inbox_prelude.lua`.
const UNFILLED: &str = "9007199254740991";

pub(super) fn strange(what: impl std::fmt::Display) -> BrokerError {
    BrokerError::Failed(format!("unexpected reply: {what}"))
}

pub(super) fn parse<T: FromRedisValue>(answer: Value) -> Result<T> {
    redis::from_redis_value(answer).map_err(strange)
}

fn at(offset: &str, epoch: &str) -> Result<Position> {
    Ok(Position { offset: offset.parse().map_err(strange)?, epoch: epoch.into() })
}

pub(super) fn position(answer: Value) -> Result<Position> {
    let (epoch, offset): (String, String) = parse(answer)?;
    at(&offset, &epoch)
}

pub(super) fn positions(answer: Value) -> Result<Vec<Option<Position>>> {
    let pairs: Vec<(String, String)> = parse(answer)?;
    pairs.iter().map(|(epoch, offset)| (!epoch.is_empty()).then(|| at(offset, epoch)).transpose()).collect()
}

/// The result of an append to one log: see `scripts/append.lua`.
pub(super) fn appended(outcome: &[u8]) -> Result<AppendOutcome> {
    let outcome = std::str::from_utf8(outcome).map_err(strange)?;
    if let Some(reason) = outcome.strip_prefix('!') {
        return Err(failed_in_script(reason));
    }
    let mut parts = outcome.split(' ');
    let mut next = || parts.next().ok_or_else(|| strange("a part of an append is missing"));
    let offset = next()?;
    let epoch = next()?;
    let receivers = next()?;
    Ok(AppendOutcome { position: at(offset, epoch)?, receivers: receivers.parse().map_err(strange)? })
}

/// The results of publications without a log: see `scripts/publish.lua`.
pub(super) fn published(answer: Value, channels: usize) -> Result<Vec<Result<AppendOutcome>>> {
    let Value::Array(outcomes) = answer else { return Err(strange("publications")) };
    if outcomes.len() != channels {
        return Err(strange("the result of a publication is missing"));
    }
    let outcome = |outcome| match outcome {
        Value::Int(receivers) => u64::try_from(receivers).map(AppendOutcome::unlogged).map_err(strange),
        other => Err(failed_in_script(parse::<String>(other)?.trim_start_matches('!'))),
    };
    Ok(outcomes.into_iter().map(outcome).collect())
}

pub(super) fn opening(answer: Value) -> Result<InboxState> {
    let Value::Array(parts) = answer else { return Err(strange("an opening")) };
    let mut parts = parts.into_iter();
    let mut next = || parts.next().unwrap_or_default();
    match parse::<u8>(next())? {
        0 => Ok(InboxState::Unfilled(parse::<String>(next())?.into())),
        _ => {
            let epoch: String = parse(next())?;
            let position = at(&parse::<String>(next())?, &epoch)?;
            Ok(InboxState::Ready(position, parse(next())?))
        }
    }
}

pub(super) fn fanned_out(answer: Value) -> Result<FannedOut> {
    if answer == Value::Nil { Ok(FannedOut::Fenced) } else { receipts(answer).map(FannedOut::Written) }
}

pub(super) fn receipts(answer: Value) -> Result<Vec<Receipt>> {
    let Value::Array(receipts) = answer else { return Err(strange("receipts")) };
    let receipt = |answer| {
        Ok(match parse(answer)? {
            -2 => Receipt::Absent,
            -1 => Receipt::Unchanged,
            written => Receipt::Written(u64::try_from(written).map_err(strange)?),
        })
    };
    receipts.into_iter().map(receipt).collect()
}

/// For each channel, whether it has a subscriber: parses the reply of `PUBSUB NUMSUB`, alternating names and numbers.
pub(super) fn subscribed(answer: Value, channels: usize) -> Result<Vec<bool>> {
    let Value::Array(pairs) = answer else { return Err(strange("numbers of subscribers")) };
    let numbers: Vec<bool> = pairs.into_iter().skip(1).step_by(2).map(|number| number != Value::Int(0)).collect();
    if numbers.len() == channels { Ok(numbers) } else { Err(strange("a number of subscribers is missing")) }
}

/// Parses the reply of `scripts/read.lua`.
pub(super) fn part(answer: Value) -> Result<Option<StreamSlice>> {
    if answer == Value::Nil {
        return Ok(None);
    }
    let (epoch, top, floor, mark, found): (String, String, String, u64, Value) = parse(answer)?;
    let floor = PostId::parse(&floor).ok_or_else(|| strange("a floor"))?;
    Ok(Some(StreamSlice { top: at(&top, &epoch)?, floor, mark, entries: entries(found)? }))
}

/// A whole inbox, if it exists, is filled and is not empty: `about` is its run, head, floor and mark.
pub(super) fn inbox(about: Value, all: Value, run: &str) -> Result<Option<Inbox>> {
    let (wrote, head, floor, mark): (Option<String>, Option<String>, Option<String>, Option<u64>) = parse(about)?;
    let Some((head, floor)) = head.zip(floor) else { return Ok(None) };
    let newest = match &all {
        Value::Array(all) => all.last().and_then(offset),
        _ => None,
    };
    let Some((offset, (fence, epoch))) = newest.zip(head.split_at_checked(UNFILLED.len())) else { return Ok(None) };
    if wrote.as_deref() != Some(run) || fence == UNFILLED {
        return Ok(None);
    }
    let floor = PostId::parse(&floor).ok_or_else(|| strange("a floor"))?;
    let top = Position { offset, epoch: epoch.into() };
    Ok(Some(Inbox { top, floor, mark: mark.unwrap_or(0), entries: entries(all)? }))
}

/// The offset of the first of some entries of a Stream.
pub(super) fn first_offset(entries: &Value) -> Option<u64> {
    let Value::Array(entries) = entries else { return None };
    entries.first().and_then(offset)
}

/// The offset of one entry of a Stream: `[id, [field, value]]`.
fn offset(entry: &Value) -> Option<u64> {
    let Value::Array(parts) = entry else { return None };
    let Value::BulkString(id) = parts.first()? else { return None };
    std::str::from_utf8(id).ok()?.strip_prefix("0-")?.parse().ok()
}

/// An entry of the invalidation log.
pub(super) struct InvalidationEntry {
    pub(super) sequence: u64,
    /// The node that appended it.
    pub(super) origin: String,
    /// The invalidations, encoded.
    pub(super) text: String,
}

/// Entries of the invalidation log, oldest first. One that cannot be decoded is omitted: the node sees a gap, and drops
/// all of its caches.
pub(super) fn invalidations(answer: Value) -> Result<Vec<InvalidationEntry>> {
    let found: Vec<Value> = parse(answer)?;
    let decode = |entry: Value| {
        let (id, (_, origin, _, text)): (String, (String, String, String, String)) = parse(entry).ok()?;
        Some(InvalidationEntry { sequence: id.strip_prefix("0-")?.parse().ok()?, origin, text })
    };
    let decode = |entry: Value| {
        let decoded = decode(entry);
        if decoded.is_none() {
            tracing::error!("an entry of the invalidation log cannot be decoded");
        }
        decoded
    };
    Ok(found.into_iter().filter_map(decode).collect())
}

/// Entries of a Stream, without those of a kind that this version does not know.
fn entries(answer: Value) -> Result<Vec<(u64, Entry)>> {
    let all = match answer {
        Value::Array(all) => all,
        Value::Nil => Vec::new(),
        _ => return Err(strange("entries")),
    };
    let entry = |value: Value| {
        let offset = offset(&value)?;
        let Value::Array(parts) = value else { return None };
        let Some(Value::Array(fields)) = parts.into_iter().nth(1) else { return None };
        let mut fields = fields.into_iter();
        let (Value::BulkString(kind), Value::BulkString(body)) = (fields.next()?, fields.next()?) else { return None };
        Entry::decode(*kind.first()?, Bytes::from(body)).map(|entry| (offset, entry))
    };
    Ok(all.into_iter().filter_map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_invalidation_entries_are_skipped() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let entry = |id: &str, fields: &[&str]| {
            Value::Array(vec![text(id), Value::Array(fields.iter().map(|field| text(field)).collect())])
        };
        let entries = Value::Array(vec![
            entry("0-1", &["n", "node", "i", "post 7"]),
            entry("0-2", &["what", "ever"]),
            entry("1-x", &["n", "node", "i", "post 8"]),
            entry("0-3", &["n", "node", "i", "post 9"]),
        ]);
        let found = invalidations(entries).expect("the others");
        assert_eq!(found.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [1, 3]);
    }
}

//! The record of the ledger in Redis.

use async_trait::async_trait;
use redis::Value;

use super::scripts::SCRIPTS;
use super::{RedisBroker, replies};
use crate::broker::{LedgerMatch, LedgerRecord, Result};
use crate::ledger::HighWaterMarks;

impl RedisBroker {
    async fn ledger(&self, act: &str, identity: &str, from: &str, numbers: &HighWaterMarks) -> Result<LedgerMatch> {
        let mut call = SCRIPTS.ledger.call(1);
        call.arg(self.keys.ledger()).arg(act).arg(identity).arg(from);
        for (kind, number) in numbers {
            call.arg(kind).arg(number);
        }
        let answer: Vec<Value> = replies::parse(self.commands.send(&call).await?)?;
        let mut parts = answer.into_iter();
        if parts.next().map(replies::parse::<i64>).transpose()? == Some(1) {
            return Ok(LedgerMatch::Same);
        }
        let mut texts = parts.map(replies::parse::<String>);
        let known = texts.next().transpose()?.unwrap_or_default();
        let mut numbers = HighWaterMarks::new();
        while let (Some(kind), Some(number)) = (texts.next().transpose()?, texts.next().transpose()?) {
            numbers.push((kind, number));
        }
        Ok(LedgerMatch::Other(known, numbers))
    }
}

#[async_trait]
impl LedgerRecord for RedisBroker {
    async fn match_ledger(&self, identity: &str, numbers: &HighWaterMarks) -> Result<LedgerMatch> {
        self.ledger("match", identity, "", numbers).await
    }

    async fn replace_ledger(&self, from: &str, identity: &str, numbers: &HighWaterMarks) -> Result<bool> {
        Ok(self.ledger("replace", identity, from, numbers).await? == LedgerMatch::Same)
    }

    async fn note_numbers(&self, identity: &str, numbers: &HighWaterMarks) -> Result<bool> {
        Ok(self.ledger("note", identity, "", numbers).await? == LedgerMatch::Same)
    }

    fn use_incarnation(&self, incarnation: &str) {
        let before = std::mem::replace(&mut *self.incarnation.write(), incarnation.into());
        if !before.is_empty()
            && *before != *incarnation
            && let Some(listener) = self.listener.get()
        {
            listener.resync();
        }
    }
}

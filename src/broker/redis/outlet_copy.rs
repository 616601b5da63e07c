//! The copy of the outlet: a Stream whose ids are those of the events, so that no event is in it twice.

use std::collections::HashMap;

use async_trait::async_trait;
use redis::Value;

use super::{RedisBroker, replies};
use crate::broker::{OutletRecord, OutletStream, Result};

/// The key of the Stream, without the prefix.
const KEY: &str = "outlet";

#[async_trait]
impl OutletStream for RedisBroker {
    async fn outlet_stream_end(&self) -> Result<Option<u64>> {
        let key = self.keys.single(KEY);
        if !replies::parse::<bool>(self.commands.send(redis::cmd("EXISTS").arg(&key)).await?)? {
            return Ok(None);
        }
        // Not the last entry: consumers may delete entries, and Redis refuses ids up to the last one that it gave.
        let info = self.commands.send(redis::cmd("XINFO").arg("STREAM").arg(&key)).await?;
        let mut info: HashMap<String, Value> = replies::parse(info)?;
        let id = info.remove("last-generated-id").ok_or_else(|| replies::strange("a stream without its last id"))?;
        let id: String = replies::parse(id)?;
        let number: Option<u64> = id.split('-').next().and_then(|id| id.parse().ok());
        let number = number.ok_or_else(|| replies::strange(format!("the id {id:?} in the outlet")))?;
        // `XGROUP CREATE … MKSTREAM` makes a Stream that never had an entry.
        Ok(Some(number).filter(|number| *number > 0))
    }

    async fn append_to_outlet_stream(&self, records: &[OutletRecord], length: u64) -> Result<()> {
        let end = self.outlet_stream_end().await?.unwrap_or(0);
        let mut pipe = redis::pipe();
        for record in records.iter().filter(|record| record.id > end) {
            let add = pipe.cmd("XADD").arg(self.keys.single(KEY)).arg("MAXLEN").arg("~").arg(length);
            add.arg(format!("{}-0", record.id)).arg("type").arg(&record.kind).arg("owner").arg(&record.owner);
            add.arg("event").arg(&record.event).ignore();
        }
        if pipe.is_empty() {
            return Ok(());
        }
        self.commands.send_pipeline::<()>(&pipe).await
    }

    async fn drop_outlet_stream(&self) -> Result<()> {
        self.commands.send(redis::cmd("DEL").arg(self.keys.single(KEY))).await.map(drop)
    }
}

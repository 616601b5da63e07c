//! Tallies in Redis.

use std::sync::Arc;

use async_trait::async_trait;

use super::command_connections::millis;
use super::scripts::SCRIPTS;
use super::{RedisBroker, replies};
use crate::broker::{Result, TALLY_TTL, TallyStore};
use crate::model::{ContentId, Tally};

#[async_trait]
impl TallyStore for RedisBroker {
    async fn set_tallies(&self, tallies: &[(ContentId, Tally)]) -> Result<Vec<bool>> {
        if tallies.is_empty() {
            return Ok(Vec::new());
        }
        // Versions of another incarnation of the ledger cannot be compared.
        let incarnation = Arc::clone(&self.incarnation.read());
        let mut call = SCRIPTS.tally.call(3 * tallies.len());
        for (object, _) in tallies {
            let tally = self.keys.tally(*object, &incarnation);
            // An object without a channel has no log: the key of its tally takes the place of the log's keys.
            let log = object
                .channel()
                .map_or_else(|| [tally.clone(), tally.clone()], |channel| self.keys.log(&channel.to_string()));
            call.arg(&log[..]).arg(&tally);
        }
        call.arg(millis(TALLY_TTL));
        for (_, tally) in tallies {
            call.arg(tally.likes).arg(tally.comments).arg(tally.version);
        }
        let logs: Vec<bool> = replies::parse(self.commands.send(&call).await?)?;
        Ok(logs.into_iter().zip(tallies).map(|(log, (object, _))| log && object.channel().is_some()).collect())
    }

    async fn tallies(&self, objects: &[ContentId]) -> Result<Vec<Option<Tally>>> {
        if objects.is_empty() {
            return Ok(Vec::new());
        }
        let incarnation = Arc::clone(&self.incarnation.read());
        let mut call = SCRIPTS.tallies.call(objects.len());
        objects.iter().for_each(|object| _ = call.arg(self.keys.tally(*object, &incarnation)));
        let found: Vec<(String, String, String)> = replies::parse(self.commands.send(&call).await?)?;
        let tally = |(likes, comments, version): (String, String, String)| {
            let number = |text: String| text.parse().ok();
            Some(Tally { likes: number(likes)?, comments: number(comments)?, version: number(version)? })
        };
        Ok(found.into_iter().map(tally).collect())
    }
}

//! Presence in Redis; the keys are described in `scripts/presence_prelude.lua`.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::command_connections::millis;
use super::scripts::{SCRIPTS, Script};
use super::{RedisBroker, replies};
use crate::broker::presence::EXPIRED_PER_CALL;
use crate::broker::{PresenceStats, PresenceStore, PresentClient, Result};

impl RedisBroker {
    /// A call of a script on a channel's presence. Further arguments follow.
    fn presence_call(&self, script: &Script, channel: &str) -> redis::Cmd {
        let mut call = script.call(3);
        call.arg(&self.keys.presence(channel)[..]).arg(EXPIRED_PER_CALL);
        call
    }
}

#[async_trait]
impl PresenceStore for RedisBroker {
    async fn present(&self, channel: &str, client: PresentClient<'_>, ttl: Duration) -> Result<()> {
        let mut call = self.presence_call(&SCRIPTS.present, channel);
        call.arg(client.client).arg(client.user).arg(&client.info[..]).arg(millis(ttl));
        self.commands.send(&call).await.map(drop)
    }

    async fn absent(&self, channel: &str, client: &str) -> Result<()> {
        let mut call = self.presence_call(&SCRIPTS.absent, channel);
        call.arg(client);
        self.commands.send(&call).await.map(drop)
    }

    async fn presence(&self, channel: &str, limit: usize) -> Result<Vec<(String, Bytes)>> {
        let mut call = self.presence_call(&SCRIPTS.presence, channel);
        call.arg(limit.min(1 << 30));
        let found: Vec<(String, Vec<u8>)> = replies::parse(self.commands.send(&call).await?)?;
        let info = |value: Vec<u8>| {
            let start = value.iter().position(|byte| *byte == b' ').map_or(0, |space| space + 1);
            Bytes::from(value).slice(start..)
        };
        Ok(found.into_iter().map(|(client, value)| (client, info(value))).collect())
    }

    async fn presence_stats(&self, channel: &str) -> Result<PresenceStats> {
        let call = self.presence_call(&SCRIPTS.presence_stats, channel);
        let (clients, users) = replies::parse(self.commands.send(&call).await?)?;
        Ok(PresenceStats { clients, users })
    }
}

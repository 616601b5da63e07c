//! Presence in memory.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;

use super::channel_presence::ChannelPresence;
use super::log::later;
use super::store::MemoryBroker;
use crate::broker::{PresenceStats, PresenceStore, PresentClient, Result};

#[async_trait]
impl PresenceStore for MemoryBroker {
    async fn present(&self, channel: &str, client: PresentClient<'_>, ttl: Duration) -> Result<()> {
        let found = self.find_or_create(channel);
        let now = Instant::now();
        let mut state = found.state.lock();
        let presence = state.presence_or_create();
        presence.remove_expired(now);
        presence.add(client, later(now, ttl));
        Ok(())
    }

    async fn absent(&self, channel: &str, client: &str) -> Result<()> {
        if let Some(found) = self.find(channel)
            && let Some(presence) = found.state.lock().presence(Instant::now())
        {
            presence.remove(client);
        }
        self.drop_if_idle(channel);
        Ok(())
    }

    async fn presence(&self, channel: &str, limit: usize) -> Result<Vec<(String, Bytes)>> {
        let Some(found) = self.find(channel) else { return Ok(Vec::new()) };
        let now = Instant::now();
        let mut state = found.state.lock();
        Ok(state.presence(now).map_or_else(Vec::new, |presence| presence.latest(now, limit)))
    }

    async fn presence_stats(&self, channel: &str) -> Result<PresenceStats> {
        let Some(found) = self.find(channel) else { return Ok(PresenceStats::default()) };
        let mut state = found.state.lock();
        let stats = |presence: &mut ChannelPresence| PresenceStats {
            clients: presence.clients.len() as u64,
            users: presence.users.len() as u64,
        };
        Ok(state.presence(Instant::now()).map_or_else(PresenceStats::default, stats))
    }
}

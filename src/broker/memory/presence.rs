//! Presence in memory.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;

use super::MemoryBroker;
use super::log::later;
use crate::broker::presence::EXPIRED_PER_CALL;
use crate::broker::{Presence, PresenceStats, PresentClient, Result};

/// The clients in one channel.
#[derive(Default)]
pub(super) struct ChannelPresence {
    clients: HashMap<Arc<str>, Entry>,
    /// The number of clients of each user.
    users: HashMap<Box<str>, u64>,
    /// The same clients by when their entries expire.
    expiries: BTreeSet<(Instant, Arc<str>)>,
}

struct Entry {
    user: Box<str>,
    info: Bytes,
    until: Instant,
}

impl ChannelPresence {
    /// Adds a client, or renews its entry.
    fn add(&mut self, client: PresentClient<'_>, until: Instant) {
        self.remove(client.client);
        let name: Arc<str> = client.client.into();
        self.expiries.insert((until, Arc::clone(&name)));
        *self.users.entry(client.user.into()).or_default() += 1;
        self.clients.insert(name, Entry { user: client.user.into(), info: client.info.clone(), until });
    }

    fn remove(&mut self, client: &str) {
        let Some((name, entry)) = self.clients.remove_entry(client) else { return };
        self.expiries.remove(&(entry.until, name));
        if let Some(count) = self.users.get_mut(&entry.user) {
            *count -= 1;
            if *count == 0 {
                self.users.remove(&entry.user);
            }
        }
    }

    /// Removes some of the entries that have expired.
    pub(super) fn remove_expired(&mut self, now: Instant) {
        for _ in 0..EXPIRED_PER_CALL {
            let Some((_, client)) = self.expiries.first().filter(|(until, _)| *until <= now) else { return };
            let client = Arc::clone(client);
            self.remove(&client);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Those that expire last.
    fn latest(&self, now: Instant, limit: usize) -> Vec<(String, Bytes)> {
        let valid = self.expiries.iter().rev().take(limit).take_while(|(until, _)| *until > now);
        valid.filter_map(|(_, name)| Some((name.to_string(), self.clients.get(name)?.info.clone()))).collect()
    }
}

#[async_trait]
impl Presence for MemoryBroker {
    async fn present(&self, channel: &str, client: PresentClient<'_>, ttl: Duration) -> Result<()> {
        let found = self.find_or_make(channel);
        let now = Instant::now();
        let mut state = found.state.lock();
        let presence = state.make_presence();
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

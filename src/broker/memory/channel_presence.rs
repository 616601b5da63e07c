//! The clients in one channel.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::broker::PresentClient;
use crate::broker::presence::EXPIRED_PER_CALL;

/// The clients in one channel.
#[derive(Default)]
pub(super) struct ChannelPresence {
    pub(super) clients: HashMap<Arc<str>, ClientEntry>,
    /// The number of clients of each user.
    pub(super) users: HashMap<Box<str>, u64>,
    /// The same clients by the expiry of their entries.
    expiries: BTreeSet<(Instant, Arc<str>)>,
}

/// A client's entry.
pub(super) struct ClientEntry {
    user: Box<str>,
    info: Bytes,
    until: Instant,
}

impl ChannelPresence {
    /// Adds a client, or renews its entry.
    pub(super) fn add(&mut self, client: PresentClient<'_>, until: Instant) {
        self.remove(client.client);
        let name: Arc<str> = client.client.into();
        self.expiries.insert((until, Arc::clone(&name)));
        *self.users.entry(client.user.into()).or_default() += 1;
        self.clients.insert(name, ClientEntry { user: client.user.into(), info: client.info.clone(), until });
    }

    pub(super) fn remove(&mut self, client: &str) {
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

    /// The clients whose entries expire last.
    pub(super) fn latest(&self, now: Instant, limit: usize) -> Vec<(String, Bytes)> {
        let valid = self.expiries.iter().rev().take(limit).take_while(|(until, _)| *until > now);
        valid.filter_map(|(_, name)| Some((name.to_string(), self.clients.get(name)?.info.clone()))).collect()
    }
}

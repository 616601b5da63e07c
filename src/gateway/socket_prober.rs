//! Pings the sockets of users, to find out whether their clients are there: see
//! [`SocketProbe`](crate::feed::SocketProbe).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::outbox::Outgoing;
use super::probe::Probe;
use super::sockets::UserSockets;
use crate::feed::SocketProbe;
use crate::model::UserId;

/// Pings the sockets of this node.
pub(super) struct SocketProber {
    pub(super) sockets: Arc<UserSockets>,
}

#[async_trait]
impl SocketProbe for SocketProber {
    async fn answering(&self, users: &[UserId], within: Duration) -> Vec<UserId> {
        let asked: Vec<_> = users
            .iter()
            .flat_map(|user| self.sockets.outboxes(user).into_iter().map(|it| (user.clone(), it)))
            .collect();
        if asked.is_empty() {
            return Vec::new();
        }
        let connected: HashSet<UserId> = asked.iter().map(|(user, _)| user.clone()).collect();
        let (sender, mut answers) = mpsc::channel(asked.len());
        for (user, outbox) in asked {
            outbox.push(Outgoing::Probe(Probe::new(user, sender.clone())));
        }
        drop(sender);
        let (ends, mut found) = (Instant::now() + within, HashSet::new());
        // The channel closes when the last connection that was asked ends.
        while found.len() < connected.len()
            && let Ok(Some(user)) = timeout_at(ends, answers.recv()).await
        {
            found.insert(user);
        }
        found.into_iter().collect()
    }
}

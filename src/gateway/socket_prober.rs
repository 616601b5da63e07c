//! Pings the sockets of users, to find out whether their clients are there: see
//! [`SocketProbe`](crate::feed::SocketProbe).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::hub::rooms::RoomTable;
use super::outgoing::Outgoing;
use super::probe::Probe;
use crate::feed::SocketProbe;
use crate::model::{ChannelKind, PostId, UserId};

/// Pings the sockets of this node.
pub(super) struct SocketProber {
    pub(super) rooms: Arc<RoomTable>,
}

#[async_trait]
impl SocketProbe for SocketProber {
    async fn readers(&self, posts: &[(UserId, PostId)], within: Duration) -> Vec<(UserId, PostId)> {
        let mut asked = Vec::new();
        for (user, post) in posts {
            let timeline = [ChannelKind::Timeline.prefix(), user.as_str()].concat();
            let outboxes = self.rooms.members_before(&timeline, post.time());
            asked.extend(outboxes.into_iter().map(|outbox| ((user.clone(), *post), outbox)));
        }
        if asked.is_empty() {
            return Vec::new();
        }
        let delivered: HashSet<(UserId, PostId)> = asked.iter().map(|(post, _)| post.clone()).collect();
        let (sender, mut answers) = mpsc::channel(asked.len());
        for (post, outbox) in asked {
            outbox.push(Outgoing::Probe(Probe::about(post, sender.clone())));
        }
        drop(sender);
        let (ends, mut found) = (Instant::now() + within, HashSet::new());
        // The channel closes when the last connection that was asked ends.
        while found.len() < delivered.len()
            && let Ok(Some(post)) = timeout_at(ends, answers.recv()).await
        {
            found.insert(post);
        }
        found.into_iter().collect()
    }
}

//! Pings the sockets of users, to find out whether their clients are there: see
//! [`SocketProbe`](crate::feed::SocketProbe).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::feed::SocketProbe;
use crate::gateway::hub::rooms::RoomTable;
use crate::gateway::wire::outgoing::Outgoing;
use crate::gateway::wire::probe::Probe;
use crate::model::{ChannelKind, PostId, UserId};

/// Pings the sockets of this node.
pub(crate) struct SocketProber {
    pub(crate) rooms: Arc<RoomTable>,
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
        let ends = Instant::now() + within;
        let mut found = HashSet::new();
        // The channel closes when the last connection that was asked ends.
        while found.len() < delivered.len()
            && let Ok(Some(post)) = timeout_at(ends, answers.recv()).await
        {
            found.insert(post);
        }
        found.into_iter().collect()
    }
}

//! Ends subscriptions to posts and profiles that their users cannot see any more: after a block, a hide or an unfollow,
//! and after the author was suspended or locked the account.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::connections::ConnectionRegistry;
use super::sockets::UserSockets;
use crate::feed::{AccessChecks, PostCache};
use crate::gateway::hub::rooms::RoomTable;
use crate::gateway::wire::outbox::Outbox;
use crate::gateway::wire::outgoing::Outgoing;
use crate::model::{Channel, UserId};
use crate::supervisor::OnPanic;

/// The pause between two rounds. Changes of the same users meanwhile are one check.
const ROUND_INTERVAL: Duration = Duration::from_millis(50);

/// The connections that start their checks together when all are checked. Between two parts is a pause, because a check
/// may read the ledger.
const MAX_CONCURRENT_CHECKS: usize = 200;

/// Asks connections to check what they are subscribed to.
pub(crate) struct AccessWatcher {
    pub(crate) checks: Arc<AccessChecks>,
    pub(crate) sockets: Arc<UserSockets>,
    pub(crate) connections: Arc<ConnectionRegistry>,
    pub(crate) rooms: Arc<RoomTable>,
    pub(crate) posts: Arc<PostCache>,
}

impl AccessWatcher {
    /// Passes checks to connections, until dropped.
    pub(crate) async fn run(&self) {
        loop {
            let pending = self.checks.next().await;
            let _again = OnPanic(|| self.checks.check_all());
            let outboxes: Vec<Arc<Outbox>> = if pending.all {
                self.connections.all()
            } else {
                let of_users = pending.users.iter().flat_map(|user| self.sockets.outboxes(user));
                of_users.chain(self.subscribers_of(&pending.authors)).collect()
            };
            for part in outboxes.chunks(MAX_CONCURRENT_CHECKS) {
                for outbox in part {
                    outbox.push(Outgoing::CheckAccess);
                }
                tokio::time::sleep(ROUND_INTERVAL).await;
            }
            if outboxes.is_empty() {
                // The search for subscribers costs as much without a result.
                tokio::time::sleep(ROUND_INTERVAL).await;
            }
        }
    }

    /// The subscribers of the profiles of these authors, of their posts, and of posts whose author is not known here.
    fn subscribers_of(&self, authors: &HashSet<UserId>) -> Vec<Arc<Outbox>> {
        if authors.is_empty() {
            return Vec::new();
        }
        let shows = |channel: &str| match Channel::parse(channel) {
            Some(Channel::User(author)) => authors.contains(&author),
            Some(Channel::Post(post)) => {
                self.posts.peek(post).is_none_or(|post| post.is_some_and(|it| authors.contains(&it.post.author)))
            }
            _ => false,
        };
        self.rooms.members_of(shows)
    }
}

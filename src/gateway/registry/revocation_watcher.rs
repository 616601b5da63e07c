//! Closes the connections whose tokens end early, and those of blocked, suspended and erased users.

use std::sync::Arc;
use std::time::Duration;

use super::sockets::UserSockets;
use crate::auth::Revoked;
use crate::feed::{AuthorizationChecks, IdentityService};
use crate::gateway::wire::outgoing::Outgoing;
use crate::supervisor::OnPanic;

/// How long after its token a connection ends, so that the reply to the operation that ended it is sent first.
const REPLY_FIRST: Duration = Duration::from_millis(50);

/// Checks connections that a revocation or an erasure concerns.
pub(crate) struct RevocationWatcher {
    pub(crate) checks: Arc<AuthorizationChecks>,
    pub(crate) identity: Arc<IdentityService>,
    pub(crate) sockets: Arc<UserSockets>,
}

impl RevocationWatcher {
    /// Closes connections, and ends subscriptions whose tokens end, until dropped.
    pub(crate) async fn run(&self) {
        loop {
            let pending = self.checks.next().await;
            let _again = OnPanic(|| self.checks.check_all());
            let refused = self.sockets.refused(&pending, |user, token| match user {
                Some(user) if self.identity.refuse_erased(user).is_err() => Err(Revoked::Token),
                Some(user) if self.identity.is_suspended(user) => Err(Revoked::User),
                user => self.identity.check_revoked(user, token),
            });
            for (outbox, channel) in refused.subscriptions {
                outbox.push(Outgoing::Revoked(channel));
            }
            if refused.sockets.is_empty() {
                continue;
            }
            tokio::time::sleep(REPLY_FIRST).await;
            for (outbox, reason) in refused.sockets {
                outbox.close(reason);
            }
        }
    }
}

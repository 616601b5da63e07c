//! The notifications of the demonstration, at the times of their causes.
//!
//! The server would write them when it starts, all at that moment. So they are written here, and the events from which
//! the server would make them are taken out of its queue.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::try_join_all;

use crate::ledger::{EventConsumer, Ledger, LedgerError, MarkUpTo, NotificationEvent, NotificationMark};
use crate::model::{Millis, NotificationKind, UserId};

/// Events of one group are not farther apart, as in the server.
const GROUP_WINDOW: Duration = Duration::from_secs(24 * 3600);
/// Older notifications are read.
const UNREAD: Duration = Duration::from_secs(6 * 3600);
/// Events that are taken out of the queue in one call.
const BATCH: usize = 500;

/// The notifications of all users.
#[derive(Default)]
pub(super) struct Notices {
    /// By their times, which are unique.
    by_user: BTreeMap<UserId, BTreeMap<Millis, (NotificationKind, UserId)>>,
}

impl Notices {
    /// Adds a notification of `to` about what `by` did. Nobody is notified of their own actions.
    pub(super) fn add(&mut self, to: &UserId, at: Millis, kind: NotificationKind, by: &UserId) {
        if to != by {
            self.by_user.entry(to.clone()).or_default().insert(at, (kind, by.clone()));
        }
    }

    /// Writes all notifications: those of one user in order, several users concurrently.
    pub(super) async fn write(self, ledger: &dyn Ledger, now: Millis) -> Result<(), LedgerError> {
        let unread_since = now.saturating_sub(millis(UNREAD));
        try_join_all(self.by_user.iter().map(|(user, notices)| async move {
            let mut is_read = false;
            for (at, (kind, by)) in notices {
                if !is_read && *at > unread_since {
                    ledger.mark_notifications(user, MarkUpTo::Everything, NotificationMark::Read, None).await?;
                    is_read = true;
                }
                let event = NotificationEvent::new(*kind, by);
                ledger.notify(user, &[event], *at, millis(GROUP_WINDOW)).await?;
            }
            if !is_read {
                ledger.mark_notifications(user, MarkUpTo::Everything, NotificationMark::Read, None).await?;
            }
            Ok::<(), LedgerError>(())
        }))
        .await?;
        loop {
            let pending = ledger.pending_events(EventConsumer::Notifications, BATCH).await?;
            if pending.is_empty() {
                return Ok(());
            }
            let done: Vec<i64> = pending.iter().map(|event| event.seq).collect();
            ledger.finish_events(EventConsumer::Notifications, &done).await?;
        }
    }
}

fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

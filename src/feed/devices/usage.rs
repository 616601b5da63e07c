//! Which devices are in use: apps register them, and their users connect. Those that neither happens to end
//! (`push.device_idle`).
//!
//! Nothing is written when a client connects. Each node looks at its connections at an interval, and writes the users
//! whose devices were not marked for a quarter of the time that they are kept.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::feed::base::Base;
use crate::feed::error::Result;
use crate::feed::runtime::now;
use crate::model::{Millis, UserId};

/// The longest time between two looks.
const MAX_INTERVAL: Duration = Duration::from_secs(3_600);

/// The users who may have left between two looks. Others are not noticed, unless they come again.
const MAX_LEFT: usize = 100_000;

/// The users of one write, the devices of one removal, and the pause after each.
const BATCH: usize = 500;
const PAUSE: Duration = Duration::from_millis(20);

/// The users who have connections to this node.
pub trait ConnectedUsers: Send + Sync {
    /// Those who have one now.
    fn connected_users(&self) -> Vec<UserId>;
}

/// Marks the devices of connected users, and removes idle ones.
pub(crate) struct DeviceUsage {
    base: Arc<Base>,
    local: OnceLock<Weak<dyn ConnectedUsers>>,
    /// Users whose last connection ended since the last look.
    left: Mutex<HashSet<UserId>>,
}

impl DeviceUsage {
    /// The devices in this ledger.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base, local: OnceLock::new(), left: Mutex::default() }
    }

    /// Sets the connections of this node, once.
    pub(crate) fn set_local(&self, users: Weak<dyn ConnectedUsers>) {
        let _ = self.local.set(users);
    }

    /// The last connection of a user to this node has ended.
    pub(crate) fn on_left(&self, user: &UserId) {
        let mut left = self.left.lock();
        if self.base.options.pushes.device_idle.is_some() && left.len() < MAX_LEFT {
            left.insert(user.clone());
        }
    }

    /// Works until the process stops.
    pub(crate) fn start(self: &Arc<Self>) {
        let Some(idle) = self.base.options.pushes.device_idle else { return };
        let interval = MAX_INTERVAL.min(idle / 4);
        self.base.runtime.supervise("device_usage", self, move |usage| async move {
            while usage.base.runtime.sleep(interval.mul_f64(rand::random_range(0.9..1.1))).await {
                if let Err(error) = usage.look(idle, interval).await {
                    tracing::debug!(%error, "idle devices are kept for now");
                }
            }
        });
    }

    async fn look(&self, idle: Duration, interval: Duration) -> Result<()> {
        let local = self.local.get().and_then(Weak::upgrade);
        let mut users: Vec<UserId> = local.map(|local| local.connected_users()).unwrap_or_default();
        users.extend(std::mem::take(&mut *self.left.lock()));
        let since = now().saturating_sub(millis(idle / 4));
        for batch in users.chunks(BATCH) {
            self.base.ledger.touch_devices(batch, now(), since).await?;
            if !self.base.runtime.sleep(PAUSE).await {
                return Ok(());
            }
        }
        // Other nodes may have marked some a moment later.
        let before = now().saturating_sub(millis(idle + interval * 2));
        while self.base.ledger.forget_idle_devices(before, BATCH).await? == BATCH
            && self.base.runtime.sleep(PAUSE).await
        {}
        Ok(())
    }
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

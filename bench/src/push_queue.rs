//! Users with a device each, and notifications that are queued as pushes to these devices.
//!
//! The bench writes them into the ledger of the server, in its own process.

use anyhow::{Context as _, Result};
use feedline::feed::now;
use feedline::ledger::{BulkLoad, DeviceRegistration, DeviceSession, NotificationEvent, PushPlan, UserNotifications};
use feedline::model::{Device, DeviceId, Millis, NotificationKind, PushTarget, UserId};
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::seed::{self, AUTHOR};
use super::stores::Stores;

/// The maximum number of notifications that are written in one call, and of concurrent calls that register devices.
const BATCH: usize = 500;
const MAX_CONCURRENT_CALLS: usize = 64;

/// The users with a device, and the number of their notifications.
pub(super) struct PushQueue {
    /// `ledger.url` of the server.
    url: String,
    users: Vec<UserId>,
    author: UserId,
    /// The number of notifications so far.
    queued: usize,
}

impl PushQueue {
    /// A queue in the ledger of a server, for a number of users.
    pub(super) fn new(stores: &Stores, users: usize) -> Result<Self> {
        let users = seed::ids(seed::user, users)?;
        Ok(Self { url: stores.ledger.clone(), users, author: seed::id(AUTHOR)?, queued: 0 })
    }

    /// Opens the ledger.
    pub(super) async fn open(&self) -> Result<Box<dyn BulkLoad>> {
        seed::open_ledger(&self.url).await
    }

    /// Gives each user a device, and a notification that is due at once. The server does not run yet.
    pub(super) async fn fill(&mut self) -> Result<()> {
        let ledger = self.open().await?;
        let now = now();
        ledger.load_users(&self.users, now).await?;
        ledger.load_users(std::slice::from_ref(&self.author), now).await?;
        let id = DeviceId::parse("phone").context("a device id")?;
        let register = async |user: &UserId| {
            let registration = registration(&id, user, now);
            ledger.register_device(user, &registration, 1).await.map(drop)
        };
        stream::iter(&self.users).map(register).buffer_unordered(MAX_CONCURRENT_CALLS).try_collect::<()>().await?;
        self.add(&*ledger, self.users.len()).await?;
        ledger.close().await;
        Ok(())
    }

    /// Notifies users in turn. The pushes are due at once.
    pub(super) async fn add(&mut self, ledger: &dyn BulkLoad, number: usize) -> Result<()> {
        let plan = PushPlan { grace: 0, digest: 0 };
        let end = self.queued + number;
        while self.queued < end {
            // A user is notified once in a batch: two notifications of one moment would be one group.
            let batch = self.queued..end.min(self.queued + BATCH.min(self.users.len()));
            self.queued = batch.end;
            let batch: Vec<UserNotifications> = batch.map(|n| self.notification(n)).collect();
            ledger.notify_many(&batch, now(), 0, Some(plan)).await?;
        }
        Ok(())
    }

    fn notification(&self, n: usize) -> UserNotifications {
        let event = NotificationEvent::new(NotificationKind::Follow, &self.author);
        UserNotifications { to: self.users[n % self.users.len()].clone(), events: vec![event] }
    }
}

fn registration(id: &DeviceId, user: &UserId, now: Millis) -> DeviceRegistration {
    let device = Device {
        id: id.clone(),
        target: PushTarget::Fcm { token: format!("token-of-{user}") },
        locale: None,
        time_zone: None,
        app_version: None,
        registered_at: now - 1,
        seen_at: now - 1,
    };
    DeviceRegistration { device, session: DeviceSession::default() }
}

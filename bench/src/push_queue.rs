//! Users with a device each, and notifications that are queued as pushes to these devices.
//!
//! The bench writes them into the ledger of the server, in its own process.

use std::time::Duration;

use anyhow::{Context as _, Result};
use feedline::feed::now;
use feedline::ledger::{BulkLoad, DeviceRegistration, DeviceSession, NotificationEvent, PushPlan, UserNotifications};
use feedline::model::{Device, DeviceId, Millis, NotificationKind, PushTarget, UserId};
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::ledger;
use super::seed::{self, AUTHOR};
use super::server::ServerSetup;

/// The maximum number of notifications that are written in one call, and of concurrent calls that register devices.
const BATCH: usize = 500;
const MAX_CONCURRENT_CALLS: usize = 64;

/// The users with a device, and the number of their notifications.
pub(super) struct PushQueue {
    /// `ledger.url` of the server.
    url: String,
    users: usize,
    author: UserId,
    /// The number of notifications so far. Each has an id of its own.
    queued: usize,
}

impl PushQueue {
    /// A queue in the ledger of this server, for a number of users.
    pub(super) fn new(setup: &ServerSetup, users: usize) -> Result<Self> {
        let author = UserId::parse(AUTHOR).context("the author's name is no id")?;
        Ok(Self { url: setup.ledger.clone(), users, author, queued: 0 })
    }

    /// Opens the ledger.
    pub(super) async fn open(&self) -> Result<Box<dyn BulkLoad>> {
        ledger::open(&self.url).await
    }

    /// Gives each user a device, and a notification that is due at once. The server does not run yet.
    pub(super) async fn fill(&mut self) -> Result<()> {
        let ledger = self.open().await?;
        let now = now();
        let mut people: Vec<UserId> = (0..self.users).filter_map(|n| UserId::parse(&seed::user(n))).collect();
        people.push(self.author.clone());
        ledger.load_users(&people, now).await?;
        people.pop();
        let id = DeviceId::parse("phone").context("a device id")?;
        let register = |user: UserId| {
            let ledger = &ledger;
            let registration = registration(&id, &user, now);
            async move { ledger.register_device(&user, &registration, 1).await.map(drop) }
        };
        stream::iter(people).map(register).buffer_unordered(MAX_CONCURRENT_CALLS).try_collect::<()>().await?;
        self.add(&*ledger, self.users, Duration::ZERO).await?;
        ledger.close().await;
        Ok(())
    }

    /// Notifies users in turn. The pushes are due after `delay`.
    pub(super) async fn add(&mut self, ledger: &dyn BulkLoad, number: usize, delay: Duration) -> Result<()> {
        let plan = PushPlan { grace: Millis::try_from(delay.as_millis())?, digest: 0 };
        let end = self.queued + number;
        while self.queued < end {
            // A user is notified once in a batch: two notifications of one moment would be one group.
            let batch = self.queued..end.min(self.queued + BATCH.min(self.users));
            let number = batch.len();
            let batch: Vec<UserNotifications> = batch.filter_map(|n| self.notification(n)).collect();
            ledger.notify_many(&batch, now(), 0, Some(plan)).await?;
            self.queued += number;
        }
        Ok(())
    }

    fn notification(&self, n: usize) -> Option<UserNotifications> {
        let event = NotificationEvent::new(NotificationKind::Follow, &self.author);
        Some(UserNotifications { to: UserId::parse(&seed::user(n % self.users))?, events: vec![event] })
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

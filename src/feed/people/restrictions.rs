//! Restrictions: hide, mute and block, and their effect on timelines.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::feed::base::Base;
use crate::feed::call::Caller;
use crate::feed::error::{FeedError, NO_USER, Result};
use crate::feed::input::{Done, OneUser, OwnList, UserPage};
use crate::feed::paging::{PageBuilder, TimedUser};
use crate::feed::runtime::now;
use crate::feed::timelines::{EdgeChange, EdgeJobs};
use crate::ledger::EventConsumer;
use crate::model::{Millis, Restriction, UserId};

/// The last user of a page of restricted users.
type AfterRestriction = TimedUser<'r'>;

/// A mute.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mute {
    /// The user's id.
    id: UserId,
    /// When it ends by itself, in Unix milliseconds; absent: it does not.
    #[serde(default)]
    until: Option<Millis>,
}

/// How often mutes that are over are looked for, and how many are ended by one look.
const DUE_INTERVAL: Duration = Duration::from_secs(2);
const DUE_BATCH: usize = 100;

/// Manages restrictions between users.
pub(crate) struct Restrictions {
    base: Arc<Base>,
    edges: Arc<EdgeJobs>,
}

impl Restrictions {
    /// Manages the restrictions in this ledger. `edges` changes the timelines.
    pub(crate) fn new(base: Arc<Base>, edges: Arc<EdgeJobs>) -> Self {
        Self { base, edges }
    }

    /// Ends mutes at their time until the process stops. The owner of `events/notifications` does it.
    pub(crate) fn start(self: &Arc<Self>) {
        self.base.runtime.supervise("mute_ends", self, |restrictions| async move {
            while restrictions.base.runtime.sleep(DUE_INTERVAL.mul_f64(rand::random_range(0.8..1.2))).await {
                if let Err(error) = restrictions.end_due_mutes().await {
                    tracing::debug!(%error, "mutes that are over stay for now");
                }
            }
        });
    }

    async fn end_due_mutes(&self) -> Result<()> {
        if !self.base.events.is_owner(EventConsumer::Notifications) {
            return Ok(());
        }
        for (maker, target) in self.base.ledger.due_mutes(now(), DUE_BATCH).await? {
            let jobs = self.base.ledger.end_due_mute(&maker, &target, now()).await?;
            self.edges.apply(&maker, &target, EdgeChange::Opens, jobs.unwrap_or_default()).await?;
        }
        Ok(())
    }

    pub(crate) async fn hide(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.restrict(caller.user()?, Restriction::Hide, &user.id, None).await
    }

    pub(crate) async fn unhide(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.lift(caller.user()?, Restriction::Hide, &user.id).await
    }

    /// A repeat replaces the end.
    pub(crate) async fn mute(&self, caller: Caller, mute: Mute) -> Result<Done> {
        let maker = caller.user()?;
        if mute.until.is_some_and(|until| until <= now() || i64::try_from(until).is_err()) {
            return Err(FeedError::invalid("until", "until is a time in the future, in Unix milliseconds"));
        }
        self.restrict(maker, Restriction::Mute, &mute.id, mute.until).await
    }

    pub(crate) async fn unmute(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.lift(caller.user()?, Restriction::Mute, &user.id).await
    }

    pub(crate) async fn block(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.restrict(caller.user()?, Restriction::Block, &user.id, None).await
    }

    pub(crate) async fn unblock(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.lift(caller.user()?, Restriction::Block, &user.id).await
    }

    pub(crate) async fn reposts_off(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.restrict(caller.user()?, Restriction::Reposts, &user.id, None).await
    }

    pub(crate) async fn reposts_on(&self, caller: Caller, user: OneUser) -> Result<Done> {
        self.lift(caller.user()?, Restriction::Reposts, &user.id).await
    }

    pub(crate) async fn hidden(&self, caller: Caller, list: OwnList) -> Result<UserPage> {
        self.list(caller.user()?, Restriction::Hide, &list).await
    }

    pub(crate) async fn muted(&self, caller: Caller, list: OwnList) -> Result<UserPage> {
        self.list(caller.user()?, Restriction::Mute, &list).await
    }

    pub(crate) async fn blocked(&self, caller: Caller, list: OwnList) -> Result<UserPage> {
        self.list(caller.user()?, Restriction::Block, &list).await
    }

    async fn list(&self, maker: &UserId, restriction: Restriction, list: &OwnList) -> Result<UserPage> {
        let (limit, cursor) = list.page.decode::<AfterRestriction>()?;
        let mut page = PageBuilder::new(cursor, limit);
        while let Some((after, count)) = page.wants() {
            let after = after.as_ref().map(|after| (after.at, &after.user));
            let listed = self.base.ledger.restricted(restriction, maker, after, count).await?;
            let (keys, users): (Vec<_>, Vec<_>) = listed
                .into_iter()
                .map(|listed| (AfterRestriction { at: listed.at, user: listed.user.id.clone() }, listed.user))
                .unzip();
            let shown = self.base.visibility.restricted_users(maker, users).await?;
            page.take_visible(keys, shown, |user, key| user.id == key.user);
        }
        Ok(page.finish().into())
    }

    /// `until`: when a mute ends by itself.
    async fn restrict(
        &self,
        user: &UserId,
        restriction: Restriction,
        other: &UserId,
        until: Option<Millis>,
    ) -> Result<Done> {
        if user == other {
            return Err(FeedError::invalid("id", "nobody does that to themselves"));
        }
        if self.base.ledger.users(std::slice::from_ref(other)).await?.is_empty() {
            return Err(NO_USER);
        }
        let ledger = &self.base.ledger;
        let jobs = match restriction {
            Restriction::Mute => ledger.mute(user, other, now(), until).await?,
            Restriction::Hide | Restriction::Block | Restriction::Reposts | Restriction::Listed => {
                ledger.restrict(restriction, user, other, now()).await?
            }
        };
        self.edges.apply(user, other, EdgeChange::Closes, jobs.unwrap_or_default()).await?;
        self.base.events.wake(EventConsumer::Notifications);
        Ok(Done {})
    }

    async fn lift(&self, user: &UserId, restriction: Restriction, other: &UserId) -> Result<Done> {
        let jobs = self.base.ledger.unrestrict(restriction, user, other, now()).await?;
        self.edges.apply(user, other, EdgeChange::Opens, jobs.unwrap_or_default()).await?;
        Ok(Done {})
    }
}

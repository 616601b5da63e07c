//! Suspensions: the standing of users.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::checked_reason;
use crate::broker::Invalidation;
use crate::feed::base::Base;
use crate::feed::call::Caller;
use crate::feed::error::{FeedError, NO_USER, Result};
use crate::feed::input::{Done, OneUser};
use crate::feed::runtime::now;
use crate::ledger::{EventConsumer, StandingChange, StandingOutcome};
use crate::model::{Millis, Standing, UserId};

/// How far a user is limited.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SuspensionLevel {
    /// Only followers see the user's posts, and readers that request them by id.
    Limited,
    /// Nobody sees anything of the user. The user has no connections and cannot write.
    Suspended,
}

/// A suspension.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Suspension {
    /// The user's id.
    id: UserId,
    /// How far the user is limited.
    level: SuspensionLevel,
    /// The reason, for moderators, 500 characters at most.
    #[serde(default)]
    reason: Option<String>,
    /// When it ends by itself, in Unix milliseconds; absent: it does not.
    #[serde(default)]
    until: Option<Millis>,
}

/// Changes the standing of users.
pub(crate) struct Suspensions {
    base: Arc<Base>,
}

impl Suspensions {
    /// Manages the standings in this ledger.
    pub(crate) fn new(base: Arc<Base>) -> Self {
        Self { base }
    }

    pub(crate) async fn suspend(&self, _: Caller, suspension: Suspension) -> Result<Done> {
        let standing = match suspension.level {
            SuspensionLevel::Limited => Standing::Limited,
            SuspensionLevel::Suspended => Standing::Suspended,
        };
        let at = now();
        if suspension.until.is_some_and(|until| until <= at || i64::try_from(until).is_err()) {
            return Err(FeedError::invalid("until", "until is a time in the future, in Unix milliseconds"));
        }
        let reason = checked_reason(suspension.reason)?;
        self.set(StandingChange { user: suspension.id, standing, reason, until: suspension.until, at }).await
    }

    pub(crate) async fn unsuspend(&self, _: Caller, user: OneUser) -> Result<Done> {
        let standing = Standing::Active;
        self.set(StandingChange { user: user.id, standing, reason: None, until: None, at: now() }).await
    }

    /// Changes a standing, and waits until it is in force on every node.
    async fn set(&self, change: StandingChange) -> Result<Done> {
        let turn = self.base.jobs.begin_write(&change.user).await;
        let outcome = self.base.ledger.set_standing(&change).await?;
        if outcome == StandingOutcome::NoUser {
            return Err(NO_USER);
        }
        // An earlier attempt may have been stored, and not announced.
        let invalidated = self.base.invalidator.announce(&[Invalidation::Standing(change.user)]).await;
        if let StandingOutcome::Changed(job) = outcome {
            self.base.jobs.submit(job, turn);
            self.base.events.wake(EventConsumer::Outlet);
        }
        self.base.relations.catch_up_standings().await?;
        self.base.invalidator.confirm(invalidated?).await;
        Ok(Done {})
    }
}

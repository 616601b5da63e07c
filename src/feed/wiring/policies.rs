//! The policies that decide which items are set aside, one for each kind of work.

use std::sync::Arc;

use crate::feed::base::Base;
use crate::feed::work::{QuarantinePolicy, WorkKinds};

/// The policies of this process. A kind has its own, because only items of the same kind show that others succeed.
pub(super) struct Policies {
    pub(super) jobs: Arc<QuarantinePolicy>,
    pub(super) pull_log: Arc<QuarantinePolicy>,
    pub(super) likes: Arc<QuarantinePolicy>,
    pub(super) reverts: Arc<QuarantinePolicy>,
    pub(super) outlet: Arc<QuarantinePolicy>,
    pub(super) webhooks: Arc<QuarantinePolicy>,
    pub(super) stream: Arc<QuarantinePolicy>,
    pub(super) erasures: Arc<QuarantinePolicy>,
    pub(super) notifications: Arc<QuarantinePolicy>,
    pub(super) like_notifications: Arc<QuarantinePolicy>,
}

impl Policies {
    pub(super) fn new(base: &Base) -> Self {
        let policy = || Arc::new(QuarantinePolicy::new(base.ledger.clone(), base.broker.clone()));
        Self {
            jobs: policy(),
            pull_log: policy(),
            likes: policy(),
            reverts: policy(),
            outlet: policy(),
            webhooks: policy(),
            stream: policy(),
            erasures: policy(),
            notifications: policy(),
            like_notifications: policy(),
        }
    }

    /// The policies, by kind of work.
    pub(super) fn kinds(&self) -> WorkKinds {
        vec![
            ("jobs", self.jobs.clone()),
            ("pull_log", self.pull_log.clone()),
            ("likes", self.likes.clone()),
            ("reverts", self.reverts.clone()),
            ("notifications", self.notifications.clone()),
            ("like_notifications", self.like_notifications.clone()),
            ("outlet", self.outlet.clone()),
            ("webhooks", self.webhooks.clone()),
            ("stream", self.stream.clone()),
            ("erasures", self.erasures.clone()),
        ]
    }
}

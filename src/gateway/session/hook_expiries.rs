//! When the application's backend is asked whether a connection or subscription that it granted goes on.

use std::sync::Arc;

use super::time::SessionTime;

/// What expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpiryTarget {
    /// The connection.
    Connection,
    /// The subscription to a channel.
    Subscription(Arc<str>),
}

/// One expiry.
#[derive(Debug)]
struct HookExpiry {
    target: ExpiryTarget,
    /// In Unix seconds; `None`: the backend is being asked, or the connection never expires.
    at: Option<u64>,
}

/// The expiries that the backend decides on: few, and in most sessions none.
#[derive(Debug, Default)]
pub(super) struct HookExpiries {
    expiries: Vec<HookExpiry>,
}

/// Sets when something expires; `None`: never.
pub(super) fn set(expiries: &mut Option<Box<HookExpiries>>, target: &ExpiryTarget, at: Option<u64>) {
    // Of a subscription that never expires, nothing is asked.
    if at.is_none()
        && let ExpiryTarget::Subscription(channel) = target
    {
        return remove(expiries, channel);
    }
    let expiries = &mut expiries.get_or_insert_default().expiries;
    match expiries.iter_mut().find(|expiry| expiry.target == *target) {
        Some(expiry) => expiry.at = at,
        None => expiries.push(HookExpiry { target: target.clone(), at }),
    }
}

/// Whether the backend decides on the expiry.
pub(super) fn contains(expiries: &Option<Box<HookExpiries>>, target: &ExpiryTarget) -> bool {
    expiries.as_ref().is_some_and(|it| it.expiries.iter().any(|expiry| expiry.target == *target))
}

/// Removes the expiry of a subscription that ended.
pub(super) fn remove(expiries: &mut Option<Box<HookExpiries>>, channel: &str) {
    let is_of = |target: &ExpiryTarget| matches!(target, ExpiryTarget::Subscription(name) if **name == *channel);
    if let Some(expiries) = expiries {
        expiries.expiries.retain(|expiry| !is_of(&expiry.target));
    }
}

impl HookExpiries {
    /// What has expired now. It is not returned again before its expiry is [set].
    pub(super) fn take_due(&mut self, now: SessionTime) -> Vec<ExpiryTarget> {
        let due = self.expiries.iter_mut().filter(|expiry| expiry.at.is_some_and(|at| at <= now.unix));
        due.map(|expiry| {
            expiry.at = None;
            expiry.target.clone()
        })
        .collect()
    }

    /// The time of the next expiry, in ticks.
    pub(super) fn next(&self, now: SessionTime) -> Option<u64> {
        let next = self.expiries.iter().filter_map(|expiry| expiry.at).min()?;
        Some(now.ticks.saturating_add(next.saturating_sub(now.unix).max(1).saturating_mul(1_000)))
    }
}

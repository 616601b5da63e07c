//! What the outcome of a send means for the push.

use std::time::Duration;

use super::providers::Outcome;
use super::providers::retry::RetryPolicy;
use super::sender::millis;
use crate::ledger::PushResult;
use crate::model::{Millis, Platform};

/// The result of a push after an attempt. `attempts` counts this one; `age` is the time since the first attempt: a push
/// that quiet hours or an outage of the bridge held for hours has its full time.
pub(super) fn result(outcome: &Outcome, platform: Platform, attempts: u32, age: Duration, now: Millis) -> PushResult {
    let (after, reason) = match outcome {
        Outcome::Accepted { .. } => return PushResult::Accepted,
        Outcome::TokenGone { .. } => return PushResult::Unwanted,
        Outcome::Rejected { reason } => return PushResult::Failed(reason.to_string()),
        Outcome::Retry { after, reason, .. } => (*after, reason),
        Outcome::Misconfigured { reason, .. } => (None, reason),
    };
    match RetryPolicy::of(platform).delay(attempts, after, age) {
        Some(delay) => {
            let at = now.saturating_add(millis(delay));
            if reason.is_postponement() { PushResult::Postponed(at) } else { PushResult::Retry(at) }
        }
        None => PushResult::Failed(format!("given up after {attempts} attempts: {reason}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::providers::{Reason, Scope};

    #[test]
    fn outcomes_decide_about_the_push() {
        let of = |outcome: Outcome, age| result(&outcome, Platform::Fcm, 2, Duration::from_secs(age), 1_000);
        assert_eq!(of(Outcome::accepted(None), 0), PushResult::Accepted);
        assert_eq!(of(Outcome::gone("unregistered"), 0), PushResult::Unwanted);
        assert_eq!(of(Outcome::rejected("too_large"), 0), PushResult::Failed("too_large".into()));
        let retry = || Outcome::retry(Scope::Device, Reason::new("unavailable"));
        let PushResult::Retry(at) = of(retry(), 0) else { panic!("a retry") };
        assert!((11_000..=21_000).contains(&at), "{at}");
        let after = Outcome::Retry {
            after: Some(Duration::from_secs(90)),
            scope: Scope::Provider,
            reason: Reason::new("quota"),
        };
        let PushResult::Retry(at) = of(after, 0) else { panic!("a retry") };
        assert!((91_000..=100_000).contains(&at), "{at}");
        let given_up = of(retry(), 3_600);
        assert_eq!(given_up, PushResult::Failed("given up after 2 attempts: unavailable".into()));
        for code in ["breaker_open", "busy", "device_paused", "stopping"] {
            let waiting = Outcome::retry(Scope::Device, Reason::new(code));
            assert!(matches!(of(waiting, 0), PushResult::Postponed(_)), "nothing was tried: {code}");
            assert!(Reason::new(code).is_local(), "no request was made: {code}");
        }
        let wrong = Outcome::Misconfigured { scope: Scope::Provider, reason: Reason::new("bad_key") };
        assert!(matches!(of(wrong, 0), PushResult::Retry(_)), "the operator may repair it");
    }
}

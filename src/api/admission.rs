//! Admission: counts a call against the rate limit of its operation.

use super::operations::{Effect, Operation};
use super::request::Request;
use crate::feed::{Origin, RateLimits, Result};

/// Counts an operation against the limits of its caller. Backends are trusted and not counted.
///
/// # Errors
/// [`FeedError::RateLimited`](crate::feed::FeedError::RateLimited) if it exceeds a limit.
pub(super) async fn admit(rates: &RateLimits, operation: &Operation, request: &Request) -> Result<()> {
    let (Origin::Address(address) | Origin::Connection(address)) = request.origin else { return Ok(()) };
    match operation.effect {
        Effect::Read(_) => rates.take_reads(request.caller.reader(), address, operation.read_cost(&request.input)),
        Effect::Write(class) | Effect::Create(class) | Effect::QueuedWrite(class) | Effect::SecretWrite(class) => {
            rates.take_write(class, request.caller.user()?).await
        }
        Effect::SignUp => rates.take_account(address).await,
        Effect::SignIn => Ok(()),
    }
}

//! Admission: the rate limit that an operation counts against.

use super::operations::{Access, Operation};
use super::request::Request;
use crate::feed::{Caller, Origin, RateClass, RateLimits, Result};

/// Counts an operation against the limits of its caller.
///
/// # Errors
/// [`FeedError::RateLimited`](crate::feed::FeedError::RateLimited) if it is one too many.
pub(super) async fn admit(rates: &RateLimits, operation: &Operation, request: &Request) -> Result<()> {
    match (request.origin, &request.caller) {
        (Origin::Backend, _) => Ok(()),
        // Sign-ins are counted when they fail.
        (Origin::Address(_), _) if operation.name == "sessions.create" => Ok(()),
        (Origin::Address(address), _) if operation.access == Access::Open => rates.take_account(address).await,
        (_, Caller::User(user)) if operation.writes() => rates.take_write(class_of(operation.name), user).await,
        (Origin::Address(address) | Origin::Connection(address), caller) => {
            rates.take_reads(caller.reader(), address, operation.cost(&request.input))
        }
    }
}

/// The rate limit of a write.
fn class_of(operation: &str) -> RateClass {
    match operation {
        "posts.create" | "posts.edit" => RateClass::Posts,
        "comments.create" => RateClass::Comments,
        "likes.add" | "likes.remove" | "comments.like" | "comments.unlike" => RateClass::Likes,
        "users.update" => RateClass::Writes,
        _ if operation.starts_with("users.") => RateClass::Follows,
        _ => RateClass::Writes,
    }
}

#[cfg(test)]
mod tests {
    use super::super::operations::Operations;
    use super::*;

    #[test]
    fn every_write_has_its_limit() {
        for operation in Operations::new().all().iter().filter(|operation| operation.writes()) {
            let name = operation.name;
            let expected = match name.split_once('.').expect("a dot") {
                ("posts", "create" | "edit") => RateClass::Posts,
                ("comments", "create") => RateClass::Comments,
                ("likes", _) | ("comments", "like" | "unlike") => RateClass::Likes,
                ("users", what) if what != "update" => RateClass::Follows,
                _ => RateClass::Writes,
            };
            assert_eq!(class_of(name), expected, "{name}");
        }
    }
}

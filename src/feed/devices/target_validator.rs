//! The check of the addresses of devices.

use std::fmt::{Debug, Display};

use crate::model::PushTarget;

/// Decides which addresses of devices may be registered. The transports know what they can reach.
pub trait TargetValidator: Debug + Send + Sync {
    /// Checks an address. Makes no request.
    ///
    /// # Errors
    /// If no push would ever be sent to it.
    fn validate(&self, target: &PushTarget) -> std::result::Result<(), InvalidAddress>;
}

/// Why an address is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidAddress {
    /// The member of the registration at fault.
    pub field: &'static str,
    /// The rule that it violates.
    pub problem: String,
}

impl InvalidAddress {
    /// An error of a member.
    pub fn new(field: &'static str, problem: impl Display) -> Self {
        Self { field, problem: problem.to_string() }
    }
}

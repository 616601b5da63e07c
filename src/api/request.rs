//! A request for an operation, from any transport.

use std::sync::Arc;

use super::operations::Input;
use crate::feed::{Caller, Credential, Origin};

/// A request for an operation.
pub struct Request {
    /// The caller.
    pub caller: Caller,
    /// What proves the caller's identity.
    pub credential: Credential,
    /// Where the request comes from.
    pub origin: Origin,
    /// The client of this node that asks, over a socket: it gets a receipt when its like is settled.
    pub client: Option<Arc<str>>,
    /// The idempotency key, if it came beside the input; it may be in the input, as `idempotency_key`.
    pub key: Option<String>,
    /// The input of the operation.
    pub input: Input,
}

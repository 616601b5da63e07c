//! A request for an operation, from any transport.

use std::sync::Arc;

use super::operations::Input;
use crate::feed::{Caller, Credential, Origin};

/// A request for an operation.
pub struct Request {
    /// The caller.
    pub caller: Caller,
    /// The proof of the caller's identity.
    pub credential: Credential,
    /// Where the request comes from.
    pub origin: Origin,
    /// The client connection of this node that sent the request, if it came over a socket. The client gets a receipt
    /// when its like is settled.
    pub client: Option<Arc<str>>,
    /// The idempotency key, if it was sent outside the input. The input may also contain it, as `idempotency_key`.
    pub key: Option<String>,
    /// The input of the operation.
    pub input: Input,
}

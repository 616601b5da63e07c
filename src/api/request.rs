//! A request for an operation, from any transport.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::operations::{Input, Operation, Verb};
use crate::feed::patch::CLEARABLE_MEMBERS;
use crate::feed::{Caller, Credential, Origin};
use crate::model::{TraceContext, remove_nulls};

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
    /// The span of the request, if its trace is recorded.
    pub trace: Option<TraceContext>,
}

impl Request {
    /// Removes the members of the input that are `null`: they count as absent, except those that a change clears.
    pub(super) fn remove_nulls(&mut self, operation: &Operation) {
        let clearable: &[&str] = if operation.verb == Verb::Patch { &CLEARABLE_MEMBERS } else { &[] };
        if let Value::Object(members) = &mut self.input {
            remove_nulls(members, clearable);
        }
    }
}

/// Whether an input has members. Those that are `null` count as absent.
pub fn has_input(members: &Map<String, Value>) -> bool {
    members.values().any(|member| !member.is_null())
}

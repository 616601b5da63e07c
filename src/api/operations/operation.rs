//! An operation: a row of the table, and the properties derived from its columns.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use crate::api::ErrorKind;
use crate::feed::expand::requested_parts;
use crate::feed::paging::requested_pages;
use crate::feed::{Call, Feed, RateClass, Result};

/// An HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Read.
    Get,
    /// Create.
    Post,
    /// Set.
    Put,
    /// Change in part.
    Patch,
    /// Remove.
    Delete,
}

impl Verb {
    /// The name of the method in HTTP.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether its requests have a body.
    pub fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// The callers and transports that an operation accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anyone, over HTTP only: sign-up and sign-in are open.
    Open,
    /// Any connection or token, anonymous ones included.
    Reader,
    /// A user.
    User,
    /// A backend with an API key that acts for itself, over HTTP and the API for backends.
    Backend,
}

/// The effect of an operation, and the rate limit that it counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::api) enum Effect {
    /// Reads. The number is the cost of a page of 20 items, in units of the budget for reads (`rates.reads`); a look-up
    /// by id costs 1. See [`Operation::read_cost`].
    Read(u32),
    /// Changes data on behalf of the caller. Takes an idempotency key.
    Write(RateClass),
    /// A write that creates a post, a comment or a notification. Its idempotency key reserves the id.
    Create(RateClass),
    /// A write that is acknowledged from the write-behind queue. It does not wait for the ledger: the settler records a
    /// new user together with the user's write.
    QueuedWrite(RateClass),
    /// A write whose input holds secrets. It takes no idempotency key: the ledger would store a digest of the input.
    SecretWrite(RateClass),
    /// Creates an account. Addresses are limited to `rates.accounts`.
    SignUp,
    /// Signs in. Failed attempts are limited to `rates.sessions`; the operation itself counts them.
    SignIn,
}

/// The errors that every operation can fail with.
const COMMON_ERRORS: &[&ErrorKind] = &[
    &ErrorKind::INVALID,
    &ErrorKind::UNAUTHORIZED,
    &ErrorKind::FORBIDDEN,
    &ErrorKind::RATE_LIMITED,
    &ErrorKind::TOO_MANY_REQUESTS,
    &ErrorKind::INTERNAL,
    &ErrorKind::UNAVAILABLE,
];

/// An operation's input: a JSON object.
pub type Input = Value;

/// Runs an operation on the feed. The output is JSON.
pub(in crate::api) type Handler = dyn Fn(Arc<Feed>, Call, Input) -> BoxFuture<'static, Result<Bytes>> + Send + Sync;

/// An operation.
pub struct Operation {
    /// Its rpc method, and its name in the OpenAPI document.
    pub name: &'static str,
    /// Its HTTP method.
    pub verb: Verb,
    /// Its HTTP paths below `/api/v1`; `{id}` is a field of the input. Several paths name different kinds of objects.
    pub paths: &'static [&'static str],
    /// The HTTP status of success.
    pub status: u16,
    /// The callers that it accepts.
    pub access: Access,
    /// Its effect, and the rate limit that it counts against.
    pub(in crate::api) effect: Effect,
    /// A one-line summary for clients.
    pub summary: &'static str,
    /// The JSON schema of its input.
    pub input: fn(&mut SchemaGenerator) -> Schema,
    /// The JSON schema of its output.
    pub output: fn(&mut SchemaGenerator) -> Schema,
    /// The errors of its own, besides those that are common to all operations of its kind.
    pub(in crate::api) errors: &'static [&'static ErrorKind],
    /// Its implementation.
    pub(in crate::api) handler: Arc<Handler>,
}

impl Operation {
    /// Whether it can be called by rpc.
    pub fn is_rpc(&self) -> bool {
        self.access != Access::Open
    }

    /// The errors that it can fail with.
    pub fn errors(&self) -> impl Iterator<Item = &'static ErrorKind> {
        ErrorKind::ALL.iter().filter(|kind| self.can_fail_with(kind))
    }

    fn can_fail_with(&self, kind: &ErrorKind) -> bool {
        let is_one_of = |kinds: &[&ErrorKind]| kinds.contains(&kind);
        is_one_of(COMMON_ERRORS)
            || (self.verb != Verb::Get && is_one_of(&[&ErrorKind::TOO_LARGE]))
            || (self.page_cost().is_some() && is_one_of(&[&ErrorKind::BUSY]))
            || (self.takes_key() && is_one_of(&[&ErrorKind::IN_PROGRESS, &ErrorKind::IDEMPOTENCY_CONFLICT]))
            || is_one_of(self.errors)
    }

    /// Whether a caller may send an idempotency key with it.
    pub fn takes_key(&self) -> bool {
        match self.effect {
            Effect::Create(_) => true,
            // Other writes of backends set a state: a repeat changes nothing.
            Effect::Write(_) | Effect::QueuedWrite(_) => self.access != Access::Backend,
            _ => false,
        }
    }

    /// The cost of a page of 20 items in units of the budget for reads; `None` for a write.
    pub fn page_cost(&self) -> Option<u32> {
        match self.effect {
            Effect::Read(cost) => Some(cost),
            _ => None,
        }
    }

    /// The cost of a call in units of the budget for reads: for each 20 items started, the operation's cost and one
    /// more for each part that is requested with posts. 0 for a write.
    pub(in crate::api) fn read_cost(&self, input: &Input) -> u32 {
        let Some(page_cost) = self.page_cost() else { return 0 };
        (page_cost + requested_parts(input)) * requested_pages(input)
    }
}

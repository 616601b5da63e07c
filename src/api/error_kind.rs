//! The kinds of errors of operations: codes and statuses, the same for every transport. The table in `docs/api.md` and
//! the OpenAPI document are generated from these definitions.

/// A kind of error. Clients act on its code; messages are for people.
#[derive(Debug, PartialEq, Eq)]
pub struct ErrorKind {
    /// The public name, `error.code` of a response.
    pub code: &'static str,
    /// The HTTP status. It is the rpc code too: the client protocol leaves 400–1999 to applications.
    pub status: u16,
    /// Whether clients should retry: the same request may succeed later.
    pub is_temporary: bool,
    /// The condition under which operations fail with it, in a sentence for clients.
    pub meaning: &'static str,
}

/// Defines a constant for each kind, and [`ErrorKind::ALL`].
macro_rules! error_kinds {
    ($($(#[doc = $meaning:literal])+ $name:ident = $code:literal, $status:literal, $retry:ident;)*) => {
        impl ErrorKind {
            $(
                $(#[doc = $meaning])+
                pub const $name: Self = Self {
                    code: $code,
                    status: $status,
                    is_temporary: $retry,
                    meaning: concat!($($meaning),+).trim_ascii(),
                };
            )*

            /// Every kind, in ascending order of status.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

/// The same request fails again.
const PERMANENT: bool = false;

/// The same request may succeed later.
const TEMPORARY: bool = true;

error_kinds! {
    /// The input is malformed or violates a rule; `field` names the member, if known.
    INVALID = "invalid", 400, PERMANENT;
    /// The request has no credentials, or they are wrong, expired or revoked.
    UNAUTHORIZED = "unauthorized", 401, PERMANENT;
    /// The user does not have this right, or is blocked or suspended.
    FORBIDDEN = "forbidden", 403, PERMANENT;
    /// The account is locked: only its followers see this. A request to follow it may be accepted.
    LOCKED = "locked", 403, PERMANENT;
    /// The object does not exist, or the caller cannot see it: the two are not distinguished.
    NOT_FOUND = "not_found", 404, PERMANENT;
    /// The request conflicts with the current state.
    CONFLICT = "conflict", 409, PERMANENT;
    /// The first request with the same idempotency key is still running.
    IN_PROGRESS = "in_progress", 409, TEMPORARY;
    /// The request body is too large.
    TOO_LARGE = "too_large", 413, PERMANENT;
    /// A configured limit is reached.
    LIMIT_EXCEEDED = "limit_exceeded", 422, PERMANENT;
    /// The idempotency key was used for another operation or another input.
    IDEMPOTENCY_CONFLICT = "idempotency_conflict", 422, PERMANENT;
    /// The user or the address exceeded a rate limit. `Retry-After` says when to retry.
    RATE_LIMITED = "rate_limited", 429, TEMPORARY;
    /// Too many requests run at the same time.
    TOO_MANY_REQUESTS = "too_many_requests", 429, TEMPORARY;
    /// The server failed internally.
    INTERNAL = "internal", 500, TEMPORARY;
    /// The server cannot take this request now, for example because the write-behind queue is full. Nothing was done.
    BUSY = "busy", 503, TEMPORARY;
    /// A store is unreachable. A write may or may not have happened.
    UNAVAILABLE = "unavailable", 503, TEMPORARY;
}

impl ErrorKind {
    /// The kind with this code.
    pub(crate) fn by_code(code: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|kind| kind.code == code)
    }
}

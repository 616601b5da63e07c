//! Every code a client can meet. Which range a code lies in decides what an SDK does: see each table.

use std::borrow::Cow;

/// Why a connection is closed: the code and reason of the WebSocket close frame.
///
/// SDKs reconnect after 3000–3499 and 4000–4499, and never again after 3500–3999 and 4500–4999.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Disconnect {
    /// The close code.
    pub code: u16,
    /// The close reason: 123 bytes at most.
    pub reason: Cow<'static, str>,
}

macro_rules! disconnects {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $reason:literal;)*) => {
        impl Disconnect {
            $($(#[$doc])* pub const $name: Self = Self { code: $code, reason: Cow::Borrowed($reason) };)*
        }
    };
}

disconnects! {
    /// The server is going away; come back, to another node or a little later.
    SHUTDOWN = 3001, "shutdown";
    /// Something failed inside.
    INTERNAL = 3004, "internal server error";
    /// The token ran out and no new one came.
    EXPIRED = 3005, "connection expired";
    /// The token of a server-side subscription ran out.
    SUBSCRIPTION_EXPIRED = 3006, "subscription expired";
    /// The client reads more slowly than it is told, and its queue is full.
    SLOW = 3008, "slow";
    /// A write took too long or failed.
    WRITE_ERROR = 3009, "write error";
    /// A server-side subscription cannot go on without a gap: connect again and recover.
    INSUFFICIENT_STATE = 3010, "insufficient state";
    /// The backend asked for a reconnect.
    FORCE_RECONNECT = 3011, "force reconnect";
    /// A ping was not answered.
    NO_PONG = 3012, "no pong";
    /// The token is not valid, or not any more.
    INVALID_TOKEN = 3500, "invalid token";
    /// What the client said is not the protocol.
    BAD_REQUEST = 3501, "bad request";
    /// No connect came in time.
    STALE = 3502, "stale";
    /// The backend asked for an end.
    FORCE_DISCONNECT = 3503, "force disconnect";
    /// Too many connections.
    CONNECTION_LIMIT = 3504, "connection limit";
    /// The token puts the connection into more channels than it may be in.
    CHANNEL_LIMIT = 3505, "channel limit";
    /// Binary frames, or an encoding this server does not speak.
    INAPPROPRIATE_PROTOCOL = 3506, "inappropriate protocol";
    /// The user is blocked.
    BLOCKED = 3507, "blocked";
    /// Nobody here takes `send`.
    NOT_AVAILABLE = 3508, "not available";
}

/// Why a command was refused, the connection staying up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode {
    /// The code, below 200 in the protocol's own range.
    pub code: u32,
    /// What it says.
    pub message: &'static str,
    /// Whether the same command may succeed later. SDKs try again by themselves where they can.
    pub temporary: bool,
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $message:literal, $temporary:literal;)*) => {
        impl ErrorCode {
            $($(#[$doc])* pub const $name: Self = Self { code: $code, message: $message, temporary: $temporary };)*
        }
    };
}

error_codes! {
    /// Something failed inside, or a store cannot be reached just now.
    INTERNAL = 100, "internal server error", true;
    /// There is no such channel or namespace.
    UNKNOWN_CHANNEL = 102, "unknown channel", false;
    /// This user may not do that there.
    PERMISSION_DENIED = 103, "permission denied", false;
    /// The connection is in that channel already.
    ALREADY_SUBSCRIBED = 105, "already subscribed", false;
    /// The connection is in as many channels as it may be.
    LIMIT_EXCEEDED = 106, "limit exceeded", false;
    /// The request is malformed.
    BAD_REQUEST = 107, "bad request", false;
    /// That feature is off here.
    NOT_AVAILABLE = 108, "not available", false;
    /// The token ran out: get a new one.
    TOKEN_EXPIRED = 109, "token expired", false;
    /// The new expiry lies in the past.
    EXPIRED = 110, "expired", false;
    /// More commands a second than allowed.
    TOO_MANY_REQUESTS = 111, "too many requests", true;
    /// The position asked for is gone, and the client said it would rather know.
    UNRECOVERABLE_POSITION = 112, "unrecoverable position", false;
}

/// Why a subscription ended, the connection staying up. From 2500 on, SDKs subscribe again by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unsubscribe {
    /// The code.
    pub code: u32,
    /// What it says.
    pub reason: &'static str,
}

impl Unsubscribe {
    /// The backend ended it.
    pub const SERVER: Self = Self { code: 2000, reason: "server unsubscribe" };
    /// It cannot go on without a gap: subscribe again and recover.
    pub const INSUFFICIENT_STATE: Self = Self { code: 2500, reason: "insufficient state" };
    /// Its token ran out.
    pub const EXPIRED: Self = Self { code: 2501, reason: "subscription expired" };
}

//! All codes that a client can receive. The range of a code determines how an SDK reacts: see each table.
//! `docs/limits.md` is generated from these tables.

use std::borrow::Cow;

/// The reason why a connection is closed: the code and reason of the WebSocket close frame.
///
/// SDKs reconnect after codes 3000–3499 and 4000–4499, and do not reconnect after codes 3500–3999 and 4500–4999.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Disconnect {
    /// The close code.
    pub code: u16,
    /// The close reason, at most 123 bytes.
    pub reason: Cow<'static, str>,
}

macro_rules! disconnects {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $reason:literal;)*) => {
        impl Disconnect {
            $($(#[doc = $doc])* pub const $name: Self = Self { code: $code, reason: Cow::Borrowed($reason) };)*

            /// Every close code of this server with its meaning, in ascending order.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, concat!($($doc),*))),*];
        }
    };
}

disconnects! {
    /// The node shuts down. The client reconnects, to another node or a little later.
    SHUTDOWN = 3001, "shutdown";
    /// The server failed internally.
    INTERNAL = 3004, "internal server error";
    /// The token expired and the client did not refresh it.
    EXPIRED = 3005, "connection expired";
    /// The token of a server-side subscription expired.
    SUBSCRIPTION_EXPIRED = 3006, "subscription expired";
    /// The client reads too slowly and its send queue is full. It reconnects and recovers.
    SLOW = 3008, "slow";
    /// A write took too long or failed.
    WRITE_ERROR = 3009, "write error";
    /// A server-side subscription cannot continue without a gap. The client reconnects and recovers.
    INSUFFICIENT_STATE = 3010, "insufficient state";
    /// The backend requested a reconnect.
    FORCE_RECONNECT = 3011, "force reconnect";
    /// The client did not answer a ping in time.
    NO_PONG = 3012, "no pong";
    /// The client sends commands faster than they are run. Only for clients that send them in requests of their own.
    TOO_MANY_REQUESTS = 3013, "too many requests";
    /// The token is invalid, or was revoked.
    INVALID_TOKEN = 3500, "invalid token";
    /// The client sent a message that violates the protocol.
    BAD_REQUEST = 3501, "bad request";
    /// The client sent no `connect` command in time.
    STALE = 3502, "stale";
    /// The backend closed the connection.
    FORCE_DISCONNECT = 3503, "force disconnect";
    /// The user has too many connections on this node.
    CONNECTION_LIMIT = 3504, "connection limit";
    /// The token names more channels than `client.channels` allows.
    CHANNEL_LIMIT = 3505, "channel limit";
    /// The client sent binary frames although its encoding is JSON, or text frames although it is Protobuf.
    INAPPROPRIATE_PROTOCOL = 3506, "inappropriate protocol";
    /// The user is blocked or suspended, or the backend refused the connection.
    PERMISSION_DENIED = 3507, "permission denied";
    /// The client used `send`, which this server does not support.
    NOT_AVAILABLE = 3508, "not available";
}

/// The reason why a command is refused. The connection stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode {
    /// The code. The protocol reserves codes below 200.
    pub code: u32,
    /// The message in the reply.
    pub message: &'static str,
    /// Whether the same command may succeed later. SDKs retry commands that failed with a temporary error where they
    /// can.
    pub temporary: bool,
}

macro_rules! error_codes {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $message:literal, $temporary:literal;)*) => {
        impl ErrorCode {
            $(
                $(#[doc = $doc])*
                pub const $name: Self = Self { code: $code, message: $message, temporary: $temporary };
            )*

            /// Every error code of the protocol's reserved range with its meaning, in ascending order.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, concat!($($doc),*))),*];
        }
    };
}

error_codes! {
    /// The server failed internally, or a store is unreachable.
    INTERNAL = 100, "internal server error", true;
    /// The channel or its namespace does not exist.
    UNKNOWN_CHANNEL = 102, "unknown channel", false;
    /// The client does not have the right for this command on this channel.
    PERMISSION_DENIED = 103, "permission denied", false;
    /// The connection is already subscribed to the channel.
    ALREADY_SUBSCRIBED = 105, "already subscribed", false;
    /// The connection has as many subscriptions as `client.channels` allows.
    LIMIT_EXCEEDED = 106, "limit exceeded", false;
    /// The command is malformed.
    BAD_REQUEST = 107, "bad request", false;
    /// The feature is disabled, or the rpc method does not exist.
    NOT_AVAILABLE = 108, "not available", false;
    /// The token has expired. The client requests a new one.
    TOKEN_EXPIRED = 109, "token expired", false;
    /// The new expiry is in the past.
    EXPIRED = 110, "expired", false;
    /// The client exceeded a rate limit.
    TOO_MANY_REQUESTS = 111, "too many requests", true;
    /// The requested position is no longer in the log.
    UNRECOVERABLE_POSITION = 112, "unrecoverable position", false;
}

/// The reason why a subscription ends. The connection stays open. SDKs subscribe again after codes from 2500.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unsubscribe {
    /// The code.
    pub code: u32,
    /// The reason in the push.
    pub reason: &'static str,
}

macro_rules! unsubscribes {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal, $reason:literal;)*) => {
        impl Unsubscribe {
            $($(#[doc = $doc])* pub const $name: Self = Self { code: $code, reason: $reason };)*

            /// Every unsubscribe code of this server with its meaning, in ascending order.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, concat!($($doc),*))),*];
        }
    };
}

unsubscribes! {
    /// The backend ended the subscription.
    SERVER = 2000, "server unsubscribe";
    /// The user cannot see the post or the profile of the channel any more: one of the two users blocks or hides, a
    /// follow ended, or the author is suspended or has locked the account.
    NOT_VISIBLE = 2000, "no longer visible";
    /// The subscription cannot continue without a gap. The client subscribes again and recovers.
    INSUFFICIENT_STATE = 2500, "insufficient state";
    /// The subscription token expired or was revoked.
    EXPIRED = 2501, "subscription expired";
}

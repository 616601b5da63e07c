//! The client protocol: commands, replies, pushes and codes.
//!
//! Feedline speaks the Centrifuge client protocol as JSON over WebSocket: a frame contains one or more objects
//! separated by line breaks; a ping is `{}` from the server, a pong is `{}` from the client. This module is pure: it
//! uses no socket, no clock and no store.

mod codes;
mod command;
mod data;
mod reply;

pub use codes::{Disconnect, ErrorCode, Unsubscribe};
pub(crate) use command::present;
pub use command::{
    ChannelRequest, Command, CommandBody, ConnectRequest, HistoryRequest, MalformedFrame, PublishRequest, Recover,
    RpcRequest, SubRefreshRequest, SubscribeRequest, decode_frame,
};
pub use data::is_portable;
pub use reply::{
    ClientInfo, ConnectResult, HistoryResult, PING, PresenceResult, PresenceStatsResult, Publication, RefreshResult,
    ReplyBody, SubscribeResult, append_publication, one_line, publication_members, publication_size, push_join,
    push_leave, push_publication, push_unsubscribe, reply, reply_error,
};

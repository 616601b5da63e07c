//! The client protocol: commands, replies, pushes and codes.
//!
//! Feedline speaks the Centrifuge client protocol over WebSocket and HTTP streams, in two encodings. As JSON, a frame
//! contains one or more objects separated by line breaks; a ping is `{}` from the server, a pong is `{}` from the
//! client. As Protobuf, each message of a frame is preceded by its length; a ping or pong is a message of length 0.
//! Sessions and the hub use the types of `command` and `reply`, which know no encoding. This module is pure: it uses no
//! socket, no clock and no store.
//!
//! | file | contents |
//! |---|---|
//! | `codes` | close codes, error codes, unsubscribe codes |
//! | `command`, `object` | commands, and their JSON decoder |
//! | `reply` | replies and pushes |
//! | `emulation` | commands of clients whose transport carries none |
//! | `encoding` | the choice of an encoding |
//! | `json` | the JSON encoder |
//! | `protobuf/` | the Protobuf schema, decoder and encoder |
//! | `data` | which JSON clients may publish |
//! | `delta`, `fossil` | publications as patches of the ones before them |

mod codes;
mod command;
mod data;
mod delta;
mod emulation;
mod encoding;
mod fossil;
mod json;
mod object;
mod protobuf;
mod reply;

pub use codes::{Disconnect, ErrorCode, Unsubscribe};
pub(crate) use command::present;
pub use command::{
    ChannelRequest, Command, CommandBody, ConnectRequest, HistoryRequest, HistorySince, MalformedFrame, PublishRequest,
    Recover, RpcRequest, SubRefreshRequest, SubscribeRequest, decode_connect, decode_frame,
};
pub use data::{is_portable, to_portable};
pub use delta::{SplitMembers, chain, patch, split_members};
pub use emulation::{EmulatedData, EmulationRequest};
pub use encoding::Encoding;
pub use json::{one_line, publication_members};
pub use protobuf::decode_binary_frame;
pub use reply::{
    ClientInfo, ConnectResult, HistoryResult, PresenceResult, PresenceStatsResult, Publication, Push, PushEvent,
    PushPosition, RefreshResult, Reply, ReplyBody, ReplyError, SubscribePush, SubscribeResult,
};

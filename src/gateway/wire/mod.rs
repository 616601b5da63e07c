//! What is sent to clients: messages in the format of a connection, and the send queue of one socket.
//!
//! | file | what is in it |
//! |---|---|
//! | `message_format` | encoding, and what a transport needs around each message |
//! | `message_codec`, `framed` | messages in that format |
//! | `outbox`, `outgoing` | the send queue of one connection, and its items |
//! | `spare_queues` | empty queues that are kept |
//! | `write_pacer` | the order in which connections write |
//! | `probe` | the question whether a client is there |

pub(crate) mod framed;
pub(crate) mod message_codec;
pub mod message_format;
pub mod outbox;
pub mod outgoing;
pub(crate) mod probe;
pub(crate) mod spare_queues;
pub mod write_pacer;

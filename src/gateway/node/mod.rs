//! This node among the others: messages between nodes, surveys, receipts of likes, gauges.
//!
//! | file | what is in it |
//! |---|---|
//! | `dispatcher` | receives what the broker sends to this node |
//! | `emulation` | commands of clients whose transport carries none |
//! | `survey` | questions to all nodes, for backends |
//! | `socket_prober` | whether the clients of users are there, for the push bridge |
//! | `like_receipts` | settled likes, to the connections that sent them and to the users' other connections |
//! | `gauges`, `process_usage` | the values of gauges |

pub(crate) mod dispatcher;
pub mod emulation;
pub mod gauges;
pub(crate) mod like_receipts;
pub(crate) mod process_usage;
pub(crate) mod socket_prober;
pub mod survey;

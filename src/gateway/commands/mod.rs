//! Executes the commands that take time.
//!
//! | file | what is in it |
//! |---|---|
//! | `runner` | starts them; one task each |
//! | `outcome` | their outcomes |
//! | `subscriptions` | `connect` and `subscribe` |
//! | `publish`, `presence`, `history` | the commands of these names, and `presence_stats` |
//! | `channel_commands` | what these have in common |
//! | `rpc` | operations |
//! | `hook_runner` | questions to the application's backend |
//! | `presence_tracker`, `presence_order` | the clients in a channel, joins and leaves |
//! | `channel_occupancy` | which channels have subscribers, for events of the outlet |
//! | `single_connection` | a new connection of a user closes the others |

pub(crate) mod channel_commands;
pub(crate) mod channel_occupancy;
mod history;
pub(crate) mod hook_runner;
pub(crate) mod outcome;
pub(crate) mod presence;
pub(crate) mod presence_order;
pub(crate) mod presence_tracker;
mod publish;
pub(crate) mod rpc;
pub(crate) mod runner;
pub(crate) mod single_connection;
pub(crate) mod subscriptions;

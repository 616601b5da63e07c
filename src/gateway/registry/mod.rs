//! The connections of this node, by client id and by user, and what closes them.
//!
//! | file | what is in it |
//! |---|---|
//! | `connections` | by client id |
//! | `sockets`, `client_map` | by user |
//! | `user_connections` | how many connections a user has, and the cap |
//! | `access_watcher` | ends subscriptions to what their users cannot see any more |
//! | `revocation_watcher` | closes connections whose tokens end |

pub(crate) mod access_watcher;
pub(crate) mod client_map;
pub(crate) mod connections;
pub(crate) mod revocation_watcher;
pub(crate) mod sockets;
pub(crate) mod user_connections;

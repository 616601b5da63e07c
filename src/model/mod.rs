//! The vocabulary of a feed: the things that the ledger keeps, the broker carries and the feed works on.
//!
//! Nothing here does anything: these are types, their limits and their text forms.

mod entry;
mod ids;
mod like;
mod post;
mod user;

pub use entry::{Entry, Epoch, GoneReason, Position};
pub use ids::{PostId, UserId};
pub use like::{LikeChange, Object, Tally};
pub use post::{Location, Media, MediaKind, Post, Visibility};
pub use user::{Edges, Profile, User};

/// Milliseconds since the Unix epoch.
pub type Millis = u64;

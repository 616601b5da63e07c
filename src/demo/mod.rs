//! The demonstration feed: people, posts and pictures for an empty instance.
//!
//! | file | contents |
//! |---|---|
//! | `content` | the people and what they wrote, as JSON in the binary |
//! | `seed` | writes it to a ledger |
//! | `crowd` | people who post, like and comment while the demonstration runs |
//! | `notices` | the notifications, at the times of their causes |
//!
//! The pictures of the posts are files of the page, in `web/demo/`.

mod content;
mod crowd;
mod notices;
mod seed;

pub use crowd::Crowd;
pub use seed::{SeedError, Seeded, seed};

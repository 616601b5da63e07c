//! The demonstration feed: people, posts and pictures for an empty instance.
//!
//! | file | contents |
//! |---|---|
//! | `content` | the people and what they wrote, as JSON in the binary |
//! | `seed` | writes it to a ledger |
//! | `notices` | the notifications, at the times of their causes |
//! | `pictures` | draws the pictures of the posts, as SVG |
//! | `random` | the random numbers of the pictures |
//! | `scenes` | the drawings: mountains, sea, city, fields, northern lights, a table |

mod content;
mod notices;
mod pictures;
mod random;
mod scenes;
mod seed;

pub use pictures::{PICTURES, picture};
pub use seed::{SeedError, Seeded, seed};

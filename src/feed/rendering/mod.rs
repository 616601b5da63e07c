//! Rendering: posts, notifications and log entries as JSON for their readers.
//!
//! | file | contents |
//! |---|---|
//! | `post_rendering.rs` | posts with counts, flags, people and expansions |
//! | `named_posts.rs`, `named_rendering.rs` | reposted and quoted posts, on pages and in log entries |
//! | `expansions.rs` | the likers, comments and people of a page (`with`) |
//! | `people.rs` | users by id |
//! | `comment_rendering.rs` | the comments of log entries |
//! | `notification_rendering.rs` | notifications as their owner may see them |
//! | `audience.rs` | the readers of a channel |
//! | `event_rendering.rs`, `render_context.rs` | log entries as publications, and their recipients |
//! | `concerned_users.rs` | the users whose relations decide who receives entries |
//! | `rendered_event.rs` | the forms of an entry, and the conditions for its recipients |

mod audience;
mod comment_rendering;
mod concerned_users;
mod event_rendering;
mod expansions;
mod named_posts;
mod named_rendering;
mod notification_rendering;
mod people;
mod post_rendering;
mod render_context;
mod rendered_event;

pub use audience::{Audience, Viewer};
pub(crate) use event_rendering::EventRenderer;
pub(crate) use notification_rendering::NotificationRenderer;
pub(crate) use people::load_people;
pub(crate) use post_rendering::PostRenderer;
pub use render_context::RenderContext;
pub use rendered_event::RenderedEvent;

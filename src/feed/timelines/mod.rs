//! Timelines: the inbox, and the ledger below the inbox's floor.
//!
//! The log of an inbox records arrivals and removals in the order in which they happened. A timeline is the fold of
//! that log, newest *post* first: late arrivals and the posts of a new followee are in their places, and a page
//! boundary (a post id) does not move when posts arrive. Posts below the floor are read from the ledger; one cursor
//! covers both.
//!
//! | file | contents |
//! |---|---|
//! | `inboxes.rs` | opens and fills inboxes, and keeps those of connected users up to date |
//! | `pull_cursor.rs` | this node's position in the pull log, and the users connected to it |
//! | `catch_up.rs` | appends the entries of the pull log that an inbox has missed |
//! | `source.rs` | what fills an inbox: what a user follows, or a list |
//! | `pages.rs` | pages of timelines |
//! | `updates.rs` | updates since a position |
//! | `read_marker.rs` | read markers |
//! | `backfill.rs` | adds and removes the posts of one author |
//! | `topic_backfill.rs` | adds and removes posts of followed topics |
//! | `list_backfill.rs` | adds and removes posts in the log of a list |
//! | `edge_jobs.rs` | the jobs of follows and restrictions |

mod backfill;
mod catch_up;
mod edge_jobs;
mod inboxes;
mod list_backfill;
mod pages;
mod pull_cursor;
mod read_marker;
mod source;
mod topic_backfill;
mod updates;

pub(crate) use backfill::Backfill;
pub(crate) use catch_up::CatchUp;
pub(crate) use edge_jobs::{EdgeChange, EdgeJobs, EdgeOutcome};
pub(crate) use inboxes::Inboxes;
pub(crate) use list_backfill::{merge_member, purge_unlisted};
pub(crate) use pages::{TimelinePage, TimelinePages};
pub use pull_cursor::Presence;
pub(crate) use pull_cursor::{PresentInboxes, PullCursor};
pub(crate) use read_marker::{MarkReadUpTo, ReadMarker, ReadMarkers};
pub(crate) use source::Source;
pub(crate) use topic_backfill::{merge_topics, purge_topic};
pub(crate) use updates::{PositionInput, UpdatesPage, UpdatesReader};

//! People: profiles, search, suggestions, and the edges between users.
//!
//! Restrictions are here and not in `visibility/`: they are commands that change timelines, like follows. `visibility/`
//! only reads their result.

mod follows;
mod profiles;
mod requests;
mod restrictions;
mod search;

pub(crate) use follows::{FollowReply, Follows};
pub(crate) use profiles::{ProfileUpdate, Profiles};
pub(crate) use requests::FollowRequests;
pub(crate) use restrictions::{Mute, Restrictions};
pub(crate) use search::{SuggestionPage, UserSearch};

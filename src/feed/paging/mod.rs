//! Pages of lists: the request of a client, and the items that the client may see.
//!
//! Every list uses the same parts: its input has a [`PageRequest`], its position in the list is a [`PageCursor`], and a
//! [`PageBuilder`] reads until the page is full.

mod page_builder;
mod page_request;
mod text_cursor;
mod timed_user;

pub(crate) use page_builder::{PageBuilder, PostPageBuilder, UserPageBuilder};
pub(crate) use page_request::{PageCursor, PageRequest, decode_cursor, requested_pages};
pub(crate) use text_cursor::{decode_texts, encode_texts};
pub(crate) use timed_user::TimedUser;

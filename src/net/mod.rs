//! Who is at the other end: client addresses behind proxies, and the origins of pages.
//!
//! | file | what is in it |
//! |---|---|
//! | [`origin`] | which browser origins may connect |

pub mod origin;

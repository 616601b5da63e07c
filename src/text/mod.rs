//! Text as people write it: classes of characters, normal forms, and the mentions, topics and links in it.
//!
//! | file | contents |
//! |---|---|
//! | `characters.rs` | letters, marks, scripts without spaces, characters that nobody sees |
//! | `normal.rs` | NFC, names of topics, the form in which names are searched |
//! | `tokenizer.rs` | mentions, topics and links of a text |
//! | `links.rs` | where a link or an e-mail address begins and ends |
//!
//! The page has the same tokenizer, in `web/text.js`. `tests/text-cases.json` keeps the two in step.

mod characters;
mod links;
mod normal;
mod tokenizer;

pub(crate) use characters::is_blank;
pub use normal::fold;
pub(crate) use normal::{is_topic_name, nfc, topic_name};
pub(crate) use tokenizer::{TextToken, has_marks, tokens};

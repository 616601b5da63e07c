//! Text as people write it: classes of characters, normal forms, and the mentions, topics and links in it.
//!
//! | file | contents |
//! |---|---|
//! | `characters.rs` | letters, marks, scripts without spaces, characters that nobody sees |
//! | `normal.rs` | NFC, names of topics, the forms in which names and muted words are searched |
//! | `filter_text.rs` | a text as muted words are searched in it |
//! | `tokenizer.rs` | mentions, topics and links of a text |
//! | `links.rs` | where a link or an e-mail address begins and ends |
//!
//! The page has the same tokenizer, in `web/text.js`. `tests/text-cases.json` keeps the two in step.

mod characters;
mod filter_text;
mod links;
mod normal;
mod tokenizer;

pub(crate) use characters::is_blank;
pub(crate) use filter_text::FilterText;
pub use normal::fold;
pub(crate) use normal::{caseless, is_topic_name, nfc, topic_name};
pub(crate) use tokenizer::{TextToken, has_marks, tokens};

//! The texts of notifications: templates in the language of the device. English and Chinese are built in; the
//! configuration changes them and adds other languages.
//!
//! | file | contents |
//! |---|---|
//! | `builtin.rs` | the templates in English and Chinese |
//! | `text_renderer.rs` | all templates, and the choice of one |
//! | `locale.rs` | the languages that a device accepts, best first |
//! | `template.rs` | texts with placeholders |
//! | `text_kind.rs` | the kinds of texts |

mod builtin;
mod locale;
mod template;
mod text_kind;
mod text_renderer;

pub use text_kind::TextKind;
pub use text_renderer::{NotificationText, TextError, TextInput, Texts, TextsConfig};

//! Settings: reads keys of the operator's file and the environment for the parts of the server.
//!
//! A part defines its section with [`section!`]: each key once, with its meaning, its type and its valid values. The
//! module `config` composes the sections.
//!
//! | file | contents |
//! |---|---|
//! | `layers.rs` | the layers, and the set of valid keys |
//! | `value.rs`, `parse.rs`, `table_list.rs`, `key_text.rs` | values with their places; parsers for each type |
//! | `error.rs`, `suggest.rs` | errors with their places, and suggestions for unknown keys |
//! | `secret.rs` | a text that is never logged |

mod error;
mod key_text;
mod layers;
pub(crate) mod parse;
mod secret;
mod suggest;
mod table_list;
mod value;

pub use error::ConfigError;
pub(crate) use key_text::{text_or_file, tidy};
pub(crate) use layers::{ConfigFile, Layers, SectionReader};
pub use secret::Secret;
pub(crate) use suggest::nearest;
pub(crate) use table_list::{TableReader, tables};
pub(crate) use value::{ConfigValue, Table, ValueKind, ValueSource};

/// The names of those of these fields in which two values differ.
macro_rules! changed_fields {
    ($before:expr, $after:expr, [$($field:ident),* $(,)?]) => {{
        let mut changed: Vec<&'static str> = Vec::new();
        $(if $before.$field != $after.$field {
            changed.push(stringify!($field));
        })*
        changed
    }};
}

/// Defines a section of the configuration. Behind the type of each key is the parser of its values.
macro_rules! section {
    (
        $(#[$about:meta])*
        pub struct $section:ident {
            $($(#[$meaning:meta])* pub $key:ident: $type:ty = $parser:expr,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $section {
            $($(#[$meaning])* pub $key: $type,)*
        }

        impl $section {
            /// Reads the keys in their order here.
            pub(crate) fn read_keys(section: &mut $crate::settings::SectionReader<'_>) -> Self {
                Self { $($key: section.read(stringify!($key), $parser),)* }
            }

            /// The keys whose values differ.
            pub(crate) fn changed_keys(&self, other: &Self) -> Vec<&'static str> {
                $crate::settings::changed_fields!(self, other, [$($key),*])
            }
        }
    };
}

pub(crate) use {changed_fields, section};

//! The operations: rpc over the socket, HTTP, the OpenAPI document and `docs/api.md` all read one table.
//!
//! | file | contents |
//! |---|---|
//! | `table.rs`, `people_table.rs` | the table, one row per operation |
//! | `operation.rs` | the columns of a row, and the properties derived from them |
//! | `expansion.rs` | the macro that makes operations of rows |
//! | `codec.rs` | decodes inputs and encodes outputs |

mod codec;
mod expansion;
mod operation;
mod people_table;
mod table;

pub(super) use operation::Effect;
pub use operation::{Access, Input, Operation, Verb};

/// All operations.
pub struct Operations {
    list: Vec<Operation>,
}

impl Default for Operations {
    fn default() -> Self {
        Self::new()
    }
}

impl Operations {
    /// The operations of the table.
    pub fn new() -> Self {
        Self { list: table::rows() }
    }

    /// All of them, in the order of the documentation.
    pub fn all(&self) -> &[Operation] {
        &self.list
    }

    /// The operation with this rpc method. `push.preferences` with members in its input replaces the preferences, as
    /// `PUT` does: over HTTP, one path serves both.
    pub fn by_rpc(&self, method: &str, has_input: bool) -> Option<&Operation> {
        let name = if has_input && method == "push.preferences" { "push.set_preferences" } else { method };
        self.list.iter().find(|operation| operation.name == name && operation.is_rpc())
    }
}

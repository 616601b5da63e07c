//! What a process does about a schema of another version.

/// What is done when a ledger is opened whose schema has another version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchemaMode {
    /// Missing migrations are applied: for nodes.
    #[default]
    Migrate,
    /// Nothing is changed, and a schema that this program cannot use as it is is an error: for commands that only look.
    Check,
}

/// The error for the version of a schema, 0 if there is none, when this program has version `known`.
pub(super) fn outdated(current: usize, known: usize) -> String {
    match current {
        0 => "it has no schema yet: the start of a node makes it".to_owned(),
        _ => format!(
            "its schema is version {current}, and this program needs version {known}: the start of a node of this \
             version migrates it"
        ),
    }
}

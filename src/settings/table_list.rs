//! Lists of tables: `[[namespaces]]` and `[[auth.issuers]]`, or the JSON of the environment variables that replace
//! them.

use std::collections::BTreeSet;

use super::parse::ParseResult;
use super::suggest::nearest;
use super::value::{ConfigValue, Table, ValueKind, ValueSource};

/// The tables of a list, each with its place.
pub(crate) fn tables(value: &ConfigValue, name: &str) -> Result<Vec<(ValueSource, Table)>, String> {
    let list = match &value.kind {
        ValueKind::Env(text) => from_json(text, &value.source)?,
        ValueKind::List(items) => items.clone(),
        _ => return Err(format!("expected a list of tables: [[{name}]]")),
    };
    list.into_iter()
        .map(|item| match item.kind {
            ValueKind::Table(table) => Ok((item.source, table)),
            other => Err(format!("expected a list of tables, not of {}", other.name())),
        })
        .collect()
}

fn from_json(text: &str, source: &ValueSource) -> Result<Vec<ConfigValue>, String> {
    let items: Vec<serde_json::Value> =
        serde_json::from_str(text).map_err(|error| format!("expected a JSON array of objects: {error}"))?;
    Ok(items.into_iter().map(|item| ConfigValue::from_json(item, source)).collect())
}

/// Reads the keys of one table.
pub(crate) struct TableReader {
    table: Table,
    /// The path of the table in error messages, such as `namespaces[0]`.
    path: String,
    /// The keys that were read: all valid keys.
    known: BTreeSet<&'static str>,
    /// The place (`None`: that of the whole item), the dotted key, and the message.
    pub(crate) problems: Vec<(Option<ValueSource>, String, String)>,
}

impl TableReader {
    pub(crate) fn new(table: Table, path: String) -> Self {
        Self { table, path, known: BTreeSet::new(), problems: Vec::new() }
    }

    /// The value of a key, or its default. A key without a default is required. Errors are recorded.
    pub(crate) fn read<T: Default>(
        &mut self,
        key: &'static str,
        read: impl Fn(&ConfigValue) -> ParseResult<T>,
        default: Option<T>,
    ) -> T {
        self.known.insert(key);
        let value = match (self.table.get(key), default) {
            (Some(value), _) => read(value),
            (None, Some(default)) => return default,
            (None, None) => Err("is missing".into()),
        };
        value.unwrap_or_else(|message| {
            self.problem(key, message);
            T::default()
        })
    }

    pub(crate) fn problem(&mut self, key: &str, message: String) {
        let source = self.table.get(key).map(|value| value.source.clone());
        self.problems.push((source, format!("{}.{key}", self.path), message));
    }

    /// Records unknown keys as errors.
    pub(crate) fn report_unknown(&mut self) {
        let unknown: Vec<String> =
            self.table.keys().filter(|key| !self.known.contains(key.as_str())).cloned().collect();
        for key in unknown {
            let hint = nearest(&key, self.known.iter().copied()).map(|nearest| format!("; did you mean {nearest}?"));
            self.problem(&key, format!("there is no such key{}", hint.unwrap_or_default()));
        }
    }
}

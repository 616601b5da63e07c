//! Values and the places where they were written, before they are parsed as the type of their key.

use std::collections::BTreeMap;
use std::fmt;

use toml::de::{DeTable, DeValue};

/// The place where a value was written.
#[derive(Clone, Debug)]
pub(crate) enum ValueSource {
    /// The embedded defaults.
    Default,
    /// The operator's file, at this line and column, counted from 1.
    File(usize, usize),
    /// The environment variable with this name.
    Env(String),
}

/// A value as it was written.
#[derive(Clone)]
pub(crate) struct ConfigValue {
    /// The value.
    pub(crate) kind: ValueKind,
    /// The place where it was written.
    pub(crate) source: ValueSource,
}

/// The syntactic type of a value, and the value.
#[derive(Clone)]
pub(crate) enum ValueKind {
    Text(String),
    /// Values beyond the range of the type are saturated; no key has a range that large.
    Integer(i128),
    Float(f64),
    Boolean(bool),
    Time,
    /// Occurs only in the JSON of an environment variable.
    Null,
    List(Vec<ConfigValue>),
    Table(Table),
    /// An environment variable: text that may represent any other kind.
    Env(String),
}

/// The values of a table by key.
pub(crate) type Table = BTreeMap<String, ConfigValue>;

impl ValueKind {
    /// The name of the kind in error messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::Env(_) => "text",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a fraction",
            Self::Boolean(_) => "true or false",
            Self::Time => "a date or time",
            Self::Null => "null",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

impl ConfigValue {
    /// Converts JSON that was written at `source`.
    pub(crate) fn from_json(json: serde_json::Value, source: &ValueSource) -> Self {
        use serde_json::Value as Json;
        let kind = match json {
            Json::String(text) => ValueKind::Text(text),
            Json::Bool(flag) => ValueKind::Boolean(flag),
            Json::Number(number) => number
                .as_i128()
                .map_or_else(|| ValueKind::Float(number.as_f64().unwrap_or(f64::NAN)), ValueKind::Integer),
            Json::Array(items) => {
                ValueKind::List(items.into_iter().map(|item| Self::from_json(item, source)).collect())
            }
            Json::Object(fields) => {
                ValueKind::Table(fields.into_iter().map(|(key, field)| (key, Self::from_json(field, source))).collect())
            }
            Json::Null => ValueKind::Null,
        };
        Self { kind, source: source.clone() }
    }

    /// The same value as a default.
    pub(crate) fn into_default(self) -> Self {
        let kind = match self.kind {
            ValueKind::Table(table) => {
                ValueKind::Table(table.into_iter().map(|(key, v)| (key, v.into_default())).collect())
            }
            other => other,
        };
        Self { kind, source: ValueSource::Default }
    }
}

impl fmt::Debug for ConfigValue {
    /// Prints the kind but not the value, which may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:?}", self.kind.name(), self.source)
    }
}

/// Parses TOML. Returns its tables, and the syntax errors with their places.
pub(crate) fn read_toml(text: &str) -> (Table, Vec<(ValueSource, String)>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let at = |error: &toml::de::Error| locate(text, error.span().map_or(0, |span| span.start));
    let errors: Vec<_> = errors.iter().map(|error| (at(error), error.message().to_owned())).collect();
    // If the text is invalid, the keys that the parser recovered are not reliable.
    let table = if errors.is_empty() { read_table(text, table.get_ref()) } else { Table::new() };
    (table, errors)
}

fn read_table(text: &str, table: &DeTable<'_>) -> Table {
    let values = table.iter().map(|(key, value)| {
        let source = locate(text, key.span().start);
        (key.get_ref().to_string(), ConfigValue { kind: read_kind(text, value.get_ref()), source })
    });
    values.collect()
}

fn read_kind(text: &str, value: &DeValue<'_>) -> ValueKind {
    match value {
        DeValue::String(string) => ValueKind::Text(string.to_string()),
        DeValue::Integer(integer) => {
            ValueKind::Integer(i128::from_str_radix(integer.as_str(), integer.radix()).unwrap_or(i128::MAX))
        }
        DeValue::Float(float) => ValueKind::Float(float.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(boolean) => ValueKind::Boolean(*boolean),
        DeValue::Datetime(_) => ValueKind::Time,
        DeValue::Array(items) => ValueKind::List(
            items
                .iter()
                .map(|item| ConfigValue {
                    kind: read_kind(text, item.get_ref()),
                    source: locate(text, item.span().start),
                })
                .collect(),
        ),
        DeValue::Table(table) => ValueKind::Table(read_table(text, table)),
    }
}

/// The line and column of a byte in a text, counted from 1.
fn locate(text: &str, byte: usize) -> ValueSource {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    ValueSource::File(before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

//! The layers of the configuration: the embedded defaults, the user's file, the environment; the later wins.
//!
//! Sections ask [`Layers`] for their keys, one by one. What they ask for is what exists: at the end, whatever
//! somebody wrote that nobody asked for is an unknown key. Every value knows where it was written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use toml::de::{DeTable, DeValue};

use super::suggest::nearest;
use super::value::Read;
use super::{ConfigError, Problem};

/// What the environment's variables begin with.
const PREFIX: &str = "FEEDLINE__";

/// Every key with its default.
const DEFAULTS: &str = include_str!("../../config.toml");

/// Where something was written.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// In Feedline itself.
    Default,
    /// In the user's file, at a line and a column counted from 1.
    File(usize, usize),
    /// In this variable of the environment.
    Env(String),
}

/// A value that somebody wrote.
#[derive(Clone)]
pub(super) struct Value {
    /// What it says.
    pub(super) kind: Kind,
    /// Where.
    pub(super) origin: Origin,
}

/// What a value says, before anybody has said what it must be.
#[derive(Clone)]
pub(super) enum Kind {
    Text(String),
    /// Saturated, which no range of a key reaches.
    Integer(i128),
    Float,
    Boolean(bool),
    Time,
    /// Only in the JSON of a variable.
    Null,
    List(Vec<Value>),
    Table(Table),
    /// A variable of the environment, which may mean any of the others.
    Env(String),
}

/// The values of a table by key.
pub(super) type Table = BTreeMap<String, Value>;

impl Kind {
    /// What to call it in an error.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::Env(_) => "text",
            Self::Integer(_) => "a whole number",
            Self::Float => "a fraction",
            Self::Boolean(_) => "true or false",
            Self::Time => "a date or time",
            Self::Null => "null",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// The user's file: what to call it, and what it holds.
#[derive(Clone, Copy)]
pub(super) struct File<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

/// All layers, the keys asked for, and what was found wrong with them.
pub(super) struct Layers {
    file: String,
    defaults: Table,
    user: Table,
    /// The environment by dotted key.
    env: Table,
    asked: BTreeSet<String>,
    problems: Vec<Problem>,
}

impl Layers {
    /// Reads the file and takes what is Feedline's from the environment.
    pub(super) fn new(file: File<'_>, env: impl Iterator<Item = (String, String)>) -> Self {
        let mut problems = Vec::new();
        let (user, errors) = read_toml(file.text);
        for (origin, message) in errors {
            problems.push(Problem::new(place(&origin, file.name, None), message));
        }
        let mut layers = Self {
            file: file.name.to_owned(),
            defaults: read_toml(DEFAULTS).0.into_iter().map(|(key, value)| (key, value.into_default())).collect(),
            user,
            env: Table::new(),
            asked: BTreeSet::new(),
            problems,
        };
        for (name, text) in env {
            if let Some(key) = name.strip_prefix(PREFIX) {
                // Only capitals are a key: two spellings of one key would leave open which wins.
                let key = if key.to_uppercase() == key { key.to_lowercase() } else { key.to_owned() };
                let value = Value { kind: Kind::Env(text), origin: Origin::Env(name) };
                layers.env.insert(key.replace("__", "."), value);
            }
        }
        layers
    }

    /// A table of the configuration, to read its keys from.
    pub(super) fn section(&mut self, name: &'static str) -> Section<'_> {
        Section { layers: self, name }
    }

    /// The whole value of a key that is not in a section: the environment's, or else the file's.
    pub(super) fn whole(&mut self, key: &'static str) -> Option<Value> {
        self.asked.insert(key.to_owned());
        self.env.get(key).or_else(|| self.user.get(key)).cloned()
    }

    /// Notes what is wrong with something written somewhere. `key` is its dotted path.
    pub(super) fn problem(&mut self, origin: &Origin, key: &str, message: &str) {
        self.problems.push(Problem::new(place(origin, &self.file, Some(key)), message.to_owned()));
    }

    /// Everything that was found wrong, unknown keys among it.
    pub(super) fn finish(mut self) -> Result<(), ConfigError> {
        for (key, origin, message) in self.not_asked_for() {
            self.problem(&origin, &key, &message);
        }
        if self.problems.is_empty() { Ok(()) } else { Err(ConfigError { problems: self.problems }) }
    }

    /// What somebody wrote and nobody asked for: where, and what to say about it.
    fn not_asked_for(&self) -> Vec<(String, Origin, String)> {
        let sections: BTreeSet<&str> = self.asked.iter().filter_map(|key| Some(key.split_once('.')?.0)).collect();
        let mut found = Vec::new();
        for (name, value) in &self.user {
            let origin = &value.origin;
            match &value.kind {
                _ if self.asked.contains(name) => {}
                Kind::Table(table) if sections.contains(name.as_str()) => {
                    let keys = table.iter().map(|(key, value)| (format!("{name}.{key}"), &value.origin));
                    found.extend(
                        keys.filter(|(key, _)| !self.asked.contains(key)).map(|(key, at)| self.unknown(key, at)),
                    );
                }
                Kind::Table(_) => {
                    let hint =
                        nearest(name, sections.iter().copied()).map(|known| format!("; did you mean [{known}]?"));
                    let message = format!("there is no such section{}", hint.unwrap_or_default());
                    found.push((name.clone(), origin.clone(), message));
                }
                _ if sections.contains(name.as_str()) => {
                    found.push((name.clone(), origin.clone(), format!("is a section: write [{name}]")));
                }
                _ => found.push(self.unknown(name.clone(), origin)),
            }
        }
        let env = self.env.iter().filter(|(key, _)| !self.asked.contains(*key));
        found.extend(env.map(|(key, value)| self.unknown(key.clone(), &value.origin)));
        found
    }

    /// What to say about an unknown key.
    fn unknown(&self, key: String, origin: &Origin) -> (String, Origin, String) {
        let nearest = nearest(&key, self.asked.iter().map(String::as_str));
        let hint = nearest.map(|known| match origin {
            Origin::Env(_) => format!("; did you mean {PREFIX}{}?", known.replace('.', "__").to_uppercase()),
            _ => format!("; did you mean {known}?"),
        });
        (key, origin.clone(), format!("there is no such key{}", hint.unwrap_or_default()))
    }

    fn default(&self, section: &str, key: &str) -> &Value {
        match self.defaults.get(section).map(|table| &table.kind) {
            Some(Kind::Table(table)) if table.contains_key(key) => &table[key],
            _ => unreachable!("config.toml has a default for {section}.{key}: every start reads every key"),
        }
    }
}

/// A table of the configuration while it is read.
pub(super) struct Section<'a> {
    layers: &'a mut Layers,
    name: &'static str,
}

impl Section<'_> {
    /// The value of a key. What is wrong with it is noted, and the default stands in until the end, where it counts.
    pub(super) fn read<T>(&mut self, key: &'static str, read: impl Fn(&Value) -> Read<T>) -> T {
        let path = self.path(key);
        self.layers.asked.insert(path.clone());
        let value = self.effective(key);
        read(&value).unwrap_or_else(|message| {
            self.layers.problem(&value.origin, &path, &message);
            let default = read(self.layers.default(self.name, key));
            default.unwrap_or_else(|error| unreachable!("the default of {path} is valid: {error}"))
        })
    }

    /// Notes what is wrong between several keys, at the first of them that somebody wrote.
    pub(super) fn problem(&mut self, keys: &[&'static str], message: &str) {
        let written = keys.iter().find(|key| !matches!(self.effective(key).origin, Origin::Default));
        let key = written.or(keys.first()).copied().unwrap_or_default();
        let origin = self.effective(key).origin;
        self.layers.problem(&origin, &self.path(key), message);
    }

    fn path(&self, key: &str) -> String {
        format!("{}.{key}", self.name)
    }

    /// What the last layer that has the key says.
    fn effective(&self, key: &str) -> Value {
        let file = match self.layers.user.get(self.name).map(|section| &section.kind) {
            Some(Kind::Table(table)) => table.get(key),
            _ => None,
        };
        let written = self.layers.env.get(&self.path(key)).or(file);
        written.unwrap_or_else(|| self.layers.default(self.name, key)).clone()
    }
}

/// How an error says where something was written: `config.toml:12:3: server.listen`, or the variable's name.
fn place(origin: &Origin, file: &str, key: Option<&str>) -> String {
    let place = match origin {
        Origin::Env(name) => return name.clone(),
        Origin::File(line, column) => format!("{file}:{line}:{column}"),
        Origin::Default => "default".to_owned(),
    };
    key.map_or_else(|| place.clone(), |key| format!("{place}: {key}"))
}

/// The tables of a TOML text, and what is wrong with it.
fn read_toml(text: &str) -> (Table, Vec<(Origin, String)>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let at = |error: &toml::de::Error| locate(text, error.span().map_or(0, |span| span.start));
    let errors: Vec<_> = errors.iter().map(|error| (at(error), error.message().to_owned())).collect();
    // What could be recovered from a broken text says nothing reliable about its keys.
    let table = if errors.is_empty() { read_table(text, table.get_ref()) } else { Table::new() };
    (table, errors)
}

fn read_table(text: &str, table: &DeTable<'_>) -> Table {
    let values = table.iter().map(|(key, value)| {
        let origin = locate(text, key.span().start);
        (key.get_ref().to_string(), Value { kind: read_kind(text, value.get_ref()), origin })
    });
    values.collect()
}

fn read_kind(text: &str, value: &DeValue<'_>) -> Kind {
    match value {
        DeValue::String(string) => Kind::Text(string.to_string()),
        DeValue::Integer(integer) => {
            Kind::Integer(i128::from_str_radix(integer.as_str(), integer.radix()).unwrap_or(i128::MAX))
        }
        DeValue::Float(_) => Kind::Float,
        DeValue::Boolean(boolean) => Kind::Boolean(*boolean),
        DeValue::Datetime(_) => Kind::Time,
        DeValue::Array(items) => Kind::List(
            items
                .iter()
                .map(|item| Value { kind: read_kind(text, item.get_ref()), origin: locate(text, item.span().start) })
                .collect(),
        ),
        DeValue::Table(table) => Kind::Table(read_table(text, table)),
    }
}

/// The line and column, counted from 1, of a byte of a text.
fn locate(text: &str, byte: usize) -> Origin {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Origin::File(before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

impl Value {
    /// The same value, written nowhere but in Feedline.
    fn into_default(self) -> Self {
        let kind = match self.kind {
            Kind::Table(table) => Kind::Table(table.into_iter().map(|(key, v)| (key, v.into_default())).collect()),
            other => other,
        };
        Self { kind, origin: Origin::Default }
    }
}

impl fmt::Debug for Value {
    /// Says what kind it is, never what it says: it may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:?}", self.kind.name(), self.origin)
    }
}

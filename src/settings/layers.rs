//! The layers of the configuration: the embedded defaults, the operator's file, the environment. Later layers take
//! precedence.
//!
//! Sections read their keys from [`Layers`] one by one. A key that no section has read is unknown, which is an error.
//! Every value carries the place where it was written.

use std::collections::BTreeSet;

use super::error::{ConfigError, ConfigProblem};
use super::parse::ParseResult;
use super::suggest::nearest;
use super::value::{ConfigValue, Table, ValueKind, ValueSource, read_toml};

/// The prefix of environment variables.
const PREFIX: &str = "FEEDLINE__";

/// The beginning of variables that are meant to have that prefix.
const SIMILAR_PREFIX: &str = "feedline_";

/// The TOML text with every key and its default.
const DEFAULTS: &str = include_str!("../../config.toml");

/// The operator's file.
#[derive(Clone, Copy)]
pub(crate) struct ConfigFile<'a> {
    /// Its path, for error messages.
    pub(crate) name: &'a str,
    /// Its content.
    pub(crate) text: &'a str,
}

/// All layers, the keys that were read, and the problems found.
pub(crate) struct Layers {
    /// The path of the operator's file, for error messages.
    file: String,
    defaults: Table,
    user: Table,
    /// Environment variables by dotted key.
    env: Table,
    /// The dotted keys that a section has read. After all sections were read, these are all valid keys.
    known: BTreeSet<String>,
    /// Other environment variables that begin as Feedline's do, in lower case, with their names.
    similar_env: Vec<(String, String)>,
    problems: Vec<ConfigProblem>,
}

impl Layers {
    /// Parses the file, and collects the environment variables with Feedline's prefix.
    pub(crate) fn new(file: ConfigFile<'_>, env: impl Iterator<Item = (String, String)>) -> Self {
        let mut problems = Vec::new();
        let (user, errors) = read_toml(file.text);
        for (source, message) in errors {
            problems.push(ConfigProblem { place: place(&source, file.name, None), message });
        }
        let mut layers = Self {
            file: file.name.to_owned(),
            defaults: read_toml(DEFAULTS).0.into_iter().map(|(key, value)| (key, value.into_default())).collect(),
            user,
            env: Table::new(),
            known: BTreeSet::new(),
            similar_env: Vec::new(),
            problems,
        };
        for (name, text) in env {
            if let Some(key) = name.strip_prefix(PREFIX) {
                // Only names in capitals are converted, others are unknown keys: with two spellings of one key, it
                // would be unclear which takes precedence.
                let key = if key.to_uppercase() == key { key.to_lowercase() } else { key.to_owned() };
                let value = ConfigValue { kind: ValueKind::Env(text), source: ValueSource::Env(name) };
                layers.env.insert(key.replace("__", "."), value);
            } else if let Some(rest) = name.to_lowercase().strip_prefix(SIMILAR_PREFIX) {
                layers.similar_env.push((rest.trim_start_matches('_').to_owned(), name));
            }
        }
        layers
    }

    /// A reader for the keys of one section.
    pub(crate) fn section(&mut self, name: &'static str) -> SectionReader<'_> {
        SectionReader { layers: self, name }
    }

    /// The value of a key outside of the sections, from the environment or the file.
    pub(crate) fn whole(&mut self, key: &'static str) -> Option<ConfigValue> {
        self.known.insert(key.to_owned());
        self.env.get(key).or_else(|| self.user.get(key)).cloned()
    }

    /// Reports a problem with the value of a dotted key.
    pub(crate) fn problem(&mut self, source: &ValueSource, key: &str, message: &str) {
        self.problems.push(ConfigProblem { place: place(source, &self.file, Some(key)), message: message.to_owned() });
    }

    /// Finishes reading.
    ///
    /// # Errors
    /// All problems that were reported, and one for each unknown key.
    pub(crate) fn finish(mut self) -> Result<(), ConfigError> {
        for (key, source, message) in self.unknown_keys() {
            self.problem(&source, &key, &message);
        }
        for (key, name) in std::mem::take(&mut self.similar_env) {
            // Other variables with this beginning may be of the system: Kubernetes sets FEEDLINE_PORT.
            if let Some(known) = self.known.iter().find(|known| known.replace('.', "_") == key.replace("__", "_")) {
                let known = known.replace('.', "__").to_uppercase();
                let message = format!("is not read; did you mean {PREFIX}{known}?");
                self.problem(&ValueSource::Env(name), &key, &message);
            }
        }
        if self.problems.is_empty() { Ok(()) } else { Err(ConfigError { problems: self.problems }) }
    }

    /// Keys that no section has read, each with its place and an error message.
    fn unknown_keys(&self) -> Vec<(String, ValueSource, String)> {
        let sections: BTreeSet<&str> = self.known.iter().filter_map(|key| Some(key.split_once('.')?.0)).collect();
        let mut found = Vec::new();
        for (name, value) in &self.user {
            let source = &value.source;
            match &value.kind {
                _ if self.known.contains(name) => {}
                ValueKind::Table(table) if sections.contains(name.as_str()) => {
                    let keys = table.iter().map(|(key, value)| (format!("{name}.{key}"), &value.source));
                    found.extend(
                        keys.filter(|(key, _)| !self.known.contains(key)).map(|(key, at)| self.unknown(key, at)),
                    );
                }
                ValueKind::Table(_) => {
                    let hint =
                        nearest(name, sections.iter().copied()).map(|known| format!("; did you mean [{known}]?"));
                    let message = format!("there is no such section{}", hint.unwrap_or_default());
                    found.push((name.clone(), source.clone(), message));
                }
                _ if sections.contains(name.as_str()) => {
                    found.push((name.clone(), source.clone(), format!("is a section: write [{name}]")));
                }
                _ => found.push(self.unknown(name.clone(), source)),
            }
        }
        let env = self.env.iter().filter(|(key, _)| !self.known.contains(*key));
        found.extend(env.map(|(key, value)| self.unknown(key.clone(), &value.source)));
        found
    }

    /// The key, its place, and the error message for an unknown key.
    fn unknown(&self, key: String, source: &ValueSource) -> (String, ValueSource, String) {
        let nearest = nearest(&key, self.known.iter().map(String::as_str));
        let hint = nearest.map(|nearest| match source {
            ValueSource::Env(_) => format!("; did you mean {PREFIX}{}?", nearest.replace('.', "__").to_uppercase()),
            _ => format!("; did you mean {nearest}?"),
        });
        (key, source.clone(), format!("there is no such key{}", hint.unwrap_or_default()))
    }

    fn default(&self, section: &str, key: &str) -> &ConfigValue {
        match self.defaults.get(section).map(|table| &table.kind) {
            Some(ValueKind::Table(table)) if table.contains_key(key) => &table[key],
            _ => unreachable!("config.toml has a default for {section}.{key}: every start reads every key"),
        }
    }
}

/// Reads the keys of one section.
pub(crate) struct SectionReader<'a> {
    layers: &'a mut Layers,
    name: &'static str,
}

impl SectionReader<'_> {
    /// The value of a key. An invalid value is reported and replaced by the default until [`Layers::finish`] fails.
    pub(crate) fn read<T>(&mut self, key: &'static str, read: impl Fn(&ConfigValue) -> ParseResult<T>) -> T {
        let path = self.path(key);
        self.layers.known.insert(path.clone());
        let value = self.effective(key);
        read(&value).unwrap_or_else(|message| {
            self.layers.problem(&value.source, &path, &message);
            let default = read(self.layers.default(self.name, key));
            default.unwrap_or_else(|error| unreachable!("the default of {path} is valid: {error}"))
        })
    }

    /// Reports a conflict between several keys, at the first one that is not a default.
    pub(crate) fn problem(&mut self, keys: &[&'static str], message: &str) {
        let written = keys.iter().find(|key| !matches!(self.effective(key).source, ValueSource::Default));
        let key = written.or(keys.first()).copied().unwrap_or_default();
        let source = self.effective(key).source;
        self.layers.problem(&source, &self.path(key), message);
    }

    fn path(&self, key: &str) -> String {
        format!("{}.{key}", self.name)
    }

    /// The value from the last layer that contains the key.
    fn effective(&self, key: &str) -> ConfigValue {
        let file = match self.layers.user.get(self.name).map(|section| &section.kind) {
            Some(ValueKind::Table(table)) => table.get(key),
            _ => None,
        };
        let written = self.layers.env.get(&self.path(key)).or(file);
        written.unwrap_or_else(|| self.layers.default(self.name, key)).clone()
    }
}

/// The place in an error message: `config.toml:12:3: server.listen`, or the name of the environment variable.
fn place(source: &ValueSource, file: &str, key: Option<&str>) -> String {
    let place = match source {
        ValueSource::Env(name) => return name.clone(),
        ValueSource::File(line, column) => format!("{file}:{line}:{column}"),
        ValueSource::Default => "default".to_owned(),
    };
    key.map_or_else(|| place.clone(), |key| format!("{place}: {key}"))
}

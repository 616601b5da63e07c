//! Namespaces: channels for the application's own data.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use super::layers::{Kind, Layers, Origin, Table, Value};
use super::suggest::nearest;
use super::value::{self, Read};
use crate::model::ChannelKind;

/// A configured namespace. Its channels are `name:anything`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// What its channels' names begin with: 1 to 64 of `a-z 0-9 _ -`. Empty: of the channels without a colon.
    pub name: String,
    /// How many publications a channel keeps; 0: no log, nothing to recover.
    pub history_size: u64,
    /// How long they are kept after the last one. Not zero if and only if the size is not.
    pub history_ttl: Duration,
    /// Which clients may subscribe without a subscription token; never [`Access::Subscriber`].
    pub subscribe: Access,
    /// Which clients may publish.
    pub publish: Access,
    /// Which clients may read the history.
    pub history: Access,
    /// Whether clients may ask who is there.
    pub presence: bool,
    /// Whether subscribers hear who comes and goes.
    pub join_leave: bool,
}

/// Which clients may do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Every client.
    Anyone,
    /// Clients of a signed-in user.
    User,
    /// Clients that are subscribed to the channel.
    Subscriber,
    /// None of them.
    Nobody,
}

impl Access {
    const WORDS: &'static [(&'static str, Self)] =
        &[("anyone", Self::Anyone), ("user", Self::User), ("subscriber", Self::Subscriber), ("nobody", Self::Nobody)];
}

/// Reads `[[namespaces]]`, or the environment's JSON array in its place.
pub(super) fn read(layers: &mut Layers) -> Vec<Namespace> {
    let Some(value) = layers.whole("namespaces") else { return Vec::new() };
    let items = match tables(&value) {
        Ok(items) => items,
        Err(message) => {
            layers.problem(&value.origin, "namespaces", &message);
            return Vec::new();
        }
    };
    let mut names = HashSet::new();
    let mut namespaces = Vec::new();
    for (i, (origin, table)) in items.into_iter().enumerate() {
        let path = format!("namespaces[{i}]");
        let mut item = Item { table, path, asked: BTreeSet::new(), problems: Vec::new() };
        let namespace = Namespace::read(&mut item);
        item.unknown();
        // A name that could not be read is empty, too.
        let named = item.problems.iter().all(|(_, key, _)| !key.ends_with(".name"));
        if named && !names.insert(namespace.name.clone()) {
            item.wrong("name", format!("there is another namespace {:?}", namespace.name));
        }
        for (at, key, message) in item.problems {
            // A variable has one place for all that it says, so the path is what tells the items apart.
            let message = if matches!(origin, Origin::Env(_)) { format!("{key}: {message}") } else { message };
            layers.problem(at.as_ref().unwrap_or(&origin), &key, &message);
        }
        namespaces.push(namespace);
    }
    namespaces
}

impl Namespace {
    fn read(item: &mut Item) -> Self {
        let namespace = Self {
            name: item.read("name", name, None),
            history_size: item.read("history_size", value::whole(0..=100_000), Some(0)),
            history_ttl: item.read("history_ttl", value::duration("0s"..="365d"), Some(Duration::ZERO)),
            subscribe: item.read("subscribe", subscribe, Some(Access::Anyone)),
            publish: item.read("publish", value::one_of(Access::WORDS), Some(Access::Nobody)),
            history: item.read("history", value::one_of(Access::WORDS), Some(Access::Subscriber)),
            presence: item.read("presence", value::flag, Some(false)),
            join_leave: item.read("join_leave", value::flag, Some(false)),
        };
        if (namespace.history_size == 0) != namespace.history_ttl.is_zero() && item.problems.is_empty() {
            let lone = if namespace.history_size == 0 { "history_ttl" } else { "history_size" };
            item.wrong(lone, "history_size and history_ttl need each other: set both, or neither".into());
        }
        namespace
    }
}

fn name(value: &Value) -> Read<String> {
    let name = value::text(value)?;
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b));
    if !plain || name.len() > 64 {
        return Err(format!("expected up to 64 of a-z 0-9 _ -, not {name:?}"));
    }
    if ChannelKind::ALL.iter().any(|kind| kind.as_str() == name) {
        return Err(format!("{name:?} is one of Feedline's own"));
    }
    Ok(name)
}

fn subscribe(value: &Value) -> Read<Access> {
    match value::one_of(Access::WORDS)(value)? {
        Access::Subscriber => {
            Err("only a subscriber could subscribe, so nobody could: say \"anyone\", \"user\" or \"nobody\"".into())
        }
        access => Ok(access),
    }
}

/// The tables of a list, each with where it was written.
fn tables(value: &Value) -> Result<Vec<(Origin, Table)>, String> {
    let list = match &value.kind {
        Kind::Env(text) => from_json(text, &value.origin)?,
        Kind::List(items) => items.clone(),
        _ => return Err("expected a list of tables: [[namespaces]]".into()),
    };
    list.into_iter()
        .map(|item| match item.kind {
            Kind::Table(table) => Ok((item.origin, table)),
            other => Err(format!("expected a list of tables, not of {}", other.name())),
        })
        .collect()
}

fn from_json(text: &str, origin: &Origin) -> Result<Vec<Value>, String> {
    let items: Vec<serde_json::Value> =
        serde_json::from_str(text).map_err(|error| format!("expected a JSON array of objects: {error}"))?;
    Ok(items.into_iter().map(|item| Value::from_json(item, origin)).collect())
}

/// One namespace while it is read.
struct Item {
    table: Table,
    /// `namespaces[0]`.
    path: String,
    asked: BTreeSet<&'static str>,
    /// Where, unless at the item itself; which key; what.
    problems: Vec<(Option<Origin>, String, String)>,
}

impl Item {
    /// The value of a key, or its default; without a default the key must be there. What is wrong is noted.
    fn read<T: Default>(&mut self, key: &'static str, read: impl Fn(&Value) -> Read<T>, default: Option<T>) -> T {
        self.asked.insert(key);
        let value = match (self.table.get(key), default) {
            (Some(value), _) => read(value),
            (None, Some(default)) => return default,
            (None, None) => Err("is missing".into()),
        };
        value.unwrap_or_else(|message| {
            self.wrong(key, message);
            T::default()
        })
    }

    fn wrong(&mut self, key: &str, message: String) {
        let origin = self.table.get(key).map(|value| value.origin.clone());
        self.problems.push((origin, format!("{}.{key}", self.path), message));
    }

    /// Notes the keys that nobody asked for.
    fn unknown(&mut self) {
        let unknown: Vec<String> =
            self.table.keys().filter(|key| !self.asked.contains(key.as_str())).cloned().collect();
        for key in unknown {
            let hint = nearest(&key, self.asked.iter().copied()).map(|known| format!("; did you mean {known}?"));
            self.wrong(&key, format!("there is no such key{}", hint.unwrap_or_default()));
        }
    }
}

impl Default for Access {
    /// The one that opens nothing.
    fn default() -> Self {
        Self::Nobody
    }
}

impl Value {
    fn from_json(json: serde_json::Value, origin: &Origin) -> Self {
        use serde_json::Value as Json;
        let kind = match json {
            Json::String(text) => Kind::Text(text),
            Json::Bool(flag) => Kind::Boolean(flag),
            Json::Number(number) => number.as_i128().map_or(Kind::Float, Kind::Integer),
            Json::Array(items) => Kind::List(items.into_iter().map(|item| Self::from_json(item, origin)).collect()),
            Json::Object(fields) => {
                Kind::Table(fields.into_iter().map(|(key, field)| (key, Self::from_json(field, origin))).collect())
            }
            Json::Null => Kind::Null,
        };
        Self { kind, origin: origin.clone() }
    }
}

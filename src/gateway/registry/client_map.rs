//! A map from connection ids to values, for the connections of one user. Most users have one connection: it takes no
//! table of its own.

use std::collections::HashMap;
use std::sync::Arc;

/// Values by connection id.
#[derive(Debug, Default)]
pub(crate) enum ClientMap<T> {
    /// Nothing.
    #[default]
    Empty,
    /// A single value.
    One(Arc<str>, T),
    /// Several values. It stays a table when all but one are removed.
    Many(HashMap<Arc<str>, T>),
}

impl<T> ClientMap<T> {
    /// Whether there is no value.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::One(..) => false,
            Self::Many(table) => table.is_empty(),
        }
    }

    /// Adds a value, or replaces the one of this client.
    pub(crate) fn insert(&mut self, client: Arc<str>, value: T) {
        *self = match std::mem::take(self) {
            Self::Empty => Self::One(client, value),
            Self::One(first, _) if first == client => Self::One(client, value),
            Self::One(first, other) => Self::Many(HashMap::from([(first, other), (client, value)])),
            Self::Many(mut table) => {
                table.insert(client, value);
                Self::Many(table)
            }
        };
    }

    /// Removes the value of a client.
    pub(crate) fn remove(&mut self, client: &str) {
        match self {
            Self::One(only, _) if **only == *client => *self = Self::Empty,
            Self::Empty | Self::One(..) => {}
            Self::Many(table) => drop(table.remove(client)),
        }
    }

    /// The value of a client.
    pub(crate) fn get_mut(&mut self, client: &str) -> Option<&mut T> {
        match self {
            Self::One(only, value) if **only == *client => Some(value),
            Self::Empty | Self::One(..) => None,
            Self::Many(table) => table.get_mut(client),
        }
    }

    /// All clients with their values, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &T)> {
        let (one, many) = match self {
            Self::Empty => (None, None),
            Self::One(client, value) => (Some((client, value)), None),
            Self::Many(table) => (None, Some(table.iter())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(map: &ClientMap<u8>) -> Vec<(&str, u8)> {
        let mut all: Vec<_> = map.iter().map(|(client, value)| (&**client, *value)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn holds_none_one_and_many() {
        let mut map = ClientMap::default();
        assert!(map.is_empty() && map.get_mut("a").is_none() && content(&map).is_empty());
        map.insert("a".into(), 1);
        map.insert("a".into(), 2);
        assert!(matches!(map, ClientMap::One(..)) && !map.is_empty());
        map.remove("b");
        assert!(map.get_mut("b").is_none());
        assert_eq!(content(&map), [("a", 2)]);
        map.insert("b".into(), 3);
        map.insert("b".into(), 4);
        *map.get_mut("a").expect("it is there") += 5;
        assert_eq!(content(&map), [("a", 7), ("b", 4)]);
        map.remove("a");
        map.remove("a");
        assert_eq!(content(&map), [("b", 4)]);
        map.remove("b");
        assert!(map.is_empty() && content(&map).is_empty());
        map.insert("c".into(), 6);
        assert_eq!(content(&map), [("c", 6)]);
        let mut one = ClientMap::default();
        one.insert("a".into(), 1);
        one.remove("a");
        assert!(one.is_empty());
    }
}

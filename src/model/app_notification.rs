//! Notifications of the application's own, which its backend sends.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{PostId, UserId};

/// What the application notifies of. Stores keep it as JSON: members may be added, but never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppNotification {
    /// The number of the request, from the ids of posts.
    pub id: PostId,
    /// The user on whose behalf; `None`: the application's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<UserId>,
    /// Its kind: `app.` and a name.
    pub kind: String,
    /// Notifications of the same kind and key are one group; `None`: it is a group of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The title.
    pub title: String,
    /// The text.
    pub body: String,
    /// Where it leads to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What the application wants its clients to know beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Map<String, Value>>,
    /// Whether devices get a push.
    pub push: bool,
}

/// Whether a text is a kind of the application's: `app.` and a name of 1 to 60 of `a-z 0-9 _ - .`.
pub fn is_app_kind(kind: &str) -> bool {
    let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_-.".contains(&c);
    kind.strip_prefix("app.").is_some_and(|name| (1..=60).contains(&name.len()) && name.bytes().all(is_plain))
}

/// A group of notifications of the application: those of one kind and key, or a single one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppGroup(u64);

impl AppGroup {
    /// The group of a notification.
    pub fn of(notification: &AppNotification) -> Self {
        let name = match &notification.key {
            // No text contains a zero.
            Some(key) => format!("{}\0{key}", notification.kind),
            None => format!("\0{}", notification.id.0),
        };
        let digest: [u8; 32] = Sha256::digest(name).into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        Self(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    /// Its form in stores.
    pub fn to_text(self) -> String {
        format!("g{:016x}", self.0)
    }

    /// Parses the form of stores.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('g').filter(|digits| digits.len() == 16)?;
        u64::from_str_radix(digits, 16).ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_of_one_kind_and_key_are_one_group() {
        let of = |kind: &str, key: Option<&str>, id| {
            let kind = kind.to_owned();
            let key = key.map(str::to_owned);
            let title = String::new();
            let body = String::new();
            let id = PostId(id);
            AppGroup::of(&AppNotification { id, from: None, kind, key, title, body, url: None, data: None, push: true })
        };
        assert_eq!(of("app.a", Some("k"), 1), of("app.a", Some("k"), 2));
        for (one, other) in [
            (of("app.a", Some("k"), 1), of("app.b", Some("k"), 1)),
            (of("app.a", Some("k"), 1), of("app.a", Some("l"), 1)),
            (of("app.a", None, 1), of("app.a", None, 2)),
            (of("app.a", None, 1), of("app.a", Some("1"), 1)),
        ] {
            assert_ne!(one, other);
        }
        let group = of("app.a", None, 1);
        assert_eq!(AppGroup::parse(&group.to_text()), Some(group));
        assert_eq!(AppGroup::parse("g12"), None);
    }
}

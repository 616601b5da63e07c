//! Lists as clients write them.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::feed::error::{FeedError, Result};
use crate::feed::expand::ExpandRequest;
use crate::feed::input::TOPIC_RULE;
use crate::feed::paging::PageRequest;
use crate::feed::patch::settable;
use crate::feed::query_values::number;
use crate::ledger::ListChange;
use crate::model::{ListId, ListMember, Position, UserId};
use crate::text::{is_blank, topic_name};

/// The maximal number of characters of the name of a list.
const MAX_NAME: usize = 50;

/// A new list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListDraft {
    /// The name, 1 to 50 characters.
    name: String,
    /// Whether the posts and reposts of its users are left out of the timeline.
    #[serde(default)]
    pub(super) exclusive: bool,
}

/// A change of a list. Absent members keep their values.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListUpdate {
    /// The number of the list.
    #[serde(deserialize_with = "number")]
    id: u64,
    /// The name, 1 to 50 characters.
    #[serde(default)]
    #[schemars(with = "String", transform = settable)]
    name: Option<String>,
    /// Whether the posts and reposts of its users are left out of the timeline.
    #[serde(default)]
    #[schemars(with = "bool", transform = settable)]
    exclusive: Option<bool>,
}

/// Selects a list of the caller.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneList {
    /// The number of the list.
    #[serde(deserialize_with = "number")]
    id: u64,
}

/// A member of a list: exactly one of `user` and `topic` is present.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListMemberInput {
    /// The number of the list.
    #[serde(deserialize_with = "number")]
    id: u64,
    /// A user.
    #[serde(default)]
    user: Option<UserId>,
    /// A topic.
    #[serde(default)]
    topic: Option<String>,
}

/// A page of the members of a list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListMembers {
    /// The number of the list.
    #[serde(deserialize_with = "number")]
    id: u64,
    #[serde(flatten)]
    pub(super) page: PageRequest,
}

/// A page of the posts of a list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListPosts {
    /// The number of the list.
    #[serde(deserialize_with = "number")]
    id: u64,
    #[serde(flatten)]
    pub(super) page: PageRequest,
    #[serde(flatten)]
    pub(super) expand: ExpandRequest,
}

/// A position in the log of a list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListPosition {
    /// The number of the list.
    #[serde(deserialize_with = "number")]
    id: u64,
    /// The last offset seen.
    #[serde(deserialize_with = "number")]
    offset: u64,
    /// The epoch of the log.
    epoch: String,
}

impl ListPosition {
    pub(super) fn id(&self) -> ListId {
        ListId(self.id)
    }

    pub(super) fn position(self) -> Position {
        Position { offset: self.offset, epoch: self.epoch.into() }
    }
}

impl ListDraft {
    /// The name, without the space around it.
    ///
    /// # Errors
    /// If it is not valid.
    pub(super) fn name(&self) -> Result<&str> {
        checked_name(&self.name)
    }
}

impl ListUpdate {
    pub(super) fn id(&self) -> ListId {
        ListId(self.id)
    }

    /// The change.
    ///
    /// # Errors
    /// If a member is not valid.
    pub(super) fn check(&self) -> Result<ListChange> {
        let name = self.name.as_deref().map(checked_name).transpose()?;
        Ok(ListChange { name: name.map(str::to_owned), exclusive: self.exclusive })
    }
}

impl OneList {
    pub(super) fn id(&self) -> ListId {
        ListId(self.id)
    }
}

impl ListMembers {
    pub(super) fn id(&self) -> ListId {
        ListId(self.id)
    }
}

impl ListPosts {
    pub(super) fn id(&self) -> ListId {
        ListId(self.id)
    }
}

impl ListMemberInput {
    pub(super) fn id(&self) -> ListId {
        ListId(self.id)
    }

    /// The member.
    ///
    /// # Errors
    /// If there is not exactly one, or the topic has no valid name.
    pub(super) fn member(&self) -> Result<ListMember> {
        match (&self.user, &self.topic) {
            (Some(user), None) => Ok(ListMember::User(user.clone())),
            (None, Some(topic)) => {
                let name = topic_name(topic.trim().trim_start_matches(['#', '＃']));
                Ok(ListMember::Topic(name.ok_or(FeedError::invalid("topic", TOPIC_RULE))?))
            }
            _ => Err(FeedError::invalid("user", "name one user or one topic")),
        }
    }
}

fn checked_name(name: &str) -> Result<&str> {
    let name = name.trim();
    if name.chars().count() > MAX_NAME {
        let what = "characters of the name of a list";
        return Err(FeedError::LimitExceeded { field: "name", what, most: MAX_NAME as u64 });
    }
    if is_blank(name) {
        return Err(FeedError::invalid("name", "a list has a name that can be seen"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_bounded() {
        assert_eq!(checked_name("  close friends ").unwrap(), "close friends");
        assert_eq!(checked_name(&"é".repeat(50)).unwrap().chars().count(), 50);
        for refused in ["", " ", "\u{200b}", &"é".repeat(51)] {
            assert!(checked_name(refused).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn a_member_is_a_user_or_a_topic() {
        let member = |text: &str| serde_json::from_str::<ListMemberInput>(text).unwrap().member();
        assert_eq!(member(r##"{"id":1,"topic":"#Rust"}"##).unwrap(), ListMember::Topic("rust".into()));
        assert!(matches!(member(r#"{"id":"1","user":"bo"}"#).unwrap(), ListMember::User(_)));
        for refused in [r#"{"id":1}"#, r#"{"id":1,"user":"bo","topic":"rust"}"#, r#"{"id":1,"topic":"a b"}"#] {
            assert!(member(refused).is_err(), "{refused}");
        }
    }
}

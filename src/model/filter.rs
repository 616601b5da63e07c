//! Filters: the words that a user does not want to read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Millis;

/// The number of a filter. Later filters have larger ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct FilterId(pub u64);

/// What happens to content with a word of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FilterAction {
    /// It is left out.
    Hide,
    /// It is marked with the filter: `filtered` has its id.
    Warn,
}

impl FilterAction {
    /// Its name, in replies and in ledgers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hide => "hide",
            Self::Warn => "warn",
        }
    }

    /// Parses a name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Hide, Self::Warn].into_iter().find(|action| action.as_str() == name)
    }
}

/// A place where filters apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FilterContext {
    /// The timeline, and alerts about posts.
    Home,
    /// The lists of the user.
    Lists,
    /// The posts of a topic, and the public posts of all users.
    Topics,
    /// The comments of posts.
    Comments,
    /// Notifications, their pushes, and alerts about posts.
    Notifications,
}

impl FilterContext {
    /// All contexts.
    pub const ALL: [Self; 5] = [Self::Home, Self::Lists, Self::Topics, Self::Comments, Self::Notifications];

    /// Its name, in replies and in ledgers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Lists => "lists",
            Self::Topics => "topics",
            Self::Comments => "comments",
            Self::Notifications => "notifications",
        }
    }

    /// Parses a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|context| context.as_str() == name)
    }
}

/// A filter of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Filter {
    /// Its number.
    pub id: FilterId,
    /// The words and phrases, without regard to case and width; `#name` is a topic.
    pub words: Vec<String>,
    /// What happens to content with one of them.
    pub action: FilterAction,
    /// Where it applies.
    #[serde(rename = "in")]
    pub contexts: Vec<FilterContext>,
    /// Whether a match begins and ends at the bounds of words. Scripts without spaces between words have none.
    pub whole_word: bool,
    /// When it ends by itself, in Unix milliseconds; absent: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// When it was made, in Unix milliseconds.
    pub created_at: Millis,
}

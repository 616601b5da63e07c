//! What is between a reader and an author.

use serde::{Deserialize, Serialize};

/// What one person puts between themselves and another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restriction {
    /// I do not show my posts to them.
    Hide,
    /// I do not look at theirs.
    Mute,
    /// Both, and neither follows the other any more.
    Block,
}

impl Restriction {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Hide, Self::Mute, Self::Block];

    /// As ledgers write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hide => "hide",
            Self::Mute => "mute",
            Self::Block => "block",
        }
    }
}

/// All that is between a reader and an author that says what the one may see of the other's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Relation {
    /// The reader follows the author.
    pub follows: bool,
    /// The author follows the reader.
    pub followed: bool,
    /// The author hides from the reader.
    pub hidden: bool,
    /// The reader mutes the author.
    pub muted: bool,
    /// The reader blocks the author.
    pub blocks: bool,
    /// The author blocks the reader.
    pub blocked: bool,
}

impl Relation {
    /// Whether nothing of the author's is for the reader, wherever it is.
    pub fn is_barred(self) -> bool {
        self.hidden || self.blocks || self.blocked
    }
}

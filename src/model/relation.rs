//! Relations between a reader and an author.

use serde::{Deserialize, Serialize};

use super::Standing;

/// A restriction by one user, the maker, against another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restriction {
    /// The maker's posts are hidden from the other user.
    Hide,
    /// The other user's posts are hidden from the maker.
    Mute,
    /// Both, and the follows between the two end.
    Block,
    /// The other user's reposts are hidden from the maker's timeline.
    Reposts,
    /// The other user is in an exclusive list of the maker: their posts and reposts are left out of the maker's
    /// timeline.
    Listed,
}

impl Restriction {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Hide, Self::Mute, Self::Block, Self::Reposts, Self::Listed];

    /// Its name in ledgers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hide => "hide",
            Self::Mute => "mute",
            Self::Block => "block",
            Self::Reposts => "reposts",
            Self::Listed => "listed",
        }
    }
}

/// The relation between a reader and an author. It determines which posts of the author the reader can see.
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
    /// The reader wants no reposts of the author in their timeline.
    pub reposts_off: bool,
    /// The reader has the author in an exclusive list: their posts are not in the reader's timeline.
    pub listed: bool,
    /// The account of the author is locked: their public posts are for followers only.
    pub locked: bool,
    /// The standing of the author. Ledgers leave it [`Standing::Active`]: the node knows it.
    pub standing: Standing,
}

impl Relation {
    /// Whether a restriction between the two keeps the reader from seeing anything of the author, in any place.
    pub fn is_barred(self) -> bool {
        self.hidden || self.has_block()
    }

    /// Whether one of the two blocks the other.
    pub fn has_block(self) -> bool {
        self.blocks || self.blocked
    }
}

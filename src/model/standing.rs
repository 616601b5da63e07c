//! The standing of a user, which the application's backend decides.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The standing of a user. It limits who sees what the user writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// No limit.
    #[default]
    Active,
    /// Only followers see the user's content, and readers that request it by id. No event informs anybody.
    Limited,
    /// Nobody sees anything of the user, except the user.
    Suspended,
}

impl Standing {
    /// Its name in ledgers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Limited => "limited",
            Self::Suspended => "suspended",
        }
    }

    /// Parses a name from a ledger.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Active, Self::Limited, Self::Suspended].into_iter().find(|standing| standing.as_str() == text)
    }
}

//! Members of a change (`PATCH`): an absent member stays, `null` clears what can be without a value.

use schemars::Schema;
use serde::{Deserialize, Deserializer};

/// Distinguishes `null` (`Some(None)`) from an absent member (`None`, by `#[serde(default)]`).
pub(crate) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// The members that `null` clears in some change. In other members, `null` counts as absent.
pub(crate) const CLEARABLE_MEMBERS: [&str; 6] = ["avatar", "bio", "data", "location", "media", "until"];

/// The keyword of such members, for the documents of the contract.
pub(crate) const CLEARABLE: &str = "x-clearable";

/// Describes a member that can be absent and cannot be `null`.
pub(crate) fn settable(schema: &mut Schema) {
    schema.remove("default");
    let meaning = schema.get("description").and_then(|text| text.as_str()).unwrap_or_default();
    schema.insert("description".into(), format!("{meaning} Absent: unchanged.").into());
}

/// Describes such a member. Its schema has no default: a client that sends `null` for each absent member would clear
/// all of them.
pub(crate) fn clearable(schema: &mut Schema) {
    schema.remove("default");
    let meaning = schema.get("description").and_then(|text| text.as_str()).unwrap_or_default();
    let meaning = format!("{meaning} Absent: unchanged. `null`: cleared.");
    schema.insert("description".into(), meaning.into());
    schema.insert(CLEARABLE.into(), true.into());
}

//! Cursors of two texts, for lists that are ordered by a text.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// The cursor of two texts. `list` is the list's own letter; `id` has no space.
pub(crate) fn encode_texts(list: char, id: &str, text: &str) -> String {
    format!("{list}{}", BASE64_URL_SAFE_NO_PAD.encode(format!("{id} {text}")))
}

/// The two texts of a cursor of this list: what [`encode_texts`] took.
pub(crate) fn decode_texts(list: char, cursor: &str) -> Option<(String, String)> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor.strip_prefix(list)?).ok()?;
    let (id, text) = std::str::from_utf8(&bytes).ok()?.split_once(' ')?;
    Some((id.to_owned(), text.to_owned()))
}

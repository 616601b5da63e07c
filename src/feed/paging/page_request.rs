//! The fields `limit` and `cursor` of an input.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::feed::error::{FeedError, Result};
use crate::feed::query_values::{list_length, number, read_number};
use crate::model::{CommentId, PostId};

/// The default number of items of a page. The costs of reads apply to a page of this size.
const DEFAULT_LIMIT: u64 = 20;

/// The largest number of items of a page.
const MAX_LIMIT: u64 = 100;

/// The page that a client requests of a list. Inputs contain it with `#[serde(flatten)]`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct PageRequest {
    /// The number of items, 1 to 100.
    #[serde(default = "default_limit", deserialize_with = "number")]
    #[schemars(range(min = 1, max = 100))]
    limit: u64,
    /// The `next` of the previous page; absent for the first page.
    #[serde(default)]
    cursor: Option<String>,
}

fn default_limit() -> u64 {
    DEFAULT_LIMIT
}

impl PageRequest {
    /// The number of items, and the position after which the page begins; `None` for the first page.
    ///
    /// # Errors
    /// [`FeedError::Invalid`] if the limit is out of range, or the cursor is not one of this list.
    pub(crate) fn decode<C: PageCursor>(&self) -> Result<(usize, Option<C>)> {
        if !(1..=MAX_LIMIT).contains(&self.limit) {
            return Err(FeedError::invalid("limit", format!("limit is 1 to {MAX_LIMIT}")));
        }
        Ok((self.limit as usize, decode_cursor(self.cursor.as_deref())?))
    }
}

/// The number of default pages that an input requests by its `limit` or its `ids`, rounded up: the cost of a read
/// depends on it. The input is not validated yet: a number above the maximum is rejected later, and counts as the
/// maximum here.
pub(crate) fn requested_pages(input: &Value) -> u32 {
    let named = input.get("ids").map(|ids| list_length(ids) as u64);
    let items = named.or_else(|| input.get("limit").and_then(read_number)).unwrap_or(DEFAULT_LIMIT);
    u32::try_from(items.clamp(1, MAX_LIMIT).div_ceil(DEFAULT_LIMIT)).unwrap_or(1)
}

/// A position in a list. Its text is opaque to clients; the first letter differs between kinds of lists.
pub(crate) trait PageCursor: Sized {
    /// Parses the text of a client. `None` if it is not a position of this list.
    fn decode(text: &str) -> Option<Self>;

    /// The text for the client.
    fn encode(&self) -> String;
}

/// Below this post, in a list of posts in order of id.
impl PageCursor for PostId {
    fn decode(text: &str) -> Option<Self> {
        Self::parse(text.strip_prefix('p')?)
    }

    fn encode(&self) -> String {
        format!("p{self}")
    }
}

/// Below this comment, in a list of comments in order of id.
impl PageCursor for CommentId {
    fn decode(text: &str) -> Option<Self> {
        Self::parse(text.strip_prefix('c')?)
    }

    fn encode(&self) -> String {
        format!("c{self}")
    }
}

/// Below this sequence number, in a list in the order in which the ledger stored its rows.
impl PageCursor for i64 {
    fn decode(text: &str) -> Option<Self> {
        text.strip_prefix('e')?.parse().ok()
    }

    fn encode(&self) -> String {
        format!("e{self}")
    }
}

/// The position of a page; `None` for the first page.
///
/// # Errors
/// [`FeedError::Invalid`] if the text is not a position of this list.
pub(crate) fn decode_cursor<C: PageCursor>(text: Option<&str>) -> Result<Option<C>> {
    let wrong = || FeedError::invalid("cursor", "this cursor is not one that this list gave");
    text.filter(|text| !text.is_empty()).map(|text| C::decode(text).ok_or_else(wrong)).transpose()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its decoding is tested")]
    struct ListInput {
        id: u64,
        #[serde(flatten)]
        page: PageRequest,
    }

    impl std::fmt::Debug for PageRequest {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{} {:?}", self.limit, self.cursor)
        }
    }

    fn decode(input: Value) -> std::result::Result<ListInput, String> {
        serde_json::from_value(input).map_err(|error| error.to_string())
    }

    #[test]
    fn limits_are_numbers_or_text() {
        for (input, limit) in [(json!({ "id": 1 }), 20), (json!({ "id": 1, "limit": "7" }), 7)] {
            assert_eq!(decode(input).unwrap().page.decode::<i64>().unwrap(), (limit, None));
        }
        for limit in [0, 101] {
            let page = decode(json!({ "id": 1, "limit": limit })).unwrap().page;
            assert!(page.decode::<i64>().is_err_and(|error| error.field() == Some("limit")), "{limit}");
        }
        for limit in [json!(-1), json!("x"), json!(null), json!(1.5)] {
            assert!(decode(json!({ "id": 1, "limit": limit })).unwrap_err().contains("a whole number"), "{limit}");
        }
    }

    #[test]
    fn cursors_are_those_of_their_list() {
        let page = |cursor: &str| decode(json!({ "id": 1, "cursor": cursor })).unwrap().page;
        assert_eq!(page(&7_i64.encode()).decode().unwrap(), (20, Some(7_i64)));
        assert_eq!(page(&PostId(7).encode()).decode().unwrap(), (20, Some(PostId(7))));
        assert_eq!(page(&CommentId(7).encode()).decode().unwrap(), (20, Some(CommentId(7))));
        assert_eq!(page("").decode::<i64>().unwrap(), (20, None));
        assert!(page("p7").decode::<i64>().is_err_and(|error| error.field() == Some("cursor")));
    }

    #[test]
    fn fields_beside_those_of_a_page_are_checked() {
        assert!(decode(json!({ "id": 1, "limt": 3 })).unwrap_err().contains("unknown field `limt`"));
        assert!(decode(json!({ "limit": 3 })).unwrap_err().contains("missing field `id`"));
    }

    #[test]
    fn the_pages_of_an_input_are_counted_in_any_form() {
        for (input, pages) in [
            (json!({}), 1),
            (json!({ "limit": 20 }), 1),
            (json!({ "limit": "21" }), 2),
            (json!({ "limit": 1_000_000 }), 5),
            (json!({ "limit": 0 }), 1),
            (json!({ "limit": [] }), 1),
            (json!({ "ids": [1, 2] }), 1),
            (json!({ "ids": vec![1; 21] }), 2),
            (json!({ "ids": "1,".repeat(40) }), 3),
            (json!({ "ids": vec![1; 9_000] }), 5),
            (json!({ "ids": 7 }), 1),
        ] {
            assert_eq!(requested_pages(&input), pages, "{input}");
        }
    }
}

//! The query of a request.

use serde_json::{Map, Value};

use crate::feed::FeedError;

/// Parses `limit=20&cursor=p12`, percent-encoded. All values are text; numeric inputs parse their digits. The values of
/// a repeated name are joined by commas: some generated clients send lists so.
///
/// # Errors
/// If it is not percent-encoded UTF-8.
pub(super) fn read_query(query: &str) -> Result<Map<String, Value>, FeedError> {
    let mut input = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (percent_decode(name), percent_decode(value)) else {
            return Err(FeedError::Invalid { field: None, message: "the query is not percent-encoded UTF-8".into() });
        };
        let joined = input.get(&name).and_then(Value::as_str).map(|before| format!("{before},{value}"));
        input.insert(name, joined.unwrap_or(value).into());
    }
    Ok(input)
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?
            }
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let input = read_query("q=a+b%20c%C3%A9&limit=5&flag&ids=1&ids=2%2C3&ids=4").unwrap();
        let expected = serde_json::json!({ "q": "a b cé", "limit": "5", "flag": "", "ids": "1,2,3,4" });
        assert_eq!(Value::Object(input), expected);
        for wrong in ["a=%", "a=%zz", "a=%ff", "%c3=1"] {
            assert!(read_query(wrong).is_err(), "{wrong}");
        }
    }
}

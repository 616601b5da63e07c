//! Publications for subscribers that asked for deltas: their data is text, either the JSON itself or a patch of the
//! data of the publication before it.

use serde_json::value::RawValue;

use super::Publication;
use super::fossil::fossil_delta;

/// The members of a publication: the data, and those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitMembers<'a> {
    /// The data: JSON.
    pub data: &'a str,
    /// The other members, each with a comma before it.
    pub rest: &'a str,
}

/// Splits the members of a publication. `None` if they are not those of a publication.
pub fn split_members(members: &[u8]) -> Option<SplitMembers<'_>> {
    let members = std::str::from_utf8(members).ok()?.strip_prefix("\"data\":")?;
    let end = match members.as_bytes().first()? {
        b'{' | b'[' | b'"' => {
            let mut values = serde_json::Deserializer::from_str(members).into_iter::<&RawValue>();
            values.next()?.ok()?;
            values.byte_offset()
        }
        _ => members.find(',').unwrap_or(members.len()),
    };
    let (data, rest) = members.split_at_checked(end)?;
    (rest.is_empty() || rest.starts_with(',')).then_some(SplitMembers { data, rest })
}

/// The patch from the data of a publication to that of the next one; `None` if it is not shorter than the data.
pub fn patch(previous: &str, data: &str) -> Option<String> {
    let patch = String::from_utf8(fossil_delta(previous.as_bytes(), data.as_bytes())).ok()?;
    (patch.len() < data.len()).then_some(patch)
}

/// Recovered publications in a row: the first with its whole data, the others with patches where these are shorter.
pub fn chain(publications: Vec<Publication>) -> Vec<Publication> {
    let mut previous: Option<String> = None;
    let chained = publications.into_iter().map(|publication| {
        let inner = publication.get().strip_prefix('{').and_then(|inner| inner.strip_suffix('}'));
        let Some(SplitMembers { data, rest }) = inner.and_then(|inner| split_members(inner.as_bytes())) else {
            tracing::error!("a publication in a log has no data");
            return publication;
        };
        let patched = previous.as_ref().and_then(|previous| patch(previous, data));
        let text = serde_json::Value::from(patched.as_deref().unwrap_or(data));
        let delta = if patched.is_some() { ",\"delta\":true" } else { "" };
        let chained = RawValue::from_string(format!("{{\"data\":{text}{delta}{rest}}}"));
        previous = Some(data.to_owned());
        chained.unwrap_or(publication)
    });
    chained.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::fossil::tests::apply;

    #[test]
    fn members_are_split_behind_the_data() {
        for data in ["1", "-1.5e3", "null", "\"a,\\\"b\"", "[1,{\"info\":2}]", "{\"a\":{\"b\":[]},\"tags\":{}}", "\"\""]
        {
            for rest in ["", ",\"info\":{\"user\":\"a\"}", ",\"tags\":{\"k\":\"v\"},\"offset\":7"] {
                let members = format!("\"data\":{data}{rest}");
                assert_eq!(split_members(members.as_bytes()), Some(SplitMembers { data, rest }), "{members}");
            }
        }
        for wrong in ["", "\"info\":1", "\"data\":", "\"data\":{", "\"data\":{}x"] {
            assert_eq!(split_members(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn recovered_publications_are_chained() {
        let long = |n: u32| format!("{{\"text\":\"{} {n} — é\"}}", "the same words again and again ".repeat(4));
        let data = [long(1), long(2), "3".to_owned(), long(4)];
        let publications = data.iter().enumerate().map(|(at, data)| {
            RawValue::from_string(format!("{{\"data\":{data},\"tags\":{{\"k\":\"v\"}},\"offset\":{}}}", at + 1))
                .unwrap()
        });
        let mut previous = String::new();
        for (at, publication) in chain(publications.collect()).iter().enumerate() {
            let value: serde_json::Value = serde_json::from_str(publication.get()).unwrap();
            assert_eq!((&value["offset"], &value["tags"]["k"]), (&(at + 1).into(), &"v".into()));
            let text = value["data"].as_str().unwrap();
            let is_patch = value.get("delta").is_some();
            assert_eq!(is_patch, at == 1, "{value}");
            let whole = if is_patch { apply(previous.as_bytes(), text.as_bytes()).unwrap() } else { text.into() };
            previous = String::from_utf8(whole).unwrap();
            assert_eq!(previous, data[at]);
        }
    }
}

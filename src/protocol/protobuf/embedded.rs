//! Logs and presence store publications and descriptions of clients as JSON objects. Here they become messages; the
//! application's own data in them stays JSON.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::generated as wire;

/// A publication as JSON.
#[derive(Deserialize)]
struct Publication<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(borrow)]
    info: Option<BorrowedInfo<'a>>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    epoch: String,
    #[serde(default)]
    delta: bool,
}

/// The `ClientInfo` of a client as JSON.
#[derive(Deserialize)]
struct BorrowedInfo<'a> {
    user: String,
    client: String,
    #[serde(borrow, default, deserialize_with = "present")]
    conn_info: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    chan_info: Option<&'a RawValue>,
}

/// Deserializes a member that is present as `Some`, even if its value is `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// The message of a publication: a JSON object.
///
/// # Errors
/// If it is not a publication.
pub(super) fn publication(json: &[u8]) -> Result<wire::Publication, serde_json::Error> {
    let publication: Publication<'_> = serde_json::from_slice(json)?;
    let data = copied(publication.data);
    Ok(publication.with(data))
}

/// The message of a publication whose data is text: a JSON object with a string.
///
/// # Errors
/// If it is not one.
pub(super) fn text_publication(json: &[u8]) -> Result<wire::Publication, serde_json::Error> {
    let publication: Publication<'_> = serde_json::from_slice(json)?;
    let text: String = serde_json::from_str(publication.data.get())?;
    Ok(publication.with(text.into()))
}

impl Publication<'_> {
    fn with(self, data: Bytes) -> wire::Publication {
        let Self { info, tags, offset, epoch, delta, .. } = self;
        let info = info.map(wire::ClientInfo::from);
        wire::Publication { data, info, tags, offset, epoch, delta, ..Default::default() }
    }
}

/// The message of a publication with these members: JSON without the braces.
///
/// # Errors
/// If they are not those of a publication.
pub(super) fn publication_of(members: &[u8]) -> Result<wire::Publication, serde_json::Error> {
    // Events of the feed have only data, and each inbox is a channel with its own push: they are not parsed.
    if let Some(data) = members.strip_prefix(b"\"data\":").filter(|data| !may_have_more_members(data)) {
        return Ok(wire::Publication { data: Bytes::copy_from_slice(data), ..Default::default() });
    }
    publication(&[b"{", members, b"}"].concat())
}

/// Whether `info` or `tags` may follow the data, which may themselves contain members of this name.
fn may_have_more_members(data: &[u8]) -> bool {
    static NAMES: LazyLock<[Finder<'_>; 2]> =
        LazyLock::new(|| [Finder::new(b",\"info\":"), Finder::new(b",\"tags\":")]);
    NAMES.iter().any(|name| name.find(data).is_some())
}

/// The message of an encoded `ClientInfo`.
///
/// # Errors
/// If it is not one.
pub(super) fn client_info(json: &[u8]) -> Result<wire::ClientInfo, serde_json::Error> {
    serde_json::from_slice::<BorrowedInfo<'_>>(json).map(wire::ClientInfo::from)
}

impl From<BorrowedInfo<'_>> for wire::ClientInfo {
    fn from(info: BorrowedInfo<'_>) -> Self {
        let json = |json: Option<&RawValue>| json.map(copied).unwrap_or_default();
        Self { user: info.user, client: info.client, conn_info: json(info.conn_info), chan_info: json(info.chan_info) }
    }
}

fn copied(json: &RawValue) -> Bytes {
    Bytes::copy_from_slice(json.get().as_bytes())
}

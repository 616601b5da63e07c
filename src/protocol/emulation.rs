//! Commands of clients whose transport carries none: they come in HTTP requests beside the stream.

use bytes::Bytes;
use serde::Deserialize;

use super::MalformedFrame;
use super::object::from_object;

/// The body of a request with commands.
#[derive(Debug, PartialEq, Eq)]
pub struct EmulationRequest {
    /// The node with the stream.
    pub node: String,
    /// The session of the stream.
    pub session: String,
    /// The commands.
    pub data: EmulatedData,
}

/// Commands in the form of a frame. The connection decodes them: its encoding need not be that of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmulatedData {
    /// Of JSON.
    Text(String),
    /// Of Protobuf.
    Binary(Bytes),
}

impl EmulatedData {
    /// The size, in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
        }
    }

    /// Whether there are no commands.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[derive(Deserialize)]
struct WireRequest {
    node: String,
    session: String,
    data: String,
}

/// Decodes the JSON body of a request with commands.
pub(super) fn decode_emulation(body: &[u8]) -> Result<EmulationRequest, MalformedFrame> {
    let body = std::str::from_utf8(body).map_err(|_| MalformedFrame)?;
    let WireRequest { node, session, data } = from_object(body).map_err(|_| MalformedFrame)?;
    Ok(EmulationRequest { node, session, data: EmulatedData::Text(data) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Encoding;

    #[test]
    fn both_encodings_carry_the_same() {
        let body = Bytes::from_static(br#"{"session":"s","node":"n","data":"{\"id\":1}\n{}"}"#);
        let data = EmulatedData::Text("{\"id\":1}\n{}".into());
        let expected = EmulationRequest { node: "n".into(), session: "s".into(), data };
        assert_eq!(Encoding::Json.decode_emulation(&body), Ok(expected));
        let body = Bytes::from_static(b"\x0a\x01n\x12\x01s\x1a\x02\x00\x00");
        let data = EmulatedData::Binary(Bytes::from_static(&[0, 0]));
        let expected = EmulationRequest { node: "n".into(), session: "s".into(), data };
        assert_eq!(Encoding::Protobuf.decode_emulation(&body), Ok(expected));
    }

    #[test]
    fn other_bodies_are_malformed() {
        for body in [
            "",
            "{}",
            "null",
            r#"{"session":"s","node":"n"}"#,
            r#"{"session":"s","node":"n","data":{}}"#,
            r#"["n","s","{}"]"#,
        ] {
            let body = Bytes::from_static(body.as_bytes());
            assert_eq!(Encoding::Json.decode_emulation(&body), Err(MalformedFrame));
        }
        let body = Bytes::from_static(b"\x0a\x05n");
        assert_eq!(Encoding::Protobuf.decode_emulation(&body), Err(MalformedFrame));
    }
}

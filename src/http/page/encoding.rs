//! Content encodings: what a client accepts, and how a file is encoded.

use std::io::Write;

use brotli::enc::BrotliEncoderParams;
use flate2::Compression;
use flate2::write::GzEncoder;

/// How the bytes of a file are encoded, the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentEncoding {
    Brotli,
    Gzip,
    /// Not encoded.
    Identity,
}

impl ContentEncoding {
    pub(super) const COMPRESSED: [ContentEncoding; 2] = [ContentEncoding::Brotli, ContentEncoding::Gzip];

    /// The name in `Content-Encoding`; none without an encoding.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            ContentEncoding::Brotli => Some("br"),
            ContentEncoding::Gzip => Some("gzip"),
            ContentEncoding::Identity => None,
        }
    }

    /// Whether one of the values of `Accept-Encoding` is this encoding, with a weight above 0.
    pub(super) fn is_accepted(self, accepted: &[&str]) -> bool {
        let Some(name) = self.name() else { return true };
        accepted.iter().any(|value| {
            let (given, parameters) = value.split_once(';').unwrap_or((value, ""));
            let weight = parameters.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
            given.trim().eq_ignore_ascii_case(name) && weight.unwrap_or(1.0) > 0.0
        })
    }

    /// The encoded bytes, or none if they would not be fewer.
    pub(super) fn encode(self, plain: &[u8]) -> Option<Vec<u8>> {
        let encoded = match self {
            ContentEncoding::Brotli => brotli(plain),
            ContentEncoding::Gzip => gzip(plain),
            ContentEncoding::Identity => return None,
        };
        encoded.ok().filter(|encoded| encoded.len() < plain.len())
    }
}

/// The quality of Brotli, of 11. A debug build is slow, and compresses the page for each server of the tests.
const BROTLI_QUALITY: i32 = if cfg!(debug_assertions) { 4 } else { 11 };

fn brotli(mut plain: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoded = Vec::new();
    let parameters = BrotliEncoderParams { size_hint: plain.len(), ..BrotliEncoderParams::default() };
    let parameters = BrotliEncoderParams { quality: BROTLI_QUALITY, ..parameters };
    brotli::BrotliCompress(&mut plain, &mut encoded, &parameters)?;
    Ok(encoded)
}

fn gzip(plain: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::ContentEncoding;

    #[test]
    fn an_encoding_is_accepted_by_name_unless_its_weight_is_zero() {
        assert!(ContentEncoding::Brotli.is_accepted(&["gzip", "BR;q=0.5"]));
        assert!(!ContentEncoding::Brotli.is_accepted(&["gzip", "br; q=0"]));
        assert!(!ContentEncoding::Gzip.is_accepted(&["br", "x-gzip"]));
        assert!(ContentEncoding::Identity.is_accepted(&[]));
    }

    #[test]
    fn bytes_that_would_not_be_fewer_are_not_encoded() {
        for encoding in ContentEncoding::COMPRESSED {
            assert_eq!(encoding.encode(b"abc"), None);
            assert!(encoding.encode(&[b'a'; 4096]).is_some_and(|encoded| encoded.len() < 100));
        }
    }
}

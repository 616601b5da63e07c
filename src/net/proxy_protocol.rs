//! The PROXY protocol, versions 1 and 2: a proxy that forwards TCP connections sends a header with the client's address
//! before any other data (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt};

/// The first bytes of a version 2 header.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The first bytes of a version 1 header.
const LINE: &[u8] = b"PROXY ";
/// The length of the shortest header, `PROXY UNKNOWN\r\n`, in bytes.
const SHORTEST: usize = 15;
/// The maximum length of a version 1 header in bytes, including the line end.
const LONGEST_LINE: usize = 107;
/// The length of the fixed part of a version 2 header in bytes: signature, version and command, family, length.
const FIXED: usize = 16;
/// The maximum length of the addresses and extensions of version 2, in bytes. The extensions that proxies send (names
/// of networks, of certificates) take some hundreds.
const LONGEST_PAYLOAD: usize = 4096;

/// The result of parsing the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The header is incomplete: at least this many bytes are missing.
    Incomplete(usize),
    /// The header is complete. `None`: the proxy connects on its own behalf, or does not know the client's address.
    Complete(Option<IpAddr>),
}

/// The error for a connection that does not start with a valid PROXY header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed PROXY header: {0}")]
pub struct MalformedHeader(&'static str);

/// Reads exactly one header, and no byte after it. The caller must set a timeout.
///
/// # Errors
/// If the connection fails or ends, or does not start with a header.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<IpAddr>> {
    let mut head = Vec::with_capacity(LONGEST_LINE);
    loop {
        match parse(&head).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
            Parsed::Complete(client) => return Ok(client),
            Parsed::Incomplete(missing) => {
                let read = head.len();
                head.resize(read + missing, 0);
                stream.read_exact(&mut head[read..]).await?;
            }
        }
    }
}

/// Parses the bytes received so far.
///
/// # Errors
/// If no header starts with these bytes.
pub fn parse(head: &[u8]) -> Result<Parsed, MalformedHeader> {
    let begins_with = |start: &[u8]| head.iter().zip(start).all(|(a, b)| a == b);
    match (begins_with(&SIGNATURE), begins_with(LINE)) {
        (false, false) => Err(MalformedHeader("it begins with neither form")),
        _ if head.len() < SHORTEST => Ok(Parsed::Incomplete(SHORTEST - head.len())),
        (true, _) => binary(head),
        (false, true) => line(head),
    }
}

/// Version 1: `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n`.
fn line(head: &[u8]) -> Result<Parsed, MalformedHeader> {
    let line = &head[..head.len().min(LONGEST_LINE)];
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        // The last byte may be the first half of the line end. Reads one byte at a time, so that no byte after the
        // header is consumed.
        return if head.len() < LONGEST_LINE {
            Ok(Parsed::Incomplete(1))
        } else {
            Err(MalformedHeader("the line is too long"))
        };
    };
    let text = std::str::from_utf8(&line[..end]).map_err(|_| MalformedHeader("the line is not ASCII"))?;
    let mut words = text.split(' ').skip(1);
    let family = words.next().unwrap_or_default();
    if family == "UNKNOWN" {
        return Ok(Parsed::Complete(None));
    }
    let words: Vec<&str> = words.collect();
    let [source, destination, source_port, destination_port] = words.as_slice() else {
        return Err(MalformedHeader("the line has not six words"));
    };
    let port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok();
    if !port(source_port) || !port(destination_port) {
        return Err(MalformedHeader("a port is no number"));
    }
    let (source, destination) = match family {
        "TCP4" => (source.parse().map(IpAddr::V4).ok(), destination.parse().map(IpAddr::V4).ok()),
        "TCP6" => (source.parse().map(IpAddr::V6).ok(), destination.parse().map(IpAddr::V6).ok()),
        _ => return Err(MalformedHeader("the family is unknown")),
    };
    match (source, destination) {
        (Some(source), Some(_)) => Ok(Parsed::Complete(Some(source.to_canonical()))),
        _ => Err(MalformedHeader("an address is none of its family")),
    }
}

/// Version 2: signature, version and command, family and protocol, length, addresses, extensions.
fn binary(head: &[u8]) -> Result<Parsed, MalformedHeader> {
    if head.len() < FIXED {
        return Ok(Parsed::Incomplete(FIXED - head.len()));
    }
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if head[12] >> 4 != 2 {
        return Err(MalformedHeader("the version is not 2"));
    }
    if length > LONGEST_PAYLOAD {
        return Err(MalformedHeader("the extensions are too long"));
    }
    let Some(payload) = head.get(FIXED..FIXED + length) else {
        return Ok(Parsed::Incomplete(FIXED + length - head.len()));
    };
    match head[12] & 0x0f {
        // LOCAL: a health check by the proxy.
        0 => return Ok(Parsed::Complete(None)),
        1 => {}
        _ => return Err(MalformedHeader("the command is unknown")),
    }
    let too_short = MalformedHeader("the addresses are cut off");
    match head[13] >> 4 {
        // Source, destination, two ports.
        1 if payload.len() >= 12 => {
            let source: [u8; 4] = payload[..4].try_into().map_err(|_| too_short)?;
            Ok(Parsed::Complete(Some(Ipv4Addr::from(source).into())))
        }
        2 if payload.len() >= 36 => {
            let source: [u8; 16] = payload[..16].try_into().map_err(|_| too_short)?;
            Ok(Parsed::Complete(Some(IpAddr::from(Ipv6Addr::from(source)).to_canonical())))
        }
        1 | 2 => Err(too_short),
        // Unspecified, or a Unix socket.
        0 | 3 => Ok(Parsed::Complete(None)),
        _ => Err(MalformedHeader("the family is unknown")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v2(command: u8, family: u8, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(payload.len()).expect("a length");
        [&SIGNATURE[..], &[0x20 | command, family], &length.to_be_bytes(), payload].concat()
    }

    fn valid() -> Vec<(Vec<u8>, Option<IpAddr>)> {
        let four = [192, 0, 2, 1, 198, 51, 100, 1, 1, 2, 0, 80];
        let mut six = [0; 36];
        six[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        let client = |text: &str| Some(text.parse().expect("an address"));
        vec![
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff:: ffff:: 1 2\r\n".to_vec(), None),
            (b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n".to_vec(), client("192.0.2.1")),
            (b"PROXY TCP4 1.2.3.4 1.2.3.4 0 65535\r\n".to_vec(), client("1.2.3.4")),
            (b"PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n".to_vec(), client("2001:db8::1")),
            (b"PROXY TCP6 ::ffff:192.0.2.1 ::1 56324 443\r\n".to_vec(), client("192.0.2.1")),
            (v2(1, 0x11, &four), client("192.0.2.1")),
            (v2(1, 0x11, &[&four[..], &[4, 0, 1, 0]].concat()), client("192.0.2.1")),
            (v2(1, 0x21, &six), client("2001:db8::")),
            (v2(0, 0, &[]), None),
            (v2(0, 0x11, &four), None),
            (v2(1, 0, &[]), None),
            (v2(1, 0x31, &[7; 216]), None),
        ]
    }

    #[tokio::test]
    async fn both_versions_are_parsed_to_the_last_byte() {
        for (header, client) in valid() {
            let text = String::from_utf8_lossy(&header).into_owned();
            assert_eq!(parse(&header), Ok(Parsed::Complete(client)), "{text}");
            for end in 0..header.len() {
                match parse(&header[..end]) {
                    Ok(Parsed::Incomplete(missing)) => assert!((1..=header.len() - end).contains(&missing), "{text}"),
                    other => panic!("{text:?} to {end}: {other:?}"),
                }
            }
            let sent = [&header[..], b"GET / HTTP/1.1\r\n"].concat();
            let mut stream = &sent[..];
            assert_eq!(read(&mut stream).await.expect("a header"), client, "{text}");
            assert_eq!(stream, b"GET / HTTP/1.1\r\n", "{text}");
            assert!(read(&mut &header[..header.len() - 1]).await.is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_headers_are_rejected() {
        let mut wrong: Vec<Vec<u8>> = [
            "GET / HTTP/1.1\r\n",
            "PROXYTCP4 192.0.2.1 198.51.100.1 1 2\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1 +2\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1 65536\r\n",
            "PROXY TCP4  192.0.2.1 198.51.100.1 1 2\r\n",
            "PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
            "PROXY TCP6 192.0.2.1 198.51.100.1 1 2\r\n",
            "PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n",
            "PROXY tcp4 192.0.2.1 198.51.100.1 1 2\r\n",
        ]
        .map(|text| text.as_bytes().to_vec())
        .into();
        wrong.push([&b"PROXY "[..], &[b'x'; LONGEST_LINE]].concat());
        wrong.push(v2(2, 0x11, &[0; 12]));
        wrong.push(v2(1, 0x11, &[0; 11]));
        wrong.push(v2(1, 0x21, &[0; 35]));
        wrong.push(v2(1, 0x41, &[0; 36]));
        wrong.push(v2(1, 0x11, &[0; LONGEST_PAYLOAD + 1]));
        wrong.push([&SIGNATURE[..], &[0x11, 0x11, 0, 12], &[0; 12]].concat());
        for head in wrong {
            assert!(parse(&head).is_err(), "{:?}", String::from_utf8_lossy(&head));
        }
    }

    proptest! {
        #[test]
        fn random_bytes_neither_panic_nor_hang(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            form in 0..3,
        ) {
            let start: &[u8] = match form {
                0 => &[],
                1 => LINE,
                _ => &SIGNATURE,
            };
            let head = [start, &bytes].concat();
            if let Ok(Parsed::Incomplete(missing)) = parse(&head) {
                prop_assert!(missing >= 1 && head.len() + missing <= FIXED + LONGEST_PAYLOAD);
            }
        }
    }
}

//! Drives the fuzz target's entry point with property tests, so that it also runs with a stable compiler.

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_client_says_the_session_keeps_its_rules(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        feedline_fuzz::drive(&bytes);
    }

    /// An open session keeps its rules. The script starts with a successful connect, so that most steps reach an open
    /// session.
    #[test]
    fn an_open_session_keeps_its_rules(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        // One command with id 1 connects with the first token. Then the stores answer.
        let connected = [0, 9, 0, 1, 0, 0, 0, 0, 3, 1];
        feedline_fuzz::drive(&[&connected[..], &bytes].concat());
    }

    #[test]
    fn arbitrary_protobuf_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        feedline_fuzz::drive_protobuf(&bytes);
    }

    /// Small numbers are keys of the schema, lengths and short values, so that many of these frames are commands.
    #[test]
    fn nearly_valid_protobuf_does_no_harm(bytes in prop::collection::vec(prop_oneof![0..16_u8, 0x22..0x7b_u8], 2..40)) {
        let mut frame = vec![bytes.len() as u8 + 2, 8, 7];
        frame.extend(bytes);
        feedline_fuzz::drive_protobuf(&frame);
    }

    #[test]
    fn bodies_of_emulation_mean_the_same_in_both_encodings(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        feedline_fuzz::drive_emulation(&[&[2], &bytes[..]].concat());
    }

    #[test]
    fn arbitrary_bodies_of_emulation_do_no_harm(form in 0..2_u8, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        feedline_fuzz::drive_emulation(&[&[form], &bytes[..]].concat());
    }

    /// Parts of bodies in any order: many of them are requests.
    #[test]
    fn nearly_valid_bodies_of_emulation_do_no_harm(parts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let json = [
            "\"session\":\"s\",", "\"node\":\"n\",", "\"data\":\"{}\\n{}\",",
            "\"data\":\"{\\\"id\\\":3,\\\"ping\\\":{}}\",",
            "\"data\":{},", "\"session\":null,", "\"\\u0000\":1,",
        ];
        let chosen: String = parts.iter().map(|part| *part.get(&json)).collect();
        let body = format!("{{{}}}", chosen.trim_end_matches(','));
        feedline_fuzz::drive_emulation(&[&[0], body.as_bytes()].concat());
        // Keys and lengths of the three fields, commands, a length beyond the end.
        let protobuf: [&[u8]; 6] = [
            b"\x0a\x01n", b"\x12\x01s", b"\x1a\x02\x00\x00", b"\x1a\x05\x04\x08\x03\x5a\x00", b"\x1a\x7f", b"\x22\x01x",
        ];
        let body: Vec<u8> = parts.iter().flat_map(|part| part.get(&protobuf).iter().copied()).collect();
        feedline_fuzz::drive_emulation(&[&[1], &body[..]].concat());
    }
}

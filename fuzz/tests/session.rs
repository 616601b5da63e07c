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
}

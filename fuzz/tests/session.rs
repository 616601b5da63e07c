//! The fuzz target's entry, driven by property tests: so it runs wherever tests do.

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_client_says_the_session_keeps_its_rules(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        feedline_fuzz::drive(&bytes);
    }

    /// With a good connect first, most of what follows is about an open session.
    #[test]
    fn an_open_session_keeps_its_rules(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        // One command, with id 1: connect with the first token; then the stores answer.
        let connected = [0, 9, 0, 1, 0, 0, 0, 0, 3, 1];
        feedline_fuzz::drive(&[&connected[..], &bytes].concat());
    }
}

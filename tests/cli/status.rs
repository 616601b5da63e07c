//! `feedline status`.

use super::{feedline, out};

#[test]
fn what_is_unknown_without_the_ledger_is_not_shown_as_none() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = "postgres://ann:hunter2@127.0.0.1:1/feed?connect_timeout=1";
    let shown = feedline(&dir, &["status"]).env("FEEDLINE__LEDGER__URL", nowhere).output().unwrap();
    let text = out(&shown);
    assert!(!shown.status.success() && text.contains("unknown: the ledger cannot be read"), "{shown:?}");
    assert!(text.contains("postgres") && !text.contains("0 alive") && !text.contains("hunter2"), "{text}");
}

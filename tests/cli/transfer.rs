//! `feedline export` and `feedline import` at the ends of a pipe.

use std::io::Write as _;
use std::process::Stdio;

use super::{err, feedline, run};

#[test]
fn an_import_without_a_file_reads_standard_input() {
    let from = tempfile::tempdir().unwrap();
    assert!(run(&from, &["seed-demo"]).status.success());
    let exported = run(&from, &["export"]);
    assert!(exported.status.success() && exported.stdout.starts_with(b"{"), "{exported:?}");
    for args in [&["import"][..], &["import", "-"]] {
        let to = tempfile::tempdir().unwrap();
        let mut importing =
            feedline(&to, args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        importing.stdin.take().unwrap().write_all(&exported.stdout).unwrap();
        let imported = importing.wait_with_output().unwrap();
        assert!(imported.status.success() && err(&imported).contains("imported "), "{imported:?}");
        let lines = |export: &[u8]| export.split(|byte| *byte == b'\n').count();
        assert_eq!(lines(&run(&to, &["export"]).stdout), lines(&exported.stdout), "{args:?}");
    }
    let to = tempfile::tempdir().unwrap();
    let nothing = run(&to, &["import"]);
    assert!(!nothing.status.success() && err(&nothing).contains("standard input"), "{nothing:?}");
}

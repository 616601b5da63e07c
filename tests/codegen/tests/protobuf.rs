//! The committed code is what the generator makes of the schema. `FEEDLINE_BLESS=1` writes it.

use std::fs;

#[test]
fn generated_code_is_current() {
    let path = feedline_codegen::folder().join("generated.rs");
    let generated = feedline_codegen::generate().unwrap();
    if std::env::var_os("FEEDLINE_BLESS").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap();
    assert!(
        committed == generated,
        "generated.rs differs from client.proto: run FEEDLINE_BLESS=1 cargo test -p feedline-codegen"
    );
}

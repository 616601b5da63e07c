//! `feedline check-config`: what it looks at beside the configuration itself.

use std::fs;

use super::{err, feedline};
use crate::listening::certify;

/// A certificate of January 2020.
const EXPIRED: &str = "-----BEGIN CERTIFICATE-----
MIIBJzCBzwIUBphp9zegud0ufJA8IiQjZlt6vgEwCgYIKoZIzj0EAwIwFzEVMBMG
A1UEAwwMZmVlZC5leGFtcGxlMB4XDTIwMDEwMTAwMDAwMFoXDTIwMDIwMTAwMDAw
MFowFzEVMBMGA1UEAwwMZmVlZC5leGFtcGxlMFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAE5hvqvY/m61GsjhP7pBcpBp/vcXLxFSmO92OFZjC/d+UHBHLPxt7gRH5N
BwwZdrvRv2T1GCWWknbwBfQAucwxRjAKBggqhkjOPQQDAgNHADBEAiATzPdsQW0r
yAQUC47yH9/+cfuhIV35n69kaGnJerIu+AIgYxx1Ikjp3mM7TaLEozVq8ITaT1sI
8gYwntaoeUypQFs=
-----END CERTIFICATE-----
";

#[test]
fn an_expired_certificate_is_an_error_with_its_date() {
    let dir = tempfile::tempdir().unwrap();
    let checked = || {
        let mut command = feedline(&dir, &["check-config"]);
        command.env("FEEDLINE__SERVER__TLS_CERTIFICATE", "tls.crt").env("FEEDLINE__SERVER__TLS_KEY", "tls.key");
        command.output().unwrap()
    };
    assert!(checked().status.success(), "the files may be on another machine");
    certify(dir.path(), "1");
    assert!(checked().status.success());
    fs::write(dir.path().join("tls.crt"), EXPIRED).unwrap();
    let refused = checked();
    assert_eq!(refused.status.code(), Some(1));
    let message = "tls.crt (server.tls_certificate) expired on 2020-02-01T00:00:00Z: clients refuse it\n";
    assert_eq!(err(&refused), message);
}

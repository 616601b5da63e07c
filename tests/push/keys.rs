//! Keys and a certificate, made once for all tests with OpenSSL.

use std::process::Command;
use std::sync::OnceLock;

/// A certificate for 127.0.0.1, `localhost` and `push.example`, and its key, as PEM.
pub(crate) fn certificate() -> &'static (Vec<u8>, Vec<u8>) {
    static CERTIFICATE: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();
    CERTIFICATE.get_or_init(|| {
        let key = openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], None);
        let names = "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:push.example";
        let arguments = ["req", "-x509", "-key", "/dev/stdin", "-days", "2", "-subj", "/CN=feedline test", "-addext"];
        let certificate =
            openssl(&[&arguments[..], &[names, "-addext", "basicConstraints=CA:FALSE"]].concat(), Some(&key));
        (certificate, key)
    })
}

/// An RSA key pair as PEM: private, public.
pub(crate) fn rsa() -> &'static (String, String) {
    static KEYS: OnceLock<(String, String)> = OnceLock::new();
    KEYS.get_or_init(|| pair(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]))
}

/// A key pair of P-256 as PEM: private, public.
pub(crate) fn p256() -> &'static (String, String) {
    static KEYS: OnceLock<(String, String)> = OnceLock::new();
    KEYS.get_or_init(|| pair(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]))
}

fn pair(arguments: &[&str]) -> (String, String) {
    let private = openssl(arguments, None);
    let public = openssl(&["pkey", "-pubout"], Some(&private));
    (String::from_utf8(private).unwrap(), String::from_utf8(public).unwrap())
}

fn openssl(arguments: &[&str], input: Option<&[u8]>) -> Vec<u8> {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut command = Command::new("openssl");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("openssl is installed");
    child.stdin.take().unwrap().write_all(input.unwrap_or_default()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

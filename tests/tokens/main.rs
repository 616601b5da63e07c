//! Tokens: which are accepted, which are rejected, and with which kind and user.

mod claims;
mod keys;
mod sessions;

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use feedline::auth::Verifier;
use feedline::config::{Config, Secrets};
use feedline::model::UserId;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) const NOW: u64 = 1_800_000_000;

pub(crate) const SECRET: &str = "a secret that is long enough for HS256";

/// Keys generated for this run; none is stored.
pub(crate) struct Keys {
    rsa_private: String,
    rsa_public: String,
    ec_private: String,
    ec_public: String,
    other_curve_public: String,
}

pub(crate) fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let (rsa_private, rsa_public) = make_key(dir.path(), "RSA", "rsa_keygen_bits:2048");
        let (ec_private, ec_public) = make_key(dir.path(), "EC", "ec_paramgen_curve:P-256");
        let (_, other_curve_public) = make_key(dir.path(), "EC", "ec_paramgen_curve:P-224");
        Keys { rsa_private, rsa_public, ec_private, ec_public, other_curve_public }
    })
}

pub(crate) fn make_key(dir: &Path, kind: &str, option: &str) -> (String, String) {
    let openssl = |args: &[&str]| {
        let output = Command::new("openssl").args(args).current_dir(dir).output().expect("openssl is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let private = openssl(&["genpkey", "-algorithm", kind, "-pkeyopt", option]);
    std::fs::write(dir.join("private.pem"), &private).unwrap();
    (private, openssl(&["pkey", "-in", "private.pem", "-pubout"]))
}

pub(crate) fn config(env: &[(&str, &str)]) -> Config {
    try_config(env).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn try_config(env: &[(&str, &str)]) -> Result<Config, String> {
    let env = env.iter().map(|(key, value)| (format!("FEEDLINE__AUTH__{key}"), (*value).to_owned()));
    let accounts = ("FEEDLINE__ACCOUNTS__ENABLED".to_owned(), "false".to_owned());
    let keys = ("FEEDLINE__AUTH__API_KEYS".to_owned(), "key".to_owned());
    // Short-lived tokens with `sub` alone are accepted and expire exactly at `exp`, unless a test overrides it.
    let forms = [("REQUIRE_EXP", "false"), ("LEEWAY", "0s")]
        .map(|(key, value)| (format!("FEEDLINE__AUTH__{key}"), value.to_owned()));
    Config::parse("", forms.into_iter().chain(env).chain([accounts, keys])).map_err(|error| error.to_string())
}

pub(crate) fn verifier(env: &[(&str, &str)]) -> Verifier {
    let config = config(env);
    let secrets = Secrets::load(&config).unwrap();
    assert_eq!(secrets.file, None, "everything is configured");
    Verifier::new(&config.auth, &secrets).unwrap()
}

pub(crate) fn hs256() -> Verifier {
    verifier(&[("HMAC_SECRET", SECRET)])
}

pub(crate) fn signed(claims: &Value) -> String {
    encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap()
}

/// A token with claims in this form.
pub(crate) fn signed_text(claims: &str) -> String {
    let claims: Box<RawValue> = serde_json::from_str(claims).unwrap();
    encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap()
}

pub(crate) fn rs256(claims: &Value) -> String {
    let key = EncodingKey::from_rsa_pem(keys().rsa_private.as_bytes()).unwrap();
    encode(&Header::new(Algorithm::RS256), claims, &key).unwrap()
}

pub(crate) fn es256(claims: &Value) -> String {
    let key = EncodingKey::from_ec_pem(keys().ec_private.as_bytes()).unwrap();
    encode(&Header::new(Algorithm::ES256), claims, &key).unwrap()
}

/// A token assembled by hand, with a header that no library would write.
pub(crate) fn by_hand(header: &Value, claims: &Value, signature: &str) -> String {
    let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
    format!("{}.{}.{signature}", part(header), part(claims))
}

pub(crate) fn user(name: &str) -> Option<UserId> {
    Some(UserId::parse(name).unwrap())
}

pub(crate) fn parsed(env: &[(&str, &str)]) -> Config {
    let env = env.iter().map(|(key, value)| (format!("FEEDLINE__{key}"), (*value).to_owned()));
    Config::parse("", env).unwrap()
}

//! `[auth]` and `[accounts]`: tokens, keys and built-in accounts.

use std::time::Duration;

use jsonwebtoken::DecodingKey;

use super::layers::SectionReader;
use super::parse::{self, ParseResult};
use super::secret::Secret;
use super::value::ConfigValue;

/// `[auth]`: the accepted tokens and API keys.
#[derive(Clone, Debug, PartialEq)]
pub struct AuthConfig {
    /// The configured key of HS256 tokens. `None`: see [`Secrets`](crate::config::Secrets), which may generate one.
    pub hmac_secret: Option<Secret>,
    /// The previous key of HS256 tokens, still accepted during a rotation.
    pub hmac_secret_previous: Option<Secret>,
    /// Whether these two keys may be shorter than 32 characters.
    pub allow_short_secret: bool,
    /// The configured key of Feedline's own sessions. `None`: see [`Secrets`](crate::config::Secrets), which may
    /// generate one.
    pub session_key: Option<Secret>,
    /// The key of RS256 tokens: valid PEM text.
    pub rsa_public_key: Option<String>,
    /// The key of ES256 tokens: valid PEM text.
    pub ecdsa_public_key: Option<String>,
    /// The audience that the `aud` claim of a token must contain; `None`: any.
    pub audience: Option<String>,
    /// The issuer that the `iss` claim of a token must equal; `None`: any.
    pub issuer: Option<String>,
    /// The configured API keys of backends. Empty: see [`Secrets`](crate::config::Secrets), which generates one.
    pub api_keys: Vec<Secret>,
    /// The lifetime of the tokens that Feedline issues.
    pub token_ttl: Duration,
    /// Whether a token must have an `exp` claim.
    pub require_exp: bool,
    /// The tolerated difference between the clocks of a token's issuer and this node.
    pub leeway: Duration,
    /// How long a revocation without an expiry is kept.
    pub revocation_ttl: Duration,
    /// Whether clients may connect without a token.
    pub anonymous: bool,
}

impl AuthConfig {
    pub(super) fn read(mut section: SectionReader<'_>) -> Self {
        let auth = Self {
            hmac_secret: section.read("hmac_secret", parse::optional_secret),
            hmac_secret_previous: section.read("hmac_secret_previous", parse::optional_secret),
            allow_short_secret: section.read("allow_short_secret", parse::boolean),
            session_key: section.read("session_key", parse::optional_secret),
            rsa_public_key: section.read("rsa_public_key", |value| public_key(value, PublicKeyType::Rsa)),
            ecdsa_public_key: section.read("ecdsa_public_key", |value| public_key(value, PublicKeyType::P256)),
            audience: section.read("audience", parse::optional_text),
            issuer: section.read("issuer", parse::optional_text),
            api_keys: section.read("api_keys", parse::secret_list),
            token_ttl: section.read("token_ttl", parse::duration("1s"..="3650d")),
            require_exp: section.read("require_exp", parse::boolean),
            leeway: section.read("leeway", parse::duration("0s"..="1h")),
            revocation_ttl: section.read("revocation_ttl", parse::duration("1m"..="36500d")),
            anonymous: section.read("anonymous", parse::boolean),
        };
        auth.check_secrets(&mut section);
        auth
    }

    /// Reports secrets that are too short, and a session key that equals another secret.
    fn check_secrets(&self, section: &mut SectionReader<'_>) {
        let is_short = |secret: &Option<Secret>| secret.as_ref().is_some_and(Secret::is_short);
        if !self.allow_short_secret {
            let message = "expected 32 characters or more (auth.allow_short_secret accepts less)";
            for (key, secret) in
                [("hmac_secret", &self.hmac_secret), ("hmac_secret_previous", &self.hmac_secret_previous)]
            {
                if is_short(secret) {
                    section.problem(&[key], message);
                }
            }
        }
        if is_short(&self.session_key) {
            section.problem(&["session_key"], "expected 32 characters or more");
        }
        let others = [&self.hmac_secret, &self.hmac_secret_previous];
        if self.session_key.is_some() && others.contains(&&self.session_key) {
            section.problem(&["session_key"], "must differ from auth.hmac_secret: applications may know that one");
        }
    }

    /// Whether a key for the application's own tokens is configured. Generated secrets do not count.
    pub fn has_token_key(&self) -> bool {
        let secret = self.hmac_secret.is_some() || self.hmac_secret_previous.is_some();
        secret || self.rsa_public_key.is_some() || self.ecdsa_public_key.is_some()
    }
}

#[derive(Clone, Copy)]
enum PublicKeyType {
    Rsa,
    P256,
}

/// Parses PEM text, or the path of a PEM file. Returns the PEM text.
fn public_key(value: &ConfigValue, key_type: PublicKeyType) -> ParseResult<Option<String>> {
    let Some(written) = parse::optional_text(value)? else { return Ok(None) };
    let pem = if written.trim_start().starts_with("-----BEGIN") {
        written
    } else {
        std::fs::read_to_string(&written).map_err(|error| format!("the file {written:?} cannot be read: {error}"))?
    };
    let key = match key_type {
        // The parser accepts a private key as a verification key, but that key verifies no signature.
        _ if pem.contains("PRIVATE KEY") => None,
        PublicKeyType::Rsa => DecodingKey::from_rsa_pem(pem.as_bytes()).ok(),
        PublicKeyType::P256 => DecodingKey::from_ec_pem(pem.as_bytes()).ok().filter(is_p256),
    };
    let name = match key_type {
        PublicKeyType::Rsa => "an RSA public key",
        PublicKeyType::P256 => "a public key on the curve P-256",
    };
    key.map(|_| Some(pem)).ok_or_else(|| format!("expected {name} in PEM, or the path of one"))
}

/// Whether the point has the length of P-256: one byte for the form and two coordinates of 32 bytes.
fn is_p256(key: &DecodingKey) -> bool {
    key.try_get_as_bytes().is_ok_and(|point| point.len() == 65)
}

/// `[accounts]`: built-in accounts.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountsConfig {
    /// Whether built-in accounts are enabled; `None`: they are, unless a key for the application's tokens is
    /// configured.
    pub enabled: Option<bool>,
}

impl AccountsConfig {
    pub(super) fn read(mut section: SectionReader<'_>) -> Self {
        Self { enabled: section.read("enabled", parse::boolean_or_auto) }
    }
}

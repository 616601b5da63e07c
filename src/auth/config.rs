//! `[auth]` and `[accounts]`: tokens, keys and built-in accounts.

use std::time::Duration;

use jsonwebtoken::DecodingKey;

use super::issuer_config::{self, IssuerConfig};
use crate::settings::parse::{self, ParseResult};
use crate::settings::{ConfigValue, Secret, SectionReader, section, text_or_file};

section! {
    /// `[auth]`: the accepted tokens and API keys.
    pub struct AuthConfig {
        /// The configured key of HMAC tokens. `None`: see [`Secrets`](super::Secrets), which may generate one.
        pub hmac_secret: Option<Secret> = parse::optional_secret,
        /// The previous key of HMAC tokens, still accepted during a rotation.
        pub hmac_secret_previous: Option<Secret> = parse::optional_secret,
        /// Whether these two keys, and that of subscription tokens, may be shorter than 32 characters.
        pub allow_short_secret: bool = parse::boolean,
        /// The configured key of Feedline's own sessions. `None`: see [`Secrets`](super::Secrets), which may
        /// generate one.
        pub session_key: Option<Secret> = parse::optional_secret,
        /// The key of RSA tokens: valid PEM text.
        pub rsa_public_key: Option<String> = |value| public_key(value, PublicKeyType::Rsa),
        /// The key of ECDSA tokens, whose curve determines the algorithm: valid PEM text.
        pub ecdsa_public_key: Option<String> = |value| public_key(value, PublicKeyType::Ecdsa),
        /// The key of subscription tokens with HMAC. If one of the keys of subscription tokens is configured, no other
        /// key verifies these tokens.
        pub subscription_hmac_secret: Option<Secret> = parse::optional_secret,
        /// The key of subscription tokens with RSA: valid PEM text.
        pub subscription_rsa_public_key: Option<String> = |value| public_key(value, PublicKeyType::Rsa),
        /// The key of subscription tokens with ECDSA: valid PEM text.
        pub subscription_ecdsa_public_key: Option<String> = |value| public_key(value, PublicKeyType::Ecdsa),
        /// The address of the keys of tokens, as a JWKS.
        pub jwks_url: Option<String> = issuer_config::optional_address,
        /// Whether addresses of keys may be `http` beyond loopback.
        pub jwks_allow_http: bool = parse::boolean,
        /// The audience that the `aud` claim of a token must contain; `None`: any.
        pub audience: Option<String> = parse::exact_text,
        /// The issuers of which the `iss` claim of a token must be one; empty: any.
        pub issuer: Vec<String> = parse::text_or_list,
        /// More issuers, each with keys of its own.
        pub issuers: Vec<IssuerConfig> = issuer_config::read,
        /// The claim with the id of the user, in tokens of the application.
        pub user_id_claim: String = user_id_claim,
        /// The configured API keys of backends. Empty: see [`Secrets`](super::Secrets), which generates one.
        pub api_keys: Vec<Secret> = api_keys,
        /// The lifetime of the tokens that Feedline issues.
        pub token_ttl: Duration = parse::duration("1s"..="3650d"),
        /// Whether a token must have an `exp` claim.
        pub require_exp: bool = parse::boolean,
        /// The tolerated difference between the clocks of a token's issuer and this node.
        pub leeway: Duration = parse::duration("0s"..="1h"),
        /// How long a revocation without an expiry is kept.
        pub revocation_ttl: Duration = parse::duration("1m"..="36500d"),
        /// Whether clients may connect without a token.
        pub anonymous: bool = parse::boolean,
    }
}

impl AuthConfig {
    pub(crate) fn read(mut section: SectionReader<'_>) -> Self {
        let auth = Self::read_keys(&mut section);
        auth.check_secrets(&mut section);
        auth.check_issuers(&mut section);
        auth
    }

    /// Reports secrets that are too short, and a session key that equals another secret.
    fn check_secrets(&self, section: &mut SectionReader<'_>) {
        let is_short = |secret: &Option<Secret>| secret.as_ref().is_some_and(Secret::is_short);
        if !self.allow_short_secret {
            let message = "expected 32 characters or more (auth.allow_short_secret accepts less)";
            for (key, secret) in [
                ("hmac_secret", &self.hmac_secret),
                ("hmac_secret_previous", &self.hmac_secret_previous),
                ("subscription_hmac_secret", &self.subscription_hmac_secret),
            ] {
                if is_short(secret) {
                    section.problem(&[key], message);
                }
            }
        }
        if is_short(&self.session_key) {
            section.problem(&["session_key"], "expected 32 characters or more");
        }
        if self.session_key.is_some() && self.hmac_secrets().contains(&&self.session_key) {
            section.problem(&["session_key"], "must differ from auth.hmac_secret: applications may know that one");
        }
    }

    /// Reports addresses of keys without TLS, and issuers with two sets of keys.
    fn check_issuers(&self, section: &mut SectionReader<'_>) {
        let message = "expected https, or a loopback address (auth.jwks_allow_http accepts http elsewhere)";
        let is_refused = |url: &String| !self.jwks_allow_http && !issuer_config::is_protected(url);
        if self.jwks_url.as_ref().is_some_and(is_refused) {
            section.problem(&["jwks_url"], message);
        }
        if self.issuers.iter().any(|issuer| is_refused(&issuer.jwks_url)) {
            section.problem(&["issuers"], message);
        }
        if let Some(twice) = self.issuers.iter().find(|issuer| self.issuer.contains(&issuer.name)) {
            section.problem(&["issuers"], &format!("{:?} is an issuer of auth.issuer, too", twice.name));
        }
    }

    /// The configured secrets that an application signs tokens with.
    pub fn hmac_secrets(&self) -> [&Option<Secret>; 3] {
        [&self.hmac_secret, &self.hmac_secret_previous, &self.subscription_hmac_secret]
    }

    /// Whether a public key is configured, or an address of keys.
    pub fn has_public_key(&self) -> bool {
        let has_pem = self.rsa_public_key.is_some() || self.ecdsa_public_key.is_some();
        has_pem || self.jwks_url.is_some() || !self.issuers.is_empty()
    }

    /// Whether a key for the application's own tokens is configured. Generated secrets do not count.
    pub fn has_token_key(&self) -> bool {
        let secret = self.hmac_secret.is_some() || self.hmac_secret_previous.is_some();
        secret || self.has_public_key()
    }
}

/// Claims that have another meaning in the tokens of an application or in sessions.
const OTHER_CLAIMS: [&str; 18] = [
    "exp",
    "nbf",
    "iat",
    "jti",
    "aud",
    "iss",
    "expire_at",
    "channel",
    "client",
    "channels",
    "subs",
    "info",
    "b64info",
    "data",
    "b64data",
    "override",
    "meta",
    "token_use",
];

/// The name of a claim that may contain the id of the user.
fn user_id_claim(value: &ConfigValue) -> ParseResult<String> {
    let name = parse::exact_text(value)?.ok_or("must not be empty")?;
    if name.contains(char::is_whitespace) {
        return Err("expected the name of a claim, without spaces".into());
    }
    if OTHER_CLAIMS.contains(&name.as_str()) {
        return Err(format!("the claim {name:?} has another meaning"));
    }
    Ok(name)
}

/// Keys that a header can have. No request could send another one.
fn api_keys(value: &ConfigValue) -> ParseResult<Vec<Secret>> {
    let keys = parse::secret_list(value)?;
    let is_sendable = |key: &Secret| key.reveal().bytes().all(|byte| (b' '..=b'~').contains(&byte));
    match keys.iter().all(is_sendable) {
        true => Ok(keys),
        false => Err("a key has characters that a header cannot have: expected printable ASCII".into()),
    }
}

#[derive(Clone, Copy)]
enum PublicKeyType {
    Rsa,
    Ecdsa,
}

/// Parses PEM text, or the path of a PEM file. Returns the PEM text.
fn public_key(value: &ConfigValue, key_type: PublicKeyType) -> ParseResult<Option<String>> {
    let name = match key_type {
        PublicKeyType::Rsa => "an RSA public key",
        PublicKeyType::Ecdsa => "a public key on the curve P-256, P-384 or P-521",
    };
    let Some(pem) = text_or_file(value, &format!("{name} in PEM"), |_| false)? else { return Ok(None) };
    let key = match key_type {
        // The parser accepts a private key as a verification key, but that key verifies no signature.
        _ if pem.contains("PRIVATE KEY") => None,
        PublicKeyType::Rsa => DecodingKey::from_rsa_pem(pem.as_bytes()).ok(),
        PublicKeyType::Ecdsa => DecodingKey::from_ec_pem(pem.as_bytes()).ok().filter(has_curve),
    };
    key.map(|_| Some(pem)).ok_or_else(|| format!("expected {name} in PEM, or the path of one"))
}

/// Whether the point has the length of P-256, P-384 or P-521: one byte for the form and two coordinates.
fn has_curve(key: &DecodingKey) -> bool {
    key.try_get_as_bytes().is_ok_and(|point| matches!(point.len(), 65 | 97 | 133))
}

section! {
    /// `[accounts]`: built-in accounts.
    pub struct AccountsConfig {
        /// Whether built-in accounts are enabled; `None`: they are, unless a key for the application's tokens is
        /// configured.
        pub enabled: Option<bool> = parse::boolean_or_auto,
    }
}

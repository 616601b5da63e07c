//! The service account and its signed assertions (RFC 7523).

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde::{Deserialize, Serialize};

use crate::model::Millis;
use crate::push::providers::ProviderError;
use crate::push::providers::endpoint::EndpointUrl;
use crate::settings::Secret;

/// The setting that errors name.
pub(super) const PLACE: &str = "push.fcm_service_account";

/// What an access token may be used for.
const OAUTH_SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";

/// The lifetime of an assertion, in seconds: Google's maximum.
const ASSERTION_LIFETIME: u64 = 3600;

/// A service account of Google Cloud.
pub(super) struct ServiceAccount {
    email: String,
    project_id: String,
    key: EncodingKey,
    key_id: Option<String>,
    token_uri: EndpointUrl,
}

#[derive(Deserialize)]
struct AccountFile {
    #[serde(rename = "type")]
    kind: String,
    project_id: String,
    client_email: String,
    private_key: Secret,
    private_key_id: Option<String>,
    token_uri: String,
}

#[derive(Serialize)]
struct AccountClaims<'a> {
    iss: &'a str,
    scope: &'static str,
    aud: &'a str,
    iat: u64,
    exp: u64,
}

impl ServiceAccount {
    /// Reads the JSON that the console provides, and tries the key.
    pub(super) fn parse(json: &str) -> Result<Self, ProviderError> {
        let invalid = |problem: &str| ProviderError::new(PLACE, problem);
        // An error of the parser could quote the key.
        let file: AccountFile = serde_json::from_str(json).map_err(|error| {
            invalid(&format!("is not the JSON of a service account: line {} is wrong", error.line()))
        })?;
        if file.kind != "service_account" {
            return Err(invalid("is not a service account: `type` must be `service_account`"));
        }
        let project = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b':' | b'.');
        if file.project_id.is_empty() || !file.project_id.bytes().all(project) {
            return Err(invalid("`project_id` is not the id of a project"));
        }
        // Some tools escape the line ends twice.
        let pem = file.private_key.reveal().replace("\\n", "\n");
        let key = EncodingKey::from_rsa_pem(pem.as_bytes());
        let account = Self {
            key: key.map_err(|_| invalid("`private_key` is not an RSA key in PEM"))?,
            token_uri: EndpointUrl::parse(&file.token_uri).map_err(|error| invalid(&format!("`token_uri` {error}")))?,
            email: file.client_email,
            project_id: file.project_id,
            key_id: file.private_key_id,
        };
        account.assertion(0).map_err(|_| invalid("`private_key` cannot sign"))?;
        Ok(account)
    }

    pub(super) fn project_id(&self) -> &str {
        &self.project_id
    }

    pub(super) fn token_uri(&self) -> &EndpointUrl {
        &self.token_uri
    }

    /// A signed request for an access token.
    pub(super) fn assertion(&self, now: Millis) -> Result<Secret, jsonwebtoken::errors::Error> {
        let header = Header { kid: self.key_id.clone(), ..Header::new(Algorithm::RS256) };
        let iat = now / 1000;
        let aud = self.token_uri.reveal();
        let claims = AccountClaims { iss: &self.email, scope: OAUTH_SCOPE, aud, iat, exp: iat + ASSERTION_LIFETIME };
        encode(&header, &claims, &self.key).map(Secret::new)
    }
}

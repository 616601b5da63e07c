//! What a running server takes from a changed configuration: SIGHUP.

use std::sync::Arc;

use anyhow::Context as _;

use super::fingerprints::fingerprints;
use super::options::token_verifier;
use crate::auth::{ApiKeys, SessionIssuer, Verifier};
use crate::config::{Config, Secrets};
use crate::feed::Feed;
use crate::gateway::accept::tls::ServerCertificate;
use crate::jwks::KeyFetchers;
use crate::net::AllowedOrigins;
use crate::push::{PushBridge, push_providers};
use crate::reloadable::Reloadable;

/// The parts of a server that a reload replaces.
pub(super) struct ReloadableParts {
    pub(super) feed: Arc<Feed>,
    /// The id of the ledger.
    pub(super) ledger_id: String,
    pub(super) verifier: Reloadable<Verifier>,
    pub(super) key_fetchers: KeyFetchers,
    pub(super) api_keys: Reloadable<ApiKeys>,
    pub(super) origins: Reloadable<AllowedOrigins>,
    /// `None`: the server has no TLS.
    pub(super) certificate: Option<Arc<ServerCertificate>>,
    /// `None`: this process sends no pushes.
    pub(super) bridge: Option<Arc<PushBridge>>,
}

impl ReloadableParts {
    /// Replaces what [`Config::reloaded`] names, and what the files that it names contain. New connections, requests
    /// and pushes use it; open sockets stay.
    ///
    /// # Errors
    /// If a key, a certificate or a credential cannot be used. Nothing is replaced then.
    pub(super) fn reload(&self, config: &Config, secrets: &Secrets) -> anyhow::Result<()> {
        let verifier = token_verifier(config, secrets)?.with_remote_keys_of(&self.verifier.get());
        let api_keys = ApiKeys::new(&secrets.api_keys)?;
        let certificate = self.certificate.as_ref().zip(config.server.tls.as_ref());
        let certificate =
            certificate.map(|(certificate, files)| anyhow::Ok((certificate, ServerCertificate::read(files)?)));
        let certificate = certificate.transpose().context("the certificate cannot be used")?;
        let pushes = self.bridge.as_ref().map(|bridge| anyhow::Ok((bridge, push_providers(&config.push)?)));
        let pushes = pushes.transpose()?;

        self.key_fetchers.follow(&verifier);
        self.verifier.set(verifier);
        self.api_keys.set(api_keys);
        self.origins.set(config.server.origins.clone());
        if let AllowedOrigins::Listed(origins) = &config.server.origins {
            self.feed.base.options.own_hosts.add(origins.iter().map(String::as_str));
        }
        if let Some((certificate, key)) = certificate {
            certificate.replace(key);
        }
        if let Some((bridge, (providers, texts))) = pushes {
            bridge.replace(providers, texts, config.push.clone());
        }
        self.feed.replace_rates(config.rates);
        self.feed.replace_issuer(SessionIssuer::new(&config.auth, secrets));
        self.feed.replace_fingerprints(fingerprints(config, secrets, &self.ledger_id));
        Ok(())
    }
}

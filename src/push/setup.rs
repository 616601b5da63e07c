//! The transports and texts that a configuration asks for.

use anyhow::Context as _;

use super::PushConfig;
use super::providers::endpoint::{EndpointPolicy, EndpointUrl};
use super::providers::hosts::HostRules;
use super::providers::settings::{ApnsSettings, DryRunSettings, FcmSettings, WebPushSettings, WebhookSettings};
use super::providers::webpush::encryption::OVERHEAD;
use super::providers::{self, ApnsEnvironment, Providers, ProvidersConfig};
use super::texts::{Texts, TextsConfig};

/// The number of connections to a provider with one address.
const CONNECTIONS: usize = 4;

/// The maximum size of a message of Web Push, encrypted, in bytes: 2,744 of plain text and the overhead. RFC 8030 lets
/// a service refuse more than 4,096, but those that pass messages on to FCM or APNs accept 2,744 to 3,052 of plain
/// text.
const MAX_WEB_PUSH_BODY: usize = 2_744 + OVERHEAD;

/// Builds transports and texts. Checks keys, URLs and templates, and makes no request.
///
/// # Errors
/// The first setting that is not valid.
pub fn push_providers(config: &PushConfig) -> anyhow::Result<(Providers, Texts)> {
    let dry_run = DryRunSettings { latency: config.dry_run_latency, concurrency: config.concurrency };
    let settings = ProvidersConfig {
        timeout: config.timeout,
        ca_certificates: config.ca_certificates.clone().into_bytes(),
        fcm: fcm(config)?,
        apns: apns(config)?,
        web_push: config.vapid_private_key.clone().map(|private_key| WebPushSettings {
            private_key,
            subject: config.vapid_subject.clone(),
            max_body: MAX_WEB_PUSH_BODY,
            concurrency: config.concurrency,
        }),
        webhook: (!config.webhook_secrets.is_empty())
            .then(|| WebhookSettings { secrets: config.webhook_secrets.clone(), concurrency: config.concurrency }),
        dry_run: config.dry_run.then_some(dry_run),
        ..endpoints(config)
    };
    let texts = TextsConfig {
        app_name: config.app_name.clone(),
        default_locale: config.locale.clone(),
        templates: config.texts.clone(),
    };
    let texts = Texts::new(&texts).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("the texts of pushes cannot be used: {}", errors.join("; "))
    })?;
    let providers = Providers::new(&settings).context("the push providers ([push]) cannot be used")?;
    Ok((providers, texts))
}

/// The policies of endpoints that users register, and of webhooks.
pub(super) fn endpoint_policies(config: &PushConfig) -> (EndpointPolicy, EndpointPolicy) {
    let settings = endpoints(config);
    (settings.endpoint_policy(), settings.webhook_policy())
}

/// Settings without a provider.
fn endpoints(config: &PushConfig) -> ProvidersConfig {
    ProvidersConfig {
        allow_networks: config.allow_networks.clone(),
        hosts: HostRules::new(&config.endpoints_allow, &config.endpoints_deny),
        ..ProvidersConfig::default()
    }
}

/// The public key of VAPID in base64url; `None` without Web Push, or if the private key is not valid.
pub fn vapid_public_key(config: &PushConfig) -> Option<String> {
    let private_key = config.vapid_private_key.as_ref().filter(|_| config.enabled)?;
    providers::public_key(private_key)
}

fn fcm(config: &PushConfig) -> anyhow::Result<Option<FcmSettings>> {
    let Some(service_account) = config.fcm_service_account.clone() else { return Ok(None) };
    let url = url("push.fcm_url", &config.fcm_url)?;
    Ok(Some(FcmSettings { service_account, url, connections: CONNECTIONS, concurrency: config.concurrency }))
}

fn apns(config: &PushConfig) -> anyhow::Result<Option<ApnsSettings>> {
    let Some(key) = config.apns_key.clone() else { return Ok(None) };
    Ok(Some(ApnsSettings {
        key,
        key_id: config.apns_key_id.clone(),
        team_id: config.apns_team_id.clone(),
        topic: config.apns_topic.clone(),
        environment: if config.apns_sandbox { ApnsEnvironment::Sandbox } else { ApnsEnvironment::Production },
        production_url: url("push.apns_url", &config.apns_url)?,
        sandbox_url: url("push.apns_sandbox_url", &config.apns_sandbox_url)?,
        connections: CONNECTIONS,
        concurrency: config.concurrency,
    }))
}

fn url(key: &str, text: &str) -> anyhow::Result<EndpointUrl> {
    EndpointUrl::parse(text).with_context(|| format!("{key} {text:?} is not usable"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn texts(toml: &str) -> anyhow::Result<Texts> {
        let config = Config::parse(toml, std::iter::empty()).expect("a configuration");
        push_providers(&config.push).map(|(_, texts)| texts)
    }

    #[test]
    fn templates_are_checked_with_their_places() {
        texts("[push.texts.de.like]\ntitle = \"{name} mag das\"\nbody = \"\"\n").expect("texts");
        let error = texts("[push.texts.de.like]\ntitle = \"{who} mag das\"\n[push.texts.en.poke]\ntitle = \"x\"\n");
        let error = error.expect_err("two mistakes").to_string();
        assert!(error.contains("push.texts.de.like.title has the placeholder `{who}`; it may have"), "{error}");
        assert!(error.contains("push.texts.en.poke.title is not a kind of notification"), "{error}");
        let error = texts("[push]\nlocale = \"de\"\n").expect_err("a language without texts").to_string();
        assert!(error.contains("push.texts.de.like.title is missing in the default language"), "{error}");
    }
}

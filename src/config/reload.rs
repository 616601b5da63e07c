//! Which keys a running server takes from a changed configuration.

use super::{AuthConfig, Config, LedgerConfig, PushConfig, ServerConfig};
use crate::net::AllowedOrigins;
use crate::settings::changed_fields;

/// What a reload does with the keys that have changed, as `section.key`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ChangedKeys {
    /// Those that the server takes.
    pub taken: Vec<String>,
    /// Those that need a restart.
    pub need_restart: Vec<String>,
}

impl Config {
    /// This configuration with the keys of `new` that a running server can take, and what has changed.
    #[must_use]
    pub fn reloaded(&self, new: &Self) -> (Self, ChangedKeys) {
        let mut reloaded = self.clone();
        reloaded.server = self.server.reloaded(&new.server);
        // `headers` of hooks and `origins` are checked together.
        if new.server.origins != AllowedOrigins::Any || self.hooks == new.hooks {
            reloaded.server.origins.clone_from(&new.server.origins);
        }
        reloaded.rates = new.rates;
        reloaded.push = self.push.with_credentials_of(&new.push);
        reloaded.auth = self.auth.with_keys_of(&new.auth);
        // Routes and the page know from the start whether there are accounts.
        if reloaded.accounts_enabled() != self.accounts_enabled() {
            reloaded.auth.clone_from(&self.auth);
        }
        let changed = ChangedKeys { taken: self.changed_keys(&reloaded), need_restart: reloaded.changed_keys(new) };
        (reloaded, changed)
    }

    /// The keys whose values differ, as `section.key`.
    fn changed_keys(&self, other: &Self) -> Vec<String> {
        let namespaces = (self.namespaces != other.namespaces).then(|| "namespaces".to_owned());
        let sections = [
            ("server", self.server.changed_keys(&other.server)),
            ("client", self.client.changed_keys(&other.client)),
            ("transports", self.transports.changed_keys(&other.transports)),
            ("broker", self.broker.changed_keys(&other.broker)),
            ("ledger", self.ledger.changed_keys(&other.ledger)),
            ("auth", self.auth.changed_keys(&other.auth)),
            ("accounts", self.accounts.changed_keys(&other.accounts)),
            ("timeline", self.timeline.changed_keys(&other.timeline)),
            ("fanout", self.fanout.changed_keys(&other.fanout)),
            ("likes", self.likes.changed_keys(&other.likes)),
            ("notifications", self.notifications.changed_keys(&other.notifications)),
            ("push", self.push.changed_keys(&other.push)),
            ("outlet", self.outlet.changed_keys(&other.outlet)),
            ("hooks", self.hooks.changed_keys(&other.hooks)),
            ("limits", self.limits.changed_keys(&other.limits)),
            ("rates", self.rates.changed_keys(&other.rates)),
            ("telemetry", self.telemetry.changed_keys(&other.telemetry)),
        ];
        let keys = sections
            .into_iter()
            .flat_map(|(section, keys)| keys.into_iter().map(move |key| format!("{section}.{key}")));
        keys.chain(namespaces).collect()
    }
}

impl ServerConfig {
    fn reloaded(&self, new: &Self) -> Self {
        // A certificate in other files is taken; one that comes or goes changes the protocol of open ports.
        let tls = if self.tls.is_some() == new.tls.is_some() { &new.tls } else { &self.tls };
        Self { log_level: new.log_level, tls: tls.clone(), ..self.clone() }
    }

    fn changed_keys(&self, other: &Self) -> Vec<&'static str> {
        let mut changed = changed_fields!(
            self,
            other,
            [
                listen,
                hsts,
                redirect_listen,
                base_path,
                data_dir,
                origins,
                connections,
                connections_per_address,
                header_timeout,
                keep_alive,
                stall_timeout,
                trusted_proxies,
                proxy_protocol,
                admin_listen,
                drain_delay,
                drain,
                log_level,
                log_format,
            ]
        );
        let files = |server: &Self| server.tls.clone().map(|files| (files.certificate, files.key)).unzip();
        let ((old_certificate, old_key), (certificate, key)) = (files(self), files(other));
        if certificate != old_certificate {
            changed.push("tls_certificate");
        }
        if key != old_key {
            changed.push("tls_key");
        }
        changed
    }
}

impl LedgerConfig {
    fn changed_keys(&self, other: &Self) -> Vec<&'static str> {
        changed_fields!(self, other, [url, durability, timeout, connections, prepared_statements])
    }
}

impl AuthConfig {
    /// The keys and the rules of tokens, and the API keys. The rest is known to parts of the feed, too.
    fn with_keys_of(&self, new: &Self) -> Self {
        Self {
            token_ttl: self.token_ttl,
            leeway: self.leeway,
            revocation_ttl: self.revocation_ttl,
            anonymous: self.anonymous,
            ..new.clone()
        }
    }
}

impl PushConfig {
    /// The credentials for the providers, and what the messages say. The key of VAPID stays: browsers have subscribed
    /// with its public key.
    fn with_credentials_of(&self, new: &Self) -> Self {
        Self {
            locale: new.locale.clone(),
            app_name: new.app_name.clone(),
            texts: new.texts.clone(),
            ca_certificates: new.ca_certificates.clone(),
            fcm_service_account: new.fcm_service_account.clone(),
            fcm_url: new.fcm_url.clone(),
            apns_key: new.apns_key.clone(),
            apns_key_id: new.apns_key_id.clone(),
            apns_team_id: new.apns_team_id.clone(),
            apns_topic: new.apns_topic.clone(),
            apns_sandbox: new.apns_sandbox,
            apns_url: new.apns_url.clone(),
            apns_sandbox_url: new.apns_sandbox_url.clone(),
            vapid_subject: new.vapid_subject.clone(),
            webhook_secrets: new.webhook_secrets.clone(),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "[auth]\nhmac_secret = \"a secret that is long enough for HS256 tokens\"\n";

    fn parsed(text: &str) -> Config {
        Config::parse(text, std::iter::empty()).unwrap()
    }

    fn changed(before: &str, after: &str) -> (Vec<String>, Vec<String>) {
        let (before, after) = (parsed(before), parsed(after));
        let (reloaded, changed) = before.reloaded(&after);
        let again = reloaded.reloaded(&after).1;
        assert_eq!((again.taken, &again.need_restart), (Vec::new(), &changed.need_restart), "it has been taken");
        (changed.taken, changed.need_restart)
    }

    fn keys(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn keys_are_taken_or_need_a_restart() {
        let (taken, need_restart) = changed(
            BEFORE,
            "[server]\nlog_level = \"debug\"\norigins = [\"https://a.example\"]\nkeep_alive = \"5s\"\n\
             [auth]\nhmac_secret = \"another secret that is long enough for tokens\"\n\
             hmac_secret_previous = \"a secret that is long enough for HS256 tokens\"\nleeway = \"7s\"\n\
             api_keys = [\"a-key-of-a-backend-that-is-long\"]\n\
             [rates]\nposts = 3\n[limits]\ntext = 77\n[push]\nttl = \"2h\"\nwebhook_secrets = [\"a-secret\"]\n\
             [ledger]\nconnections = 3\n[[namespaces]]\nname = \"chat\"\n",
        );
        let expected = [
            "server.origins",
            "server.log_level",
            "auth.hmac_secret",
            "auth.hmac_secret_previous",
            "auth.api_keys",
            "push.webhook_secrets",
            "rates.posts",
        ];
        assert_eq!(taken, keys(&expected));
        let expected =
            ["server.keep_alive", "ledger.connections", "auth.leeway", "push.ttl", "limits.text", "namespaces"];
        assert_eq!(need_restart, keys(&expected));
    }

    #[test]
    fn what_belongs_to_a_key_that_needs_a_restart_waits_for_it() {
        let of_accounts = changed("", BEFORE);
        assert_eq!(of_accounts, (Vec::new(), keys(&["auth.hmac_secret"])), "accounts would end");

        let before = "[hooks]\nconnect = \"http://127.0.0.1:1/\"\nheaders = [\"cookie\"]\n";
        let of_origins = changed(before, "[server]\norigins = [\"*\"]\n[hooks]\nconnect = \"http://127.0.0.1:1/\"\n");
        assert_eq!(of_origins.0, keys(&[]), "every page could act as its visitor");
        assert!(of_origins.1.contains(&"server.origins".to_owned()), "{of_origins:?}");
    }
}

//! Which devices may be registered: those that the transports can reach.

use super::providers::endpoint::{EndpointError, EndpointPolicy, EndpointUrl};
use super::providers::webpush::{InvalidSubscription, PushSubscription};
use super::setup::endpoint_policies;
use super::{PushConfig, message};
use crate::feed::{InvalidAddress, TargetValidator};
use crate::model::{PushTarget, WebPushKeys};

/// Checks the addresses of devices with the policies that the transports apply to each request.
#[derive(Debug)]
pub struct RegistrationPolicy {
    /// For Web Push and UnifiedPush.
    endpoints: EndpointPolicy,
    /// For webhooks, which only backends register.
    webhooks: EndpointPolicy,
}

impl RegistrationPolicy {
    /// The policy of a configuration.
    pub fn new(config: &PushConfig) -> Self {
        let (endpoints, webhooks) = endpoint_policies(config);
        Self { endpoints, webhooks }
    }

    fn subscription(&self, keys: &WebPushKeys) -> Result<(), InvalidAddress> {
        let subscription = PushSubscription::parse(&keys.endpoint, &keys.p256dh, &keys.auth);
        let subscription = subscription.map_err(|error| match error {
            InvalidSubscription::Endpoint(error) => endpoint(error),
            InvalidSubscription::PublicKey => InvalidAddress::new("p256dh", error),
            InvalidSubscription::Auth => InvalidAddress::new("auth", error),
        })?;
        self.endpoints.check(subscription.endpoint()).map_err(endpoint)
    }
}

impl TargetValidator for RegistrationPolicy {
    fn validate(&self, target: &PushTarget) -> Result<(), InvalidAddress> {
        match target {
            PushTarget::Fcm { .. } | PushTarget::Apns { .. } => {
                message::target(target).map(drop).map_err(|problem| InvalidAddress::new("token", problem))
            }
            PushTarget::Webpush(keys) | PushTarget::Unifiedpush(keys) => self.subscription(keys),
            PushTarget::Webhook { endpoint: url } => {
                let url = EndpointUrl::parse(url).map_err(endpoint)?;
                self.webhooks.check(&url).map_err(endpoint)
            }
        }
    }
}

fn endpoint(error: EndpointError) -> InvalidAddress {
    InvalidAddress::new("endpoint", format_args!("`endpoint` {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const KEY: &str = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

    fn webpush(endpoint: &str) -> PushTarget {
        let endpoint = endpoint.into();
        let p256dh = KEY.into();
        let auth = AUTH.into();
        PushTarget::Webpush(WebPushKeys { endpoint, p256dh, auth })
    }

    fn webhook(endpoint: &str) -> PushTarget {
        PushTarget::Webhook { endpoint: endpoint.into() }
    }

    fn policy(toml: &str) -> RegistrationPolicy {
        RegistrationPolicy::new(&Config::parse(toml, std::iter::empty()).expect("a configuration").push)
    }

    fn field(policy: &RegistrationPolicy, target: &PushTarget) -> Option<&'static str> {
        policy.validate(target).err().map(|error| error.field)
    }

    #[test]
    fn endpoints_that_would_never_be_contacted_are_refused() {
        let policy = policy("");
        for make in [webpush, webhook] {
            assert_eq!(field(&policy, &make("https://push.example.org/1?k=2")), None);
            for url in ["https://127.0.0.1/", "https://x:6379/", "https://localhost/", "http://push.example.org/"] {
                assert_eq!(field(&policy, &make(url)), Some("endpoint"), "{url}");
            }
        }
        let error = policy.validate(&webpush("https://10.0.0.1/")).expect_err("a private address");
        assert_eq!(error.problem, "`endpoint` leads to an address that is not public");
    }

    #[test]
    fn keys_are_points_of_the_curve() {
        let policy = policy("");
        let keys = |p256dh: &str, auth: &str| WebPushKeys {
            endpoint: "https://push.example.org/1".into(),
            p256dh: p256dh.into(),
            auth: auth.into(),
        };
        let off_curve = format!("{}A", &KEY[..KEY.len() - 1]);
        assert_eq!(field(&policy, &PushTarget::Unifiedpush(keys(&off_curve, AUTH))), Some("p256dh"));
        assert_eq!(field(&policy, &PushTarget::Unifiedpush(keys(KEY, "AAAA"))), Some("auth"));
        assert_eq!(field(&policy, &PushTarget::Unifiedpush(keys(KEY, AUTH))), None);
    }

    #[test]
    fn lists_of_hosts_do_not_concern_webhooks() {
        let policy = policy("[push]\nendpoints_allow = [\"*.push.example\"]\nendpoints_deny = [\"b.push.example\"]\n");
        assert_eq!(field(&policy, &webpush("https://a.push.example/1")), None);
        for url in ["https://b.push.example/1", "https://other.example/1"] {
            assert_eq!((field(&policy, &webpush(url)), field(&policy, &webhook(url))), (Some("endpoint"), None));
        }
    }

    #[test]
    fn allowed_networks_are_for_endpoints() {
        let policy = policy("[push]\nallow_networks = [\"10.0.0.0/8\"]\n");
        assert_eq!(field(&policy, &webpush("http://10.0.0.1/1")), None);
        assert_eq!(field(&policy, &webpush("http://127.0.0.1/1")), Some("endpoint"));
    }
}

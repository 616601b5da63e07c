//! Tokens and keys are not printed.

use feedline::config::Secret;
use feedline::push::providers::endpoint::EndpointUrl;
use feedline::push::providers::settings::{ApnsSettings, FcmSettings, WebPushSettings, WebhookSettings};
use feedline::push::providers::webpush::PushSubscription;
use feedline::push::providers::{ApnsEnvironment, Target};

use crate::alert;

const KEY: &str = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

fn secret() -> Secret {
    Secret::new("SECRET".repeat(10))
}

#[test]
fn messages_hide_the_address_of_the_device() {
    let url = "https://push.example.net/SECRET?SECRET=SECRET";
    let subscription = PushSubscription::parse(url, KEY, AUTH).unwrap();
    let token = "5ec2e7".repeat(10);
    let targets = [
        Target::fcm("SECRETSECRET").unwrap(),
        Target::apns(&token, None, None).unwrap(),
        Target::WebPush(subscription.clone()),
        Target::UnifiedPush(subscription),
        Target::Webhook { url: EndpointUrl::parse(url).unwrap(), secret: Some(secret()) },
    ];
    for target in targets {
        let shown = format!("{:?}", alert(target));
        for hidden in ["SECRET", &token, KEY, AUTH, "Alice", "see you"] {
            assert!(!shown.contains(hidden), "{shown}");
        }
    }
}

#[test]
fn settings_hide_their_keys() {
    let url = EndpointUrl::parse("https://push.example.net").unwrap();
    let shown = [
        format!("{:?}", FcmSettings { service_account: secret(), url: url.clone(), connections: 1, concurrency: 1 }),
        format!("{:?}", WebhookSettings { secrets: vec![secret()], concurrency: 1 }),
        format!(
            "{:?}",
            WebPushSettings { private_key: secret(), subject: "mailto:a@b.c".into(), max_body: 4096, concurrency: 1 }
        ),
        format!(
            "{:?}",
            ApnsSettings {
                key: secret(),
                key_id: "ABC123DEFG".into(),
                team_id: "DEF123GHIJ".into(),
                topic: "com.example.app".into(),
                environment: ApnsEnvironment::Production,
                production_url: url.clone(),
                sandbox_url: url,
                connections: 1,
                concurrency: 1,
            }
        ),
    ];
    for shown in shown {
        assert!(!shown.contains("SECRET"), "{shown}");
    }
}

//! The registry: breakers, concurrency limits, timeouts, dry runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use feedline::config::Secret;
use feedline::model::Platform;
use feedline::push::providers::endpoint::EndpointUrl;
use feedline::push::providers::settings::{DryRunSettings, WebPushSettings, WebhookSettings};
use feedline::push::providers::webpush::PushSubscription;
use feedline::push::providers::{Providers, ProvidersConfig, Push, Scope, Target, public_key};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::server::{Reply, Server};
use crate::{alert, alert_for, config, demanded, keys, now, summary};

fn webhooks(change: impl FnOnce(&mut ProvidersConfig)) -> Providers {
    let secrets = vec![Secret::new("x".repeat(32))];
    let mut config = ProvidersConfig { webhook: Some(WebhookSettings { secrets, concurrency: 4 }), ..config() };
    change(&mut config);
    Providers::new(&config).unwrap()
}

fn target(server: &Server) -> Target {
    Target::Webhook { url: server.url("/hook"), secret: None }
}

/// A message for a device of its own, and the user of this number.
fn of_user(user: usize, device: usize, server: &Server) -> Push {
    alert_for(user, Target::Webhook { url: server.url(&format!("/hook?{user}&{device}")), secret: None })
}

#[tokio::test]
async fn a_failing_server_is_left_alone_and_others_are_not() {
    let (broken, healthy) = (Server::start(|_| Reply::new(503)).await, Server::start(|_| Reply::new(200)).await);
    let webhooks = webhooks(|config| {
        config.breaker.failures = 3;
        config.breaker.min_open = Duration::from_millis(400);
    });
    for user in 0..3 {
        assert_eq!(summary(&webhooks.send(&of_user(user, 1, &broken)).await).1, "server_error");
    }
    let open = ("retry", "breaker_open", Some(Scope::Origin));
    assert_eq!(summary(&webhooks.send(&of_user(4, 1, &broken)).await), open);
    assert_eq!(webhooks.breakers().open(), 1);
    assert_eq!(webhooks.send(&of_user(4, 1, &healthy)).await.name(), "accepted");
    assert_eq!(broken.requests().len(), 3);

    tokio::time::sleep(Duration::from_millis(420)).await;
    broken.answer(|_| Reply::new(200));
    assert_eq!(webhooks.send(&of_user(4, 1, &broken)).await.name(), "accepted");
    assert_eq!(webhooks.breakers().open(), 0);
}

/// What a user's endpoints answer pauses these, one by one, and never their host for others.
#[tokio::test]
async fn a_user_cannot_pause_a_server_for_others() {
    let refused = |status: u16| Reply::new(status).with("retry-after", "86400");
    for (status, code) in [(429, "too_many_requests"), (500, "server_error"), (503, "server_error")] {
        let server = Server::start(move |_| refused(status)).await;
        let webhooks = webhooks(|_| {});
        for device in 0..20 {
            assert_eq!(summary(&webhooks.send(&of_user(1, device, &server)).await).1, code, "{status}");
        }
        assert_eq!(webhooks.breakers().open(), 0, "{status}");
        let again = webhooks.send(&of_user(1, 3, &server)).await;
        assert_eq!(summary(&again), ("retry", "device_paused", Some(Scope::Device)), "{status}");
        assert!(demanded(&again).is_some_and(|wait| wait > Duration::from_secs(86_000)), "{again:?}");
        server.answer(|_| Reply::new(200));
        assert_eq!(webhooks.send(&of_user(2, 1, &server)).await.name(), "accepted", "{status}");
    }
    // Refusals of a message, a signature or a device show that the server works.
    for (status, name) in [(400, "rejected"), (401, "misconfigured"), (403, "misconfigured"), (410, "token_gone")] {
        let server = Server::start(move |_| refused(status)).await;
        let webhooks = webhooks(|_| {});
        for user in 0..20 {
            assert_eq!(webhooks.send(&of_user(user, 1, &server)).await.name(), name, "{status}");
        }
    }
}

/// So that a server with an outage is not asked for every device, and is asked again after minutes.
#[tokio::test]
async fn a_server_that_refuses_several_users_is_left_alone_for_minutes() {
    for status in [429, 503] {
        let server = Server::start(move |_| Reply::new(status).with("retry-after", "86400")).await;
        let webhooks = webhooks(|_| {});
        for user in 0..5 {
            webhooks.send(&of_user(user, 1, &server)).await;
        }
        let paused = webhooks.send(&of_user(9, 1, &server)).await;
        assert_eq!(summary(&paused).1, "breaker_open", "{status}");
        let minutes = Duration::from_secs(200)..=Duration::from_secs(300);
        assert!(demanded(&paused).is_some_and(|wait| minutes.contains(&wait)), "{status}: {paused:?}");
    }
}

#[tokio::test]
async fn a_device_cannot_pause_the_others_of_its_push_service() {
    let server = Server::start(|_| Reply::new(201)).await;
    let web_push = Some(WebPushSettings {
        private_key: Secret::new(keys::p256().0.clone()),
        subject: "mailto:ops@example.com".into(),
        max_body: 4096,
        concurrency: 10,
    });
    let web_push = Providers::new(&ProvidersConfig { web_push, ..config() }).unwrap();
    let (key, auth) = (public_key(&Secret::new(keys::p256().0.clone())).unwrap(), "BTBZMqHH6r4Tts7J_aSIgg");
    let device =
        |number: usize| PushSubscription::parse(server.url(&format!("/{number}")).reveal(), &key, auth).unwrap();
    let send = async |number| web_push.send(&alert(Target::WebPush(device(number)))).await;
    server.answer(|_| Reply::new(403));
    for number in 0..20 {
        assert_eq!(summary(&send(number).await), ("misconfigured", "vapid_refused", Some(Scope::Device)));
    }
    server.answer(|_| Reply::new(429).with("retry-after", "3600"));
    for number in 0..20 {
        assert_eq!(summary(&send(number).await).1, "too_many_requests");
    }
    server.answer(|_| Reply::new(201));
    assert_eq!(send(20).await.name(), "accepted");
    assert_eq!(summary(&send(3).await).1, "device_paused");
}

/// Each of its endpoints may be at another origin.
#[tokio::test]
async fn silent_endpoints_of_a_user_leave_requests_for_others() {
    let quick = Server::start(|_| Reply::new(200)).await;
    let webhooks = Arc::new(webhooks(|_| {}));
    let mut silent = Vec::new();
    for device in 0..8 {
        let server = Server::start(|_| Reply::new(200).after(Duration::from_secs(30))).await;
        let webhooks = Arc::clone(&webhooks);
        let push = of_user(1, device, &server);
        silent.push((server, tokio::spawn(async move { webhooks.send(&push).await })));
    }
    let asked = || silent.iter().map(|(server, _)| server.connections()).sum::<usize>();
    let begun = Instant::now();
    while asked() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(1), "a silent endpoint is asked");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let begun = Instant::now();
    assert_eq!(webhooks.send(&of_user(2, 1, &quick)).await.name(), "accepted");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(asked(), 1, "a tenth of four, and at least one");
    silent.iter().for_each(|(_, sending)| sending.abort());
}

#[tokio::test]
async fn a_slow_server_times_out_and_a_stopped_one_is_retried() {
    let server = Server::start(|_| Reply::new(200).after(Duration::from_secs(30))).await;
    let webhooks = webhooks(|config| config.timeout = Duration::from_millis(300));
    let begun = Instant::now();
    let outcome = webhooks.send(&alert(target(&server))).await;
    assert_eq!(summary(&outcome), ("retry", "timeout", Some(Scope::Origin)));
    assert!(begun.elapsed() < Duration::from_secs(1), "the limit of a request, not of a whole send");
    let stopped = of_user(1, 1, &server);
    drop(server);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let refused = webhooks.send(&stopped).await;
    assert!(matches!(summary(&refused), ("retry", "connect" | "timeout" | "transfer", _)), "{refused:?}");
}

#[tokio::test]
async fn requests_to_an_origin_are_limited() {
    let server = Server::start(|_| Reply::new(200).after(Duration::from_millis(100))).await;
    let webhooks = Arc::new(webhooks(|_| {}));
    let begun = Instant::now();
    let sends: Vec<_> = (0..12)
        .map(|user| {
            let webhooks = Arc::clone(&webhooks);
            let push = of_user(user, 1, &server);
            tokio::spawn(async move { webhooks.send(&push).await.name() })
        })
        .collect();
    for send in sends {
        assert_eq!(send.await.unwrap(), "accepted");
    }
    assert!(begun.elapsed() >= Duration::from_millis(1_200), "12 requests, one at a time, 100 ms each");
    assert_eq!(server.max_active(), 1, "an origin has a quarter of four");
}

#[tokio::test]
async fn a_response_is_read_up_to_a_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    // A response that never ends.
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n").await.unwrap();
        stream.write_all(&vec![b'x'; 64 * 1024]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
    });
    let url = EndpointUrl::parse(&url).unwrap();
    let outcome = webhooks(|_| {}).send(&alert(Target::Webhook { url, secret: None })).await;
    assert_eq!(outcome.name(), "accepted", "{outcome:?}");
    server.abort();
}

#[test]
fn a_file_without_a_certificate_is_an_error() {
    let secrets = vec![Secret::new("x".repeat(32))];
    let webhook = Some(WebhookSettings { secrets, concurrency: 4 });
    let config = ProvidersConfig { webhook, ca_certificates: b"no certificate".to_vec(), ..config() };
    let error = Providers::new(&config).err().unwrap().to_string();
    assert_eq!(error, "push.ca_certificates: contains no certificate in PEM");
}

/// Set in the process that sends the request of [`the_proxy_of_the_environment_is_not_used`]: the URL.
const SEND_TO: &str = "FEEDLINE_TEST_URL";

/// The proxy is set in the environment of another process, which runs this test as well and sends the request: the
/// environment of this one is shared by all tests.
#[tokio::test]
async fn the_proxy_of_the_environment_is_not_used() {
    if let Ok(url) = std::env::var(SEND_TO) {
        let url = EndpointUrl::parse(&url).unwrap();
        let outcome = webhooks(|_| {}).send(&alert(Target::Webhook { url, secret: None })).await;
        assert_eq!(outcome.name(), "accepted", "{outcome:?}");
        return;
    }
    let proxy = Server::start_plain(|_| Reply::new(200)).await;
    let server = Server::start_plain(|_| Reply::new(200)).await;
    let url = format!("http://{}", proxy.address);
    let output = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "providers::the_proxy_of_the_environment_is_not_used", "--nocapture"])
        .envs(["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"].map(|name| (name, &url)))
        .env(SEND_TO, format!("http://{}/hook", server.address))
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!((proxy.connections(), server.requests().len()), (0, 1));
}

#[tokio::test]
async fn a_dry_run_sends_nothing_and_takes_its_time() {
    let server = Server::start(|_| Reply::new(200)).await;
    let latency = Duration::from_millis(100);
    let providers = webhooks(|config| config.dry_run = Some(DryRunSettings { latency, concurrency: 10 }));
    assert!(Platform::ALL.into_iter().all(|platform| providers.supports(platform)));
    for target in [target(&server), Target::fcm("token").unwrap()] {
        let begun = Instant::now();
        assert_eq!(providers.send(&alert(target)).await.name(), "accepted");
        assert!(begun.elapsed() >= latency);
    }
    let late = Push { expires_at: now() - 1, ..alert(target(&server)) };
    assert_eq!(summary(&providers.send(&late).await), ("rejected", "expired", None));
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_platform_without_settings_is_an_alarm() {
    let outcome = webhooks(|_| {}).send(&alert(Target::fcm("token").unwrap())).await;
    assert_eq!(summary(&outcome), ("misconfigured", "not_configured", Some(Scope::Provider)));
}

//! The transports: each sends one message to one device and reports the consequence.
//!
//! | file | contents |
//! |---|---|
//! | `push.rs`, `target.rs` | a message, and the device that receives it |
//! | `outcome.rs` | the result of a send: what happens to the message and to the token |
//! | `provider.rs` | the trait of a transport |
//! | `registry.rs` | the configured transports, with their breakers and concurrency limits |
//! | `device_pauses.rs` | devices that are refused, and wait |
//! | `settings.rs` | their settings, as the configuration provides them |
//! | `fcm/` | Firebase Cloud Messaging, HTTP v1 |
//! | `apns/` | Apple Push Notification service, HTTP/2 with provider tokens |
//! | `webpush/` | Web Push (RFC 8030, 8188, 8291, 8292) and UnifiedPush |
//! | `webhook.rs` | signed HTTP requests to an application's backend |
//! | `dry_run.rs` | sends nothing, for load tests |
//! | `endpoint.rs`, `hosts.rs`, `resolver.rs` | which URLs, hosts and addresses may be contacted |
//! | `http.rs`, `retry_after.rs` | HTTP clients with timeouts and bounded responses |
//! | `retry.rs` | delays between attempts, and when to give up |
//! | `signing.rs`, `clock.rs`, `error.rs` | keys of ES256; the wall clock; errors in settings |
//! | `truncate.rs` | shortens texts to an encoded size |

pub mod apns;
mod clock;
mod device_pauses;
pub mod dry_run;
pub mod endpoint;
mod error;
pub mod fcm;
pub mod hosts;
pub mod http;
pub mod outcome;
mod provider;
pub mod push;
pub mod registry;
mod resolver;
pub mod retry;
pub mod retry_after;
pub mod settings;
mod signing;
pub mod target;
pub mod truncate;
pub mod webhook;
pub mod webpush;

pub use error::ProviderError;
pub use outcome::{Outcome, Reason, Scope};
pub use provider::Provider;
pub use push::{Push, PushKind, Urgency};
pub use registry::{Busy, Providers, RequestSlot, SlotPatience};
pub use resolver::{Lookup, SystemLookup};
pub use settings::ProvidersConfig;
pub use signing::public_key;
pub use target::Target;

pub use crate::model::ApnsEnvironment;

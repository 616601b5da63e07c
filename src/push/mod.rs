//! The push bridge: notifications for people who are not connected.
//!
//! Notifications are queued for devices in the transaction that writes them (`ledger/pushes.rs`). After a grace period,
//! [`PushBridge`] leases them, checks again whether they may be sent (`feed/pushes/`), renders their texts, and sends
//! them with the transport of the device. A push is settled with its outcome: accepted, retried later, or given up with
//! a reason. Several processes can run the bridge; a killed one loses its leases, and nothing else. Unlike other
//! durable work, pushes have leases of their own, because many are in flight: see `bridge.rs`.
//!
//! | file or folder | contents |
//! |---|---|
//! | `bridge.rs` | the loop: leases pushes |
//! | `batch.rs` | decides about the pushes of a lease, sends and settles them |
//! | `digest.rs` | the message for several notifications that are due at once |
//! | `config.rs` | `[push]` of the configuration |
//! | `message.rs` | the message for a device |
//! | `registration.rs` | which devices may be registered |
//! | `setup.rs` | transports and texts, from the configuration |
//! | `sender.rs` | what batches use |
//! | `settlement.rs` | what an outcome means for a push |
//! | `providers/` | the transports to FCM, APNs, Web Push and webhooks |
//! | `texts/` | the texts of notifications, in the languages of devices |

mod batch;
mod bridge;
mod config;
mod digest;
mod message;
pub mod providers;
mod registration;
mod sender;
mod settlement;
mod setup;
pub mod texts;

pub use bridge::PushBridge;
pub use config::PushConfig;
pub use message::test_message;
pub use registration::RegistrationPolicy;
pub use setup::{push_providers, vapid_public_key};

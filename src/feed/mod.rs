//! The feed: its services, without sockets and transports.
//!
//! A service owns its state. `wiring/` builds the services, lower layers first, and passes each its dependencies: what
//! nearly all services use as one `Base`, the others by name. Commands submit jobs and events; lower
//! layers never call higher ones.
//!
//! | layer | modules |
//! |---|---|
//! | background work | `fanout/`, `likes/`, `erasure/`, `outlet/` |
//! | commands, reads | `posts/`, `reposts/`, `people/`, `timelines/`, `notifications/`, `favourites`, `topics`, `export` |
//! | | `lists/` |
//! | | `devices/`, `web_push_key` |
//! | what nearly all of these use | `base` |
//! | rendering | `rendering/` |
//! | muted words | `filters/` |
//! | visibility | `visibility/`, `content/`, `caching/` |
//! | identity | `identity/`, `rate_limits` |
//! | durable work | `work/` |
//! | submission | `event_queue`, `invalidation` |
//! | stores in step | `nodes/`, `lineage`, `node_ids`, `id_maker`, `pause_detector`, `runtime` |
//! | shared by all | `call`, `error`, `input`, `expand`, `paging`, `query_values`, `options`, `config` |

mod base;
mod caching;
mod call;
mod config;
mod content;
pub(crate) mod devices;
pub(crate) mod erasure;
mod error;
mod event_queue;
pub(crate) mod expand;
pub(crate) mod export;
mod export_rows;
mod fanout;
pub(crate) mod favourites;
pub(crate) mod filters;
mod id_maker;
pub(crate) mod identity;
pub(crate) mod input;
mod invalidation;
pub(crate) mod likes;
mod lineage;
pub(crate) mod lists;
pub(crate) mod moderation;
mod node_ids;
mod nodes;
pub(crate) mod notifications;
mod options;
pub(crate) mod outlet;
pub(crate) mod paging;
pub(crate) mod patch;
mod pause_detector;
pub(crate) mod people;
pub(crate) mod posts;
mod pushes;
mod query_values;
mod rate_limit_buckets;
mod rate_limits;
mod rendering;
pub(crate) mod reposts;
mod runtime;
mod services;
mod status;
pub(crate) mod timelines;
pub(crate) mod topic_follows;
pub(crate) mod topics;
mod visibility;
pub(crate) mod web_push_key;
mod wiring;
pub(crate) mod work;

pub(crate) use base::Base;
pub(crate) use call::Call;
pub use call::{Caller, Credential, Origin};
pub use config::{FanoutConfig, LikesConfig, LimitsConfig, NotificationsConfig, RatesConfig, TimelineConfig};
pub(crate) use content::PostCache;
pub use devices::ConnectedUsers;
pub(crate) use devices::DeviceUsage;
pub use devices::target_validator::{InvalidAddress, TargetValidator};
pub use error::{FeedError, Result};
pub(crate) use error::{StoredError, whole_seconds};
pub(crate) use identity::{AuthorizationChecks, IdentityService};
pub use identity::{ErasureLogContents, ErasureLogEntry, NewUser, PendingChecks, read_erasure_log};
pub(crate) use likes::{SettledLike, SettlementListener, SettlementNews, UserLike};
pub use nodes::{FINGERPRINTS, JoinError, adopt, check_pairing};
pub use options::{FeedOptions, PushOptions};
pub use outlet::{OutletConfig, OutletWebhook, webhook_consumer};
pub(crate) use posts::{Draft, mentioned};
pub use pushes::SocketProbe;
pub(crate) use pushes::{ClearContent, DeliveryReceipts, LiveDeliveries, PushContent, PushDecision, SendReservation};
pub use rate_limits::ADDRESS_READS;
pub(crate) use rate_limits::{RateClass, RateLimits};
pub(crate) use rendering::EventRenderer;
pub use rendering::{Audience, RenderContext, RenderedEvent, Viewer};
pub(crate) use runtime::Runtime;
pub use runtime::now;
pub use services::Feed;
pub use status::{DeploymentStatus, NodeStatus, WorkStatus, ledger_kind};
pub(crate) use timelines::Inboxes;
pub use timelines::Presence;
pub(crate) use visibility::AccessChecks;
pub use wiring::FeedParts;
pub use work::StoreHealth;

//! The data model of a feed: the types that the ledger stores, the broker carries and the services use.
//!
//! It contains types, their limits and their text forms, and no behaviour.

mod app_notification;
mod channel;
mod client_event;
mod comment;
mod content_events;
mod content_id;
mod depth;
mod device;
mod domain_event;
mod entry;
mod event_owner;
mod filter;
mod ids;
mod like;
mod list;
mod notification;
mod notification_kind;
mod nulls;
mod object;
mod post;
mod relation;
mod removal;
mod report;
mod standing;
mod subscribe_override;
mod trace;
mod user;

pub use app_notification::{AppGroup, AppNotification, is_app_kind};
pub use channel::{AppChannel, Channel, ChannelKind, InboxId, Retention, canonical_name, into_canonical_name};
pub use client_event::ClientEvent;
pub use comment::Comment;
pub use content_events::others;
pub use content_id::ContentId;
pub use depth::MAX_DEPTH;
pub(crate) use depth::{NESTED_TOO_DEEP, is_shallow};
pub use device::{
    ApnsEnvironment, Device, DeviceId, Platform, PushKinds, PushPreferences, PushTarget, QuietHours, TimeOfDay,
    WebPushKeys,
};
pub use domain_event::{DomainEvent, MAX_LIKES, MAX_MENTIONED, NewLikes};
pub use entry::{CommentChanged, Entry, Epoch, GoneReason, Position, PositionRef, PostRemoved};
pub use event_owner::EventOwner;
pub use filter::{Filter, FilterAction, FilterContext, FilterId};
pub use ids::{CommentId, NotificationId, NotificationPosition, PostId, UserId};
pub use like::{LikeChange, RevertReason, Tally};
pub use list::{List, ListId, ListMember, OwnedList};
pub(crate) use notification::with_kinds;
pub use notification::{AppContent, DeliveredNotification, Notification, NotificationSubject};
pub use notification_kind::{NOTIFICATION_KINDS, NotificationKind};
pub(crate) use nulls::{remove_nulls, without_nulls};
pub use object::{ObjectId, ObjectType};
pub use post::{
    CommentPolicy, FormerPost, Location, Media, MediaKind, Post, PostCounts, PostFlags, PostVia, Quotable, QuoteState,
    QuotedPost, Removal, RepostedBy, ShownPost, VersionedCounts, Visibility,
};
pub use relation::{Relation, Restriction};
pub use removal::RemovedComment;
pub use report::{Report, ReportAction, ReportId, ReportReason, ReportTarget};
pub use standing::Standing;
pub use subscribe_override::{OverrideValue, SubscribeOverride, overridden};
pub(crate) use trace::lenient as lenient_trace;
pub use trace::{TraceContext, TraceParent};
pub use user::{About, Edges, Person, Profile, User, UserDetails, UserOrigin};

/// Milliseconds since the Unix epoch.
pub type Millis = u64;

/// Whether a number can be a time in Unix seconds: up to the end of the year 9999. Milliseconds of any time since 1978
/// are larger, and would be an expiry that never comes.
pub fn is_plausible(seconds: u64) -> bool {
    seconds < 253_402_300_800
}

//! The hub: the clients of this node by channel, and the position up to which they have received each log.
//!
//! Each channel with subscribers on this node has a `Room`. The room knows up to which offset its members have received
//! the log. A hint for the next offset is delivered, an older one is dropped, and a later one shows that hints were
//! lost: then the room reads the log. All members of a room have the same position; a client that joins gets the
//! entries between its own position and that of the room from the log, and all later ones from the room.
//!
//! Application data is delivered where the hint arrives. Entries of the feed are ids: workers load their content, for
//! many rooms with one fetch.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod` | joins |
//! | `log_reader` | log entries as publications in replies |
//! | `rooms`, `room`, `room_link`, `room_update` | the rooms, and their subscriptions in the broker |
//! | `member`, `membership` | the members of rooms |
//! | `recipients` | the members as recipients, with their spellings of the channel |
//! | `special_members` | the members that get other pushes than the rest |
//! | `delta_readers` | the members that receive patches |
//! | `log_tracker` | the position of a room in its log |
//! | `room_queue`, `delivery_worker`, `deliveries` | rooms whose entries need rendering |
//! | `broadcaster` | one push to many send queues |
//! | `catch_up`, `recovery` | what a client missed |
//! | `upkeep` | compares positions with logs, removes empty rooms |

pub(crate) mod broadcaster;
mod catch_up;
mod deliveries;
mod delivery_worker;
mod delta_readers;
pub(crate) mod log_reader;
mod log_tracker;
mod member;
mod membership;
mod recipients;
mod recovery;
pub(crate) mod room;
mod room_link;
pub(crate) mod room_queue;
pub(crate) mod room_update;
pub(super) mod rooms;
mod special_members;
mod upkeep;

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(super) use broadcaster::Broadcaster;
pub use membership::Membership;

use crate::broker::Broker;
use crate::feed::timelines::Source;
use crate::feed::{Audience, Feed, FeedError, Inboxes};
use crate::gateway::channels::join::{Join, Joined};
use crate::gateway::wire::outbox::Outbox;
use crate::model::Position;
use crate::protocol::chain;
use crate::supervisor::supervise;
use catch_up::{CATCH_UP_TIMEOUT, catch_up_with, includes};
use delivery_worker::DeliveryWorker;
use log_reader::LogReader;
use member::{JoiningMember, RoomMember};
use recovery::Recovery;
use room::Room;
use room_queue::RoomQueue;
use rooms::RoomTable;
use upkeep::RoomUpkeep;

/// Delivery workers of a node.
const WORKERS: usize = 2;

/// The hub of this node.
pub struct Hub {
    rooms: Arc<RoomTable>,
    queue: Arc<RoomQueue>,
    broker: Arc<dyn Broker>,
    inboxes: Arc<Inboxes>,
    recovery: Recovery,
    worker: Arc<DeliveryWorker>,
    upkeep: Arc<RoomUpkeep>,
}

/// The parts that a hub uses.
pub(super) struct HubParts<'a> {
    pub(super) feed: &'a Arc<Feed>,
    pub(super) logs: &'a Arc<LogReader>,
    pub(super) broadcaster: &'a Arc<Broadcaster>,
    pub(super) rooms: &'a Arc<RoomTable>,
    pub(super) queue: &'a Arc<RoomQueue>,
    /// The most entries that one recovery returns.
    pub(super) recovery_limit: usize,
}

impl Hub {
    /// A hub without rooms. Needs [`start`](Self::start).
    pub(super) fn new(parts: &HubParts<'_>) -> Self {
        let feed = parts.feed;
        let broker = &feed.base.broker;
        let rooms = Arc::clone(parts.rooms);
        let queue = Arc::clone(parts.queue);
        let recovery =
            Recovery { base: Arc::clone(&feed.base), logs: Arc::clone(parts.logs), limit: parts.recovery_limit as u64 };
        let worker = DeliveryWorker::new(
            Arc::clone(&queue),
            Arc::clone(&feed.base),
            Arc::clone(&feed.event_renderer),
            Arc::clone(parts.broadcaster),
        );
        let upkeep = RoomUpkeep::new(Arc::clone(&rooms), Arc::clone(&queue), Arc::clone(broker));
        Self {
            rooms,
            queue,
            broker: Arc::clone(broker),
            inboxes: Arc::clone(&feed.inboxes),
            recovery,
            worker: Arc::new(worker),
            upkeep: Arc::new(upkeep),
        }
    }

    /// Whether a channel has subscribers on this node, or had some a moment ago.
    pub(super) fn has_room(&self, channel: &str) -> bool {
        self.rooms.get(channel).is_some()
    }

    /// The send queues of a channel's subscribers on this node, each with its spelling of the name if that differs.
    pub(super) fn subscribers(&self, channel: &str) -> Vec<(Arc<Outbox>, Option<Arc<str>>)> {
        self.rooms.get(channel).map_or_else(Vec::new, |room| room.outboxes())
    }

    /// The spelling of a channel's name for the subscriber with this send queue, if it differs. For channels of few.
    pub(super) fn spelling_of(&self, channel: &str, outbox: &Arc<Outbox>) -> Option<Arc<str>> {
        self.subscribers(channel).into_iter().find(|(subscriber, _)| Arc::ptr_eq(subscriber, outbox))?.1
    }

    /// Starts deliveries and upkeep, until `stopping`.
    pub(super) fn start(&self, tasks: &TaskTracker, stopping: &CancellationToken) {
        for _ in 0..WORKERS {
            let worker = Arc::clone(&self.worker);
            let stop = stopping.clone();
            tasks.spawn(async move {
                let stop = &stop;
                supervise("deliveries", stop, worker, |worker| async move { worker.run(stop).await }).await;
            });
        }
        let upkeep = Arc::clone(&self.upkeep);
        let stop = stopping.clone();
        tasks.spawn(async move {
            let stop = &stop;
            supervise("room_positions", stop, upkeep, |upkeep| async move { upkeep.compare_until(stop).await }).await;
        });
        let upkeep = Arc::clone(&self.upkeep);
        let stop = stopping.clone();
        tasks.spawn(async move {
            let stop = &stop;
            supervise("room_sweep", stop, upkeep, |upkeep| async move { upkeep.sweep_until(stop).await }).await;
        });
    }

    /// The number of channels with subscribers on this node.
    pub fn channels(&self) -> usize {
        self.rooms.len()
    }

    /// Adds a client to a channel. From then on, and until the membership is dropped, every entry after
    /// [`Joined::position`] is put into its outbox.
    ///
    /// # Errors
    /// If a store cannot be reached, or the client has exhausted its rate of reads; the client is not in the channel
    /// then.
    pub async fn join(&self, join: &Join, outbox: &Arc<Outbox>) -> Result<(Membership, Joined), FeedError> {
        let Join { name, channel, recover, .. } = join;
        let deadline = Instant::now() + CATCH_UP_TIMEOUT;
        let audience = channel.audience(join.user.as_ref()).ok_or(FeedError::Internal)?;
        let (membership, position) = loop {
            let mut presence = None;
            let room = self.rooms.get_or_create(name, &audience);
            if !room.link(&*self.broker).await? {
                continue;
            }
            if channel.has_log() {
                let end = match Source::of(&audience) {
                    Some(source) => {
                        let (end, tracked) = self.inboxes.track_presence(&source).await?;
                        presence = Some(tracked);
                        Some(end)
                    }
                    None if room.position().is_some_and(|position| includes(&position, recover)) => None,
                    None => self.broker.position(name).await?,
                };
                if let Some(end) = end {
                    self.compare(&room, &end);
                    let to_end = matches!(audience, Audience::List(_));
                    catch_up_with(recover, &room, &end, to_end, deadline).await?;
                }
            }
            // Meanwhile the room may have been removed, or its log replaced.
            let joining = JoiningMember {
                member: RoomMember::new(Arc::clone(outbox), join.user.clone(), join.features.receives_joins),
                spelling: join.spelling.as_ref(),
                has_log: channel.has_log(),
                wants_deltas: join.wants_deltas,
            };
            let Some((key, position)) = room.join(joining) else { continue };
            break (Membership::new(room, key, Arc::clone(outbox), presence), position);
        };
        let missed = match &position {
            Some(position) if recover.recover => self.recovery.missed(join, position).await?,
            _ => None,
        };
        let missed = if join.wants_deltas { missed.map(chain) } else { missed };
        Ok((membership, Joined { position, missed }))
    }

    /// Compares a room with the end of its log.
    fn compare(&self, room: &Arc<Room>, end: &Position) {
        self.queue.apply(room, room.compare(Some(end)));
    }
}

//! What a feed is, one file a concept. Nothing here knows a socket or how something is delivered.
//!
//! | file | what is in it |
//! |---|---|
//! | [`operations`] | the one table of operations, reached by rpc and by HTTP |
//! | `accounts` | sign up, sign in, sign out, passwords |
//! | `identity` | what proves who a caller is |
//! | `revocations` | the ends of tokens and sessions, blocked users |
//! | `audience` | who may see what |
//! | `erasure` | the erasure of users: a tombstone, and the job that removes everything |
//! | `export` | everything that is one user's own |
//! | `posts` | write, get, delete |
//! | `comments` | write, list, delete; threads |
//! | `events` | works the queue of what happened off, into notifications |
//! | `notifications` | who hears of what, grouped; read and seen |
//! | `edits` | change a post |
//! | `graph` | follow, unfollow, who follows whom |
//! | `barriers` | hide, mute, block |
//! | `invalidation` | has every node drop what it cached |
//! | `caching` | a cache that serves no invalidated entry, a bounded map of recent values, coalesced fetches |
//! | `relations` | what is between readers and authors, cached |
//! | `followees` | whom readers follow, cached |
//! | `timelines` | the inbox as a timeline, its pages and what happened since |
//! | `fanout` | carries posts to inboxes |
//! | `quarantine` | sets aside jobs and likes that always fail |
//! | `pulled` | authors with too many followers to write to each |
//! | `reading` | how far a timeline is read |
//! | `favourites` | objects of any type that a user keeps |
//! | `topics` | the plaza |
//! | `likes` | acknowledged at once, settled later |
//! | `lineage` | notices that the ledger was restored or replaced, and what follows |
//! | `bodies` | ids to posts, cached |
//! | `pauses` | notices that this process stood still |
//! | `people` | what is said of oneself, search, suggestions |
//! | `rates` | how often |
//! | `heavy` | reads that take long, few at a time |
//! | `idempotency` | runs an operation, a named write once |
//! | `telling` | log entries put into words, for those who may hear them |
//! | `pages` | a page while it is being filled |
//! | `presentation` | posts as readers are shown them: with counts, flags and people |
//! | `call` | the caller of an operation and what proves it |
//! | `node_ids`, `id_maker` | ids, and the lease of the number of this node |
//! | `runtime` | background tasks and their end |
//! | `error` | everything that can go wrong |

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::auth::{Passwords, RevocationList, SessionIssuer, SignInGuard};
use crate::broker::{Attempt, Broker, CacheLease, Invalidation, Queue};
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::model::{PostId, UserId, UserOrigin};
use crate::net::TrustedProxies;

mod accounts;
mod along;
mod audience;
mod barriers;
mod bodies;
mod caching;
mod call;
mod comments;
mod edits;
mod erasure;
mod error;
mod events;
mod export;
mod fanout;
mod favourites;
mod followees;
mod graph;
mod heavy;
mod id_maker;
mod idempotency;
mod identity;
mod input;
mod invalidation;
mod likes;
mod lineage;
mod node_ids;
mod notifications;
pub mod operations;
mod pages;
mod pauses;
mod people;
mod posts;
mod presentation;
mod pulled;
mod quarantine;
mod rates;
mod reading;
mod recipients;
mod relations;
mod revocations;
mod runtime;
mod telling;
mod timelines;
mod topics;

pub use bodies::Body;
pub use call::{Caller, Credential, Origin};
pub use erasure::{ErasureLogContents, ErasureLogEntry, read_erasure_log};
pub use error::{FeedError, Result};
pub use fanout::FanoutOptions;
pub use identity::NewUser;
pub use likes::{LikesOptions, Whisper};
pub use posts::is_topic_name;
pub use pulled::Presence;
pub use rates::{ADDRESS_READS, Rates};
pub use revocations::PendingChecks;
pub use runtime::now;
pub use telling::{Stage, Told, Viewer, Words};
pub use timelines::{Page, Updates};

use audience::Surface;
use bodies::Bodies;
pub(crate) use call::Call;
use fanout::Fanout;
use input::Done;
use node_ids::NodeIds;
use pulled::Pulled;
use relations::Relations;
use runtime::Runtime;

/// What the configuration says of the feed.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// How many entries an inbox keeps.
    pub timeline_length: usize,
    /// After how long without its owner an inbox goes.
    pub timeline_idle: Duration,
    /// How many posts of a new followee come into the inbox at most; older ones are read from the ledger.
    pub follow_merge: usize,
    /// How many missed entries are told at once; who missed more reads the timeline anew.
    pub recovery_limit: usize,
    /// How long a session lasts.
    pub session_ttl: Duration,
    /// How long after its end a token is still accepted, because clocks differ.
    pub leeway: Duration,
    /// How long a revocation without an end of its own is remembered.
    pub revocation_ttl: Duration,
    /// The file that notes who was erased, beside the backups; `None`: none.
    pub erasure_log: Option<PathBuf>,
    /// How large things may be.
    pub limits: Limits,
    /// How often.
    pub rates: Rates,
    /// Proxies whose address stands for many clients.
    pub trusted_proxies: Arc<TrustedProxies>,
    /// How posts are carried.
    pub fanout: FanoutOptions,
    /// How likes are taken and told.
    pub likes: LikesOptions,
}

/// How large things may be; each is told by name to whoever goes over it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Characters of a post, and of a comment.
    pub text: usize,
    /// Pieces of media of a post.
    pub media: usize,
    /// Topics of a post.
    pub topics: usize,
    /// Bytes of a post's `data` as JSON.
    pub data_bytes: usize,
    /// Whom one user may follow.
    pub follows: u64,
    /// Favourites of one type of one user.
    pub favourites: u64,
}

/// The feed.
pub struct Feed {
    ledger: Arc<dyn Ledger>,
    broker: Arc<dyn Broker>,
    /// Whether this node may use its caches.
    lease: Arc<CacheLease>,
    bodies: Bodies,
    relations: Relations,
    /// Background tasks, and the name of this process in leases.
    runtime: Arc<Runtime>,
    ids: Arc<NodeIds>,
    rates: rates::RateLimits,
    heavy: heavy::HeavyReads,
    fanout: Fanout,
    edit_locks: edits::EditLocks,
    lineage: lineage::LedgerLineage,
    pulled: Arc<Pulled>,
    job_quarantine: quarantine::QuarantineGate,
    like_quarantine: quarantine::QuarantineGate,
    events: events::EventQueue,
    likes: likes::Likes,
    /// Users that are in the ledger for sure, and where their ids come from, which never changes.
    known: Mutex<HashMap<UserId, UserOrigin>>,
    revocations: revocations::Revocations,
    erasures: erasure::Erasures,
    /// Exports under way on this node.
    exports: Semaphore,
    passwords: Passwords,
    issuer: Option<SessionIssuer>,
    sign_ins: Option<Arc<SignInGuard>>,
    metrics: Arc<Metrics>,
    options: FeedOptions,
}

/// What a feed works with.
pub struct Parts {
    /// The durable truth.
    pub ledger: Arc<dyn Ledger>,
    /// The logs.
    pub broker: Arc<dyn Broker>,
    /// What is acknowledged now and written to the ledger later.
    pub queue: Arc<dyn Queue>,
    /// Makes and checks password hashes.
    pub passwords: Passwords,
    /// Signs tokens of those who sign in here; `None` where accounts are off.
    pub issuer: Option<SessionIssuer>,
    /// What is revoked: kept up to date by the feed.
    pub revocations: Arc<RevocationList>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Feed {
    /// A feed that does nothing yet: see [`start`](Self::start).
    pub fn new(parts: Parts, options: FeedOptions) -> Arc<Self> {
        let lease = parts.broker.cache_lease();
        let runtime = Runtime::new();
        let ids = Arc::new(NodeIds::new(Arc::clone(&parts.broker), Arc::clone(&runtime)));
        let erasures = erasure::Erasures::new(erasure::ErasureLog::new(options.erasure_log.clone()));
        Arc::new(Self {
            bodies: Bodies::new(Arc::clone(&parts.ledger), Arc::clone(&lease), Arc::clone(&erasures.users)),
            relations: Relations::new(Arc::clone(&parts.ledger), &lease),
            ledger: parts.ledger,
            broker: parts.broker,
            ids,
            rates: rates::RateLimits::new(options.rates, Arc::clone(&options.trusted_proxies)),
            heavy: heavy::HeavyReads::new(),
            fanout: Fanout::new(options.fanout, &runtime),
            runtime,
            edit_locks: edits::EditLocks::new(),
            lineage: lineage::LedgerLineage::new(),
            pulled: Arc::default(),
            job_quarantine: quarantine::QuarantineGate::default(),
            like_quarantine: quarantine::QuarantineGate::default(),
            events: events::EventQueue::default(),
            likes: likes::Likes::new(parts.queue, options.likes, Arc::clone(&lease)),
            lease,
            known: Mutex::default(),
            revocations: revocations::Revocations::new(parts.revocations),
            erasures,
            exports: Semaphore::new(export::MAX_CONCURRENT_EXPORTS),
            passwords: parts.passwords,
            issuer: parts.issuer,
            sign_ins: SignInGuard::new(options.rates.sessions),
            metrics: parts.metrics,
            options,
        })
    }

    /// Leases this node's number, then keeps it and carries posts until [`stop`](Self::stop).
    ///
    /// # Errors
    /// If no number can be leased.
    pub async fn start(self: &Arc<Self>) -> Result<()> {
        self.start_lineage().await?;
        self.ids.start().await?;
        self.start_revocations().await?;
        self.start_erasure_job();
        self.start_pulling().await?;
        self.start_fanout();
        self.start_events();
        self.start_likes();
        self.start_forgetting();
        Ok(())
    }

    /// Stops carrying posts; jobs not finished stay in the ledger for whoever is next.
    pub async fn stop(&self) {
        self.runtime.stop().await;
        self.release_leases().await;
    }

    /// Round trips made to the ledger so far.
    pub fn ledger_round_trips(&self) -> u64 {
        self.ledger.round_trips()
    }

    /// Whether both stores answer.
    ///
    /// # Errors
    /// The first that does not.
    pub async fn ready(&self) -> Result<()> {
        self.ledger.ping().await?;
        Ok(self.broker.ping().await?)
    }

    /// Whether a user may read what happens under a post.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub async fn may_read_post(&self, reader: Option<&UserId>, id: PostId) -> Result<bool> {
        Ok(!self.seen_by(reader, Surface::Direct, [id]).await?.is_empty())
    }

    /// Whether a user may look at another's profile: not if that one blocks them.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    pub async fn may_read_user(&self, reader: Option<&UserId>, user: &UserId) -> Result<bool> {
        Ok(match reader {
            _ if self.is_erased(user) => false,
            Some(reader) if reader != user => !self.relations.one(reader, user).await?.blocked,
            _ => true,
        })
    }

    /// Takes what another node said: counts, that the pulled log has grown.
    pub fn on_signal(&self, message: &Bytes) {
        if *message == pulled::GROWN {
            return self.pulled.grown.notify_one();
        }
        if *message == events::WRITTEN {
            return self.events.on_signal();
        }
        if *message == lineage::LEDGER_REPLACED {
            return self.lineage.compare_soon();
        }
        if *message == revocations::REVOKED {
            return self.revocations.grown.notify_one();
        }
        if message.starts_with(likes::SETTLED.as_bytes()) {
            self.likes.on_settled(message.slice(likes::SETTLED.len()..));
        }
    }

    /// Until now other nodes may have said something that was not heard here.
    pub fn on_resync(&self) {
        self.pulled.grown.notify_one();
        self.revocations.grown.notify_one();
        self.likes.on_resync();
        // A broker that lost its record of the ledger is to have it before the next number is used.
        self.lineage.compare_soon();
        // A broker that came back empty gives this node's number to the next that asks.
        self.ids.renew_soon();
    }

    /// What came of a deletion: that there is nothing to be deleted may be what an attempt before this one did. That one may
    /// have ended before every node knew.
    async fn deleted(&self, call: &Call, done: Result<Done>, what: Invalidation) -> Result<Done> {
        match (done, call.attempt) {
            (Err(FeedError::NotFound(_)), Attempt::Repeated) => {
                self.invalidate(&[what]).await?;
                Ok(Done {})
            }
            (done, _) => done,
        }
    }

    /// Counts those whom a text mentions against what its author may mention. An attempt that is repeated is counted again: the
    /// one before it may have been refused.
    ///
    /// # Errors
    /// [`FeedError::RateLimited`] if they are too many; nothing is written then.
    async fn count_mentions(&self, call: &Call, mentions: &[UserId]) -> Result<()> {
        if call.origin == Origin::Backend {
            return Ok(());
        }
        let author = call.caller.user()?;
        let others = crate::model::others(mentions, author);
        self.rates.take_mentions(&*self.broker, author, others.len()).await
    }
}

//! Limits the concurrent requests of one caller, and the unsent bytes of responses.
//!
//! A request is in flight from the authentication of its caller until its response is in the connection's buffer. A
//! response larger than [`CHUNK_BYTES`] is written in chunks, at the speed of its reader, so a slow reader soon reaches
//! its limit of requests.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use dashmap::DashMap;
use hyper::body::{Frame, SizeHint};

use crate::feed::{Caller, FeedError, Origin};
use crate::net::{TrustedProxies, subscriber_network};

/// The maximal number of concurrent requests of a user. Browsers open six connections to a host.
const MAX_OF_USER: usize = 32;

/// The maximal number of concurrent requests of an anonymous address. Many people may share one.
const MAX_OF_ADDRESS: usize = 320;

/// The maximal number of unsent bytes of large responses, for all callers together.
const MAX_UNSENT_BYTES: usize = 512 * 1024 * 1024;

/// The size of a chunk, in bytes. Smaller responses do not count as unsent.
const CHUNK_BYTES: usize = 64 * 1024;

/// Counts the requests in flight.
pub(super) struct InFlight {
    shared: Arc<RequestCounts>,
    trusted: Arc<TrustedProxies>,
}

struct RequestCounts {
    /// The number of requests in flight, by a keyed digest of the caller. Callers without requests have no entry.
    callers: DashMap<u64, usize>,
    unsent: AtomicUsize,
    hasher: RandomState,
}

/// A request in flight. It ends when the ticket is dropped.
pub(super) struct Ticket {
    shared: Arc<RequestCounts>,
    /// `None` for callers that are not counted.
    caller: Option<u64>,
    unsent: usize,
}

impl InFlight {
    /// Anonymous requests from `trusted` proxies and from loopback are not counted: many clients share these addresses.
    pub(super) fn new(trusted: Arc<TrustedProxies>) -> Self {
        let shared = RequestCounts { callers: DashMap::new(), unsent: AtomicUsize::new(0), hasher: RandomState::new() };
        Self { shared: Arc::new(shared), trusted }
    }

    /// Admits one more request of a caller.
    ///
    /// # Errors
    /// [`FeedError::TooMany`] if the caller has too many requests in flight.
    pub(super) fn admit(&self, caller: &Caller, origin: Origin) -> Result<Ticket, FeedError> {
        let shared = &self.shared;
        let (digest, most) = match (caller, origin) {
            (_, Origin::Backend) => return Ok(self.ticket(None)),
            (Caller::User(user), _) => (shared.hasher.hash_one(user.as_str()), MAX_OF_USER),
            (Caller::Anonymous, Origin::Address(address) | Origin::Connection(address)) => {
                match self.digest_of(address) {
                    Some(digest) => (digest, MAX_OF_ADDRESS),
                    None => return Ok(self.ticket(None)),
                }
            }
        };
        let mut count = shared.callers.entry(digest).or_insert(0);
        if *count >= most {
            return Err(FeedError::TooMany("too many requests under way at once, wait for some of them"));
        }
        *count += 1;
        drop(count);
        Ok(self.ticket(Some(digest)))
    }

    fn digest_of(&self, address: IpAddr) -> Option<u64> {
        (!self.trusted.is_exempt(address)).then(|| self.shared.hasher.hash_one((1, subscriber_network(address))))
    }

    fn ticket(&self, caller: Option<u64>) -> Ticket {
        Ticket { shared: Arc::clone(&self.shared), caller, unsent: 0 }
    }
}

impl Ticket {
    /// Converts a response to a body that ends this ticket when the connection has taken all of it.
    ///
    /// # Errors
    /// [`FeedError::Busy`] if too many bytes are unsent already.
    pub(super) fn into_body(mut self, answer: Bytes) -> Result<Body, FeedError> {
        if answer.len() <= CHUNK_BYTES {
            return Ok(Body::from(answer));
        }
        let before = self.shared.unsent.fetch_add(answer.len(), Ordering::Relaxed);
        self.unsent = answer.len();
        if before.saturating_add(answer.len()) > MAX_UNSENT_BYTES {
            return Err(FeedError::Busy("too much waits for slow readers, try again"));
        }
        Ok(Body::new(Chunks { rest: answer, _ticket: self }))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.shared.unsent.fetch_sub(self.unsent, Ordering::Relaxed);
        let Some(caller) = self.caller else { return };
        self.shared.callers.remove_if_mut(&caller, |_, count| {
            *count = count.saturating_sub(1);
            *count == 0
        });
    }
}

/// A response in chunks.
struct Chunks {
    rest: Bytes,
    _ticket: Ticket,
}

impl hyper::body::Body for Chunks {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let length = self.rest.len().min(CHUNK_BYTES);
        let chunk = self.rest.split_to(length);
        Poll::Ready((!chunk.is_empty()).then(|| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;
    use crate::model::UserId;

    fn user(id: &str) -> Caller {
        Caller::User(UserId::parse(id).expect("an id"))
    }

    fn origin(address: &str) -> Origin {
        Origin::Address(address.parse().expect("an address"))
    }

    #[test]
    fn one_caller_cannot_use_all_slots() {
        let requests = InFlight::new(Arc::default());
        let admit = |id: &str| requests.admit(&user(id), origin("203.0.113.9"));
        let held: Vec<_> = (0..MAX_OF_USER).map(|_| admit("ann").expect("room")).collect();
        assert!(matches!(admit("ann"), Err(FeedError::TooMany(_))));
        assert!(admit("bo").is_ok(), "others go on");
        assert!(requests.admit(&user("ann"), Origin::Backend).is_ok(), "backends are not counted");
        drop(held);
        assert!(admit("ann").is_ok());
        assert!(requests.shared.callers.is_empty(), "nothing is left behind");
    }

    #[test]
    fn anonymous_requests_are_counted_by_address_but_for_loopback() {
        let requests = InFlight::new(Arc::default());
        let admit = |address: &str| requests.admit(&Caller::Anonymous, origin(address));
        let held: Vec<_> = (0..MAX_OF_ADDRESS).map(|_| admit("203.0.113.9").expect("room")).collect();
        assert!(admit("203.0.113.9").is_err());
        assert!(admit("203.0.113.10").is_ok(), "another address");
        let local: Vec<_> = (0..=MAX_OF_ADDRESS).map(|_| admit("127.0.0.1")).collect();
        assert!(local.iter().all(Result::is_ok));
        drop(held);
    }

    #[tokio::test]
    async fn large_answers_count_until_they_are_read() {
        let requests = InFlight::new(Arc::default());
        let answer = Bytes::from(vec![7; 3 * CHUNK_BYTES + 1]);
        let ticket = requests.admit(&user("ann"), origin("203.0.113.9")).expect("room");
        let body = ticket.into_body(answer.clone()).expect("room");
        assert_eq!((requests.shared.callers.len(), requests.shared.unsent.load(Ordering::Relaxed)), (1, answer.len()));
        assert_eq!(to_bytes(body, usize::MAX).await.expect("a body"), answer);
        assert_eq!((requests.shared.callers.len(), requests.shared.unsent.load(Ordering::Relaxed)), (0, 0));
        // The limit of unsent bytes applies to all readers together.
        let huge = Bytes::from(vec![0; MAX_UNSENT_BYTES / 4]);
        let tickets = (0..5).map(|_| requests.admit(&user("bo"), origin("203.0.113.9")).expect("room"));
        let bodies: Vec<_> = tickets.map(|ticket| ticket.into_body(huge.clone())).collect();
        assert_eq!(bodies.iter().filter(|body| body.is_ok()).count(), 4);
        drop(bodies);
        assert_eq!(requests.shared.unsent.load(Ordering::Relaxed), 0);
    }
}

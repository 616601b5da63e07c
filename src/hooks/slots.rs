//! HookSlots: the questions that one hook may ask at once, and the parts of them that one client may have.

use std::net::IpAddr;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::HookKind;
use crate::model::UserId;
use crate::net::{TrustedProxies, subscriber_network};
use crate::shares::{Shares, SourceId};

/// The part of the slots that one user, or one address without a user, may have.
const SOURCE_PART: usize = 4;

/// The part that all users of one address may have.
const ADDRESS_PART: usize = 2;

/// The client that a question is about.
#[derive(Clone, Copy, Debug)]
pub struct HookClient<'a> {
    /// The user; `None` for an anonymous client, or one that connects.
    pub user: Option<&'a UserId>,
    /// The client's address.
    pub address: IpAddr,
}

/// The client of a question, as it is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct HookSource {
    /// The user, or the address of a client without one.
    pub(super) source: SourceId,
    /// The address, if it counts besides the user.
    pub(super) address: Option<SourceId>,
}

impl HookSource {
    /// Who connects is known by the address alone: the user is what the backend is asked for. Users of this machine or
    /// of a trusted proxy share an address, which is not counted for them.
    pub(super) fn new(kind: HookKind, client: &HookClient<'_>, proxies: &TrustedProxies) -> Self {
        let address = SourceId::of(&("address", subscriber_network(client.address)));
        match client.user.filter(|_| kind != HookKind::Connect) {
            Some(user) => {
                let address = Some(address).filter(|_| !proxies.is_exempt(client.address));
                Self { source: SourceId::of(&("user", user)), address }
            }
            None => Self { source: address, address: None },
        }
    }
}

/// The slots of one hook.
pub(super) struct HookSlots {
    slots: Semaphore,
    by_source: Shares,
    by_address: Shares,
}

/// The right to ask one question.
pub(super) struct HookSlot<'a> {
    #[expect(dead_code, reason = "held until the question is answered")]
    shares: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
    #[expect(dead_code, reason = "held until the question is answered")]
    slot: SemaphorePermit<'a>,
}

impl HookSlots {
    pub(super) fn new(number: usize) -> Self {
        Self {
            slots: Semaphore::new(number),
            by_source: Shares::part(number, SOURCE_PART),
            by_address: Shares::part(number, ADDRESS_PART),
        }
    }

    /// Waits for a slot. Those that wait for their own share take none.
    pub(super) async fn acquire(&self, from: HookSource) -> Option<HookSlot<'_>> {
        let of_source = self.by_source.acquire(from.source).await?;
        let of_address = match from.address {
            Some(address) => Some(self.by_address.acquire(address).await?),
            None => None,
        };
        let slot = self.slots.acquire().await.ok()?;
        Some(HookSlot { shares: (of_source, of_address), slot })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn from(kind: HookKind, user: Option<&str>, address: &str) -> HookSource {
        let user = user.map(|user| UserId::parse(user).expect("a user"));
        let client = HookClient { user: user.as_ref(), address: address.parse().expect("an address") };
        HookSource::new(kind, &client, &TrustedProxies::parse(["10.0.0.0/8"]).expect("a network"))
    }

    /// The slots that a client gets before it has to wait, while it holds them.
    fn taken<'a>(slots: &'a HookSlots, from: HookSource) -> Vec<HookSlot<'a>> {
        std::iter::from_fn(|| slots.acquire(from).now_or_never().flatten()).take(100).collect()
    }

    #[test]
    fn users_and_addresses_have_a_part_of_the_turns() {
        let slots = HookSlots::new(16);
        let rpc = |user, address| from(HookKind::Rpc, Some(user), address);
        let ann = taken(&slots, rpc("ann", "192.0.2.1"));
        let bo = taken(&slots, rpc("bo", "192.0.2.1"));
        assert_eq!((ann.len(), bo.len()), (4, 4));
        assert!(taken(&slots, rpc("cy", "192.0.2.1")).is_empty(), "half is for other addresses");
        let anonymous = taken(&slots, from(HookKind::Rpc, None, "192.0.2.1"));
        assert_eq!(anonymous.len(), 4, "by address, whatever users there are");
        let proxied = taken(&slots, rpc("dee", "10.0.0.1"));
        assert_eq!(proxied.len(), 4);
        drop(ann);
        assert_eq!(taken(&slots, rpc("eve", "10.0.0.1")).len(), 4, "users of a proxy are not counted together");
    }

    #[test]
    fn clients_that_connect_are_counted_by_address() {
        let slots = HookSlots::new(16);
        let connect = |user, address| from(HookKind::Connect, user, address);
        let first = taken(&slots, connect(Some("ann"), "2001:db8::1"));
        assert_eq!(first.len(), 4);
        assert!(taken(&slots, connect(None, "2001:db8::2")).is_empty(), "the same subscriber");
        assert_eq!(taken(&slots, connect(None, "2001:db8:1::1")).len(), 4);
    }
}

//! Executes `connect` and `subscribe`: authorises the client, and joins it to channels.

use std::sync::Arc;

use futures::future::join_all;

use super::outcome::{CommandOutcome, OpenedConnection};
use super::presence_tracker::{PresenceTracker, Subscriber};
use super::single_connection::SingleConnection;
use crate::auth::TokenIdentity;
use crate::denials::{Denied, deny};
use crate::feed::{Base, Credential, FeedError, NewUser};
use crate::gateway::channels::join::{Join, Joined};
use crate::gateway::hub::Hub;
use crate::gateway::registry::sockets::UserSockets;
use crate::gateway::session::{AccessCheck, ConnectGrant, ServerJoin, disconnect_for};
use crate::gateway::wire::outbox::Outbox;
use crate::gateway::wire::outgoing::Outgoing;
use crate::model::{Channel, UserId};
use crate::protocol::{Disconnect, ErrorCode};

/// Joins clients to channels.
pub(crate) struct Subscriptions {
    pub(crate) hub: Arc<Hub>,
    pub(crate) sockets: Arc<UserSockets>,
    pub(crate) presence: Arc<PresenceTracker>,
    pub(crate) base: Arc<Base>,
    /// Closes the other connections of a user who connects; `None`: they stay.
    pub(crate) single: Option<SingleConnection>,
}

impl Subscriptions {
    /// Connects a client, and joins it to its channels.
    pub(crate) async fn open(&self, mut grant: ConnectGrant, outbox: &Arc<Outbox>) -> CommandOutcome {
        let credential = credential_of(grant.user.as_ref(), grant.token.clone());
        // Registered first, then checked: one of the two notices a token that ends meanwhile.
        let registration = self.sockets.register(grant.user.clone(), &grant.client, grant.token.clone(), outbox);
        match self.authorize(grant.user.as_ref(), &credential).await {
            Ok(user) => {
                if let Some(user) = &user {
                    grant.joins.iter_mut().for_each(|join| join.respell(user));
                }
                grant.user = user;
            }
            Err(error) if error.is_temporary() => {
                tracing::warn!(%error, user = ?grant.user, "a connect failed");
                return CommandOutcome::NotOpened(grant.id);
            }
            Err(error) => return CommandOutcome::Rejected(self.rejection(&grant, &error)),
        }
        let joins = grant.joins.into_iter().map(|join| async {
            let joined = match self.may_enter(&join).await {
                Ok(true) => self.enter(&join, outbox).await.map(Some),
                Ok(false) => Ok(None),
                Err(error) => Err(error),
            };
            (join, joined)
        });
        let mut opened = Vec::new();
        let mut failed = None;
        for (join, joined) in join_all(joins).await {
            match joined {
                Ok(Some((subscriber, joined))) => opened.push((join, subscriber, joined)),
                // A post or profile that the user cannot see, or that is deleted, is omitted from the reply.
                Ok(None) => {}
                Err(error) => failed = Some(error),
            }
        }
        if failed.is_none()
            && let (Some(single), Some(user)) = (&self.single, registration.user())
        {
            failed = single.close_others(user, &grant.client).await.err().map(FeedError::from);
        }
        let Some(error) = failed else {
            let opened = OpenedConnection { id: grant.id, user: grant.user, registration, joined: opened };
            return CommandOutcome::Opened(Box::new(opened));
        };
        tracing::debug!(%error, "a connect failed");
        CommandOutcome::NotOpened(grant.id)
    }

    /// Checks a client that connects. Returns its user, with the id as first written.
    async fn authorize(&self, user: Option<&UserId>, credential: &Credential) -> Result<Option<UserId>, FeedError> {
        let user = self.base.identity.authorize(user, credential, NewUser::Recorded).await?;
        if let Some(user) = &user {
            self.base.identity.refuse_suspended(user).await?;
        }
        Ok(user)
    }

    /// The close code for a client that may not connect.
    fn rejection(&self, grant: &ConnectGrant, error: &FeedError) -> Disconnect {
        match self.base.identity.check_revoked(grant.user.as_ref(), grant.token.as_deref()) {
            Err(revoked) => disconnect_for(revoked),
            Ok(()) if grant.user.as_ref().is_some_and(|user| self.base.identity.is_suspended(user)) => {
                Disconnect::PERMISSION_DENIED
            }
            Ok(()) => Disconnect { reason: error.to_string().into(), ..Disconnect::INVALID_TOKEN },
        }
    }

    /// Subscribes a client to a channel.
    pub(crate) async fn join(&self, join: Join, outbox: &Arc<Outbox>) -> CommandOutcome {
        let user = join.user.as_ref();
        let taken = self.base.rates.take_subscription(user, join.address);
        if let Err(error) = taken.and_then(|()| self.base.rates.take_reads(user, join.address, cost_of(&join))) {
            return CommandOutcome::failed(join.id, &error);
        }
        match self.may_enter(&join).await {
            Ok(true) => {}
            Ok(false) => {
                deny(Denied::Subscription, ErrorCode::UNKNOWN_CHANNEL.message, &format_args!("{:?}", join.name));
                return CommandOutcome::refused(join.id, ErrorCode::UNKNOWN_CHANNEL);
            }
            Err(error) => return CommandOutcome::failed(join.id, &error),
        }
        match self.enter(&join, outbox).await {
            Ok((_, joined))
                if join.recover.recover && joined.missed.is_none() && join.recover.rejects_unrecovered() =>
            {
                CommandOutcome::refused(join.id, ErrorCode::UNRECOVERABLE_POSITION)
            }
            Ok((subscriber, joined)) => CommandOutcome::Joined(Box::new(join), subscriber, joined),
            Err(error) => CommandOutcome::failed(join.id, &error),
        }
    }

    /// Subscribes a client to a channel for a backend, unless the user cannot see its post or profile.
    pub(crate) async fn join_for_backend(&self, joining: Box<ServerJoin>, outbox: &Arc<Outbox>) -> CommandOutcome {
        let join = &joining.join;
        let joined = match self.may_enter(join).await {
            Ok(true) => self.enter(join, outbox).await,
            Ok(false) => return CommandOutcome::NotJoined,
            Err(error) => Err(error),
        };
        match joined {
            Ok((subscriber, joined)) => CommandOutcome::JoinedForBackend(joining, subscriber, joined),
            Err(error) => {
                tracing::warn!(%error, channel = %join.name, "a backend's subscription failed");
                CommandOutcome::NotJoined
            }
        }
    }

    /// Adds a client to a room, and makes it present there. If access was lost meanwhile, the check of the room's
    /// members may have come before the client was one, so the connection checks its subscriptions again.
    async fn enter(&self, join: &Join, outbox: &Arc<Outbox>) -> Result<(Subscriber, Joined), FeedError> {
        let (membership, joined) = self.hub.join(join, outbox).await?;
        if !self.may_enter(join).await? {
            outbox.push(Outgoing::CheckAccess);
        }
        Ok((self.presence.enter(join, membership).await, joined))
    }

    /// Finds the channels whose posts and profiles the user cannot see any more. If the ledger cannot be read, the
    /// subscriptions stay: every delivery checks its readers.
    pub(crate) async fn check_access(&self, check: AccessCheck) -> CommandOutcome {
        let mut lost = Vec::new();
        for (name, channel) in check.channels {
            match self.can_see(check.user.as_ref(), &channel).await {
                Ok(true) => {}
                Ok(false) => lost.push(name),
                Err(error) => tracing::debug!(%error, channel = %name, "a subscription could not be checked"),
            }
        }
        CommandOutcome::AccessLost(lost)
    }

    /// Whether the user may see the post or the profile of the channel, or has the list.
    async fn may_enter(&self, join: &Join) -> Result<bool, FeedError> {
        self.can_see(join.user.as_ref(), &join.channel.channel).await
    }

    async fn can_see(&self, user: Option<&UserId>, channel: &Channel) -> Result<bool, FeedError> {
        match channel {
            Channel::Post(post) => self.base.visibility.can_see_post(user, *post).await,
            Channel::User(author) => {
                let Base { visibility, .. } = &*self.base;
                Ok(visibility.can_see_profile(user, author).await? && visibility.is_open_to(user, author).await?)
            }
            Channel::List(list) => match user {
                Some(owner) => Ok(self.base.ledger.list(owner, *list).await?.is_some()),
                None => Ok(false),
            },
            _ => Ok(true),
        }
    }
}

/// The proof of a client's identity: its token, or the word of the application.
pub(crate) fn credential_of(user: Option<&UserId>, token: Option<Arc<TokenIdentity>>) -> Credential {
    match (user, token) {
        (_, Some(token)) => Credential::Token(token),
        (Some(_), None) => Credential::Vouched,
        (None, None) => Credential::Nothing,
    }
}

/// The cost of a subscription in `rates.reads`, without the entries that it recovers. A subscription to a channel of
/// the application that recovers nothing reads nothing.
fn cost_of(join: &Join) -> u32 {
    match join.channel.channel {
        Channel::App(_) => u32::from(join.recover.recover),
        _ => 1,
    }
}
